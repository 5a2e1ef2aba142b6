"""A server in a process of its own, over fakes or a checkpoint, which measures the lag of its event loop.

`python -m tests.hostile.server [CHECKPOINT DATA_DIR]` prints its addresses as a line of JSON. It measures
from each odd line of its input to the next, and prints what it measured as another line of JSON. It runs
until it is killed.
"""

import asyncio
import gc
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from firstword.app.http.metrics_port import metrics_server
from firstword.app.http.service import Service
from firstword.app.memory import give_back
from firstword.app.service import running
from firstword.app.settings import load_settings
from tests.support.grpc_serving import grpc_serving
from tests.support.serving import make_services, serving

TICK_S = 0.005


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def watch_lag(lags_s: list[float]) -> None:
    """Record how much later than asked for each sleep ends."""
    while True:
        asked_s = time.perf_counter()
        await asyncio.sleep(TICK_S)
        lags_s.append(time.perf_counter() - asked_s - TICK_S)


async def next_line() -> None:
    await asyncio.to_thread(sys.stdin.readline)


def say(values: dict[str, object]) -> None:
    print(json.dumps(values), flush=True)  # noqa: T201


@asynccontextmanager
async def speaking(checkpoint: str, data_dir: str) -> AsyncIterator[Service]:
    """checkpoint: "": fakes."""
    if not checkpoint:
        yield make_services()
        return
    settings = load_settings(checkpoint=Path(checkpoint), data_dir=Path(data_dir))
    async with running(settings) as service:
        yield service


async def main(checkpoint: str = "", data_dir: str = "") -> None:
    async with (
        speaking(checkpoint, data_dir) as services,
        serving(services) as url,
        grpc_serving(services) as rpc,
        metrics_server(0, "127.0.0.1", services) as metrics_port,
    ):
        say({"url": url, "grpc": rpc.address, "metrics": f"http://127.0.0.1:{metrics_port}"})
        await next_line()
        while True:
            gc.collect()
            give_back()  # or what the last attack left free would hide what this one takes
            before_bytes = resident_bytes()
            lags_s: list[float] = []
            watching = asyncio.create_task(watch_lag(lags_s))
            await next_line()
            watching.cancel()
            lags_s.sort()
            say(
                {
                    "lag_p99_s": round(lags_s[int(0.99 * (len(lags_s) - 1))], 4),
                    "lag_max_s": round(lags_s[-1], 4),
                    "grown_mb": round((resident_bytes() - before_bytes) / 1e6, 1),
                }
            )
            await next_line()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))  # as the service does
