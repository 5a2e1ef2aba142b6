"""A server over fakes in a process of its own, which measures the lag of its event loop.

`python -m tests.hostile.server` prints the addresses of HTTP and gRPC as a line of JSON, measures from the
first line of its input to the second, and prints what it measured as another line of JSON.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

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


async def main() -> None:
    services = make_services()
    async with serving(services) as url, grpc_serving(services) as rpc:
        print(json.dumps({"url": url, "grpc": rpc.address}), flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        lags_s: list[float] = []
        before_bytes = resident_bytes()
        watching = asyncio.create_task(watch_lag(lags_s))
        await asyncio.to_thread(sys.stdin.readline)
        watching.cancel()
        lags_s.sort()
        report = {
            "lag_p99_s": round(lags_s[int(0.99 * (len(lags_s) - 1))], 4),
            "lag_max_s": round(lags_s[-1], 4),
            "grown_mb": round((resident_bytes() - before_bytes) / 1e6, 1),
        }
        print(json.dumps(report), flush=True)  # noqa: T201
        os._exit(0)  # what an attack holds open would keep the server from ending in order


if __name__ == "__main__":
    asyncio.run(main())
