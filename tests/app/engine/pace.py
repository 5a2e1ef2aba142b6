"""Time and turns in the hands of a test."""

import asyncio


class Clock:
    def __init__(self, now: float = 100.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


async def until_idle() -> None:
    """Lets every task run as far as it can without anything new from outside."""
    for _ in range(10):
        await asyncio.sleep(0)
