"""Turns of the event loop in the hands of a test."""

import asyncio


async def until_idle() -> None:
    """Lets every task run as far as it can without anything new from outside."""
    for _ in range(10):
        await asyncio.sleep(0)
