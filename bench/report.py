"""Measures the built-in voice: stages, load and a thousand short streams, in under a quarter of an hour.

Starts its own servers on free ports of the loopback and stops them. Writes build/bench/*.json and *.png, and
prints the table of targets. Ends with 1 where speech was not sound or something was left behind; a target
that is missed is a result, not a failure.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.settings import load_settings
from firstword.bench import latency, soak, stages
from firstword.bench.arguments import amount, count
from firstword.bench.estimates import Interval, Quantile
from firstword.bench.hearing import ServerAnswer
from firstword.bench.latency import Sweep
from firstword.bench.levels import listeners_without_a_gap
from firstword.bench.plots import plot_stages
from firstword.bench.server import OwnServer, ServerDidNotStart, own_server
from firstword.bench.targets import Reached, as_json, table_of
from firstword.bench.terminal import show

FOLDER = Path("build/bench")
LISTENERS = (1, 2, 3, 4, 6, 8, 12, 16)
BUILTIN = {"checkpoint": BUILTIN_CHECKPOINT, "backend": "torch"}
SECONDS = 20.0  # of each load
STREAMS_IN_SOAK = 1000


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench report", description=__doc__)
    parser.add_argument("--seconds", type=amount, default=SECONDS, help="of each load")
    parser.add_argument("--streams", type=count, default=STREAMS_IN_SOAK, help="of the soak")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    given = parser.parse_args(words)
    given.folder.mkdir(parents=True, exist_ok=True)
    try:
        return _all(given.seconds, given.streams, given.folder)
    except (ServerDidNotStart, ServerAnswer, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


def _all(seconds: float, num_streams: int, folder: Path) -> int:
    began_s = time.perf_counter()
    reached = _stages(folder)
    with own_server(BUILTIN) as server:
        found, is_sound = _latency(server, seconds, folder)
        reached |= found
    # A fresh one: memory is told from its first streams on. With places enough, so that none is refused.
    with own_server(BUILTIN | {"max_streams": 8}) as server:
        soaked = asyncio.run(soak.measure(server, num_streams, at_a_time=4))
    soak.show_report(soaked)
    _write(folder / "soak.json", soak.as_json(soaked))
    how_sure = f"after {num_streams} streams over after {round(num_streams * soak.MARKS[0])}"
    reached["memory"] = (soaked.memory_ratio, how_sure)
    _write(folder / "targets.json", as_json(reached))
    show(table_of(reached), f"{time.perf_counter() - began_s:.0f} s; all of it is in {folder}")
    return 0 if is_sound and not soaked.leaks and not soaked.faults else 1


def _stages(folder: Path) -> Reached:
    settings = load_settings(checkpoint=BUILTIN_CHECKPOINT)
    utterance = stages.measure(settings, stages.TEXT, stages.LAST_S, runs=1)
    stages.show_report(utterance)
    _write(folder / "stages.json", stages.as_json(utterance, settings))
    plot_stages(
        utterance.chunks,
        stages.title_of(settings),
        folder / "stages.png",
    )
    found = stages.constancy(utterance.chunks)
    return {} if found is None else {"constancy": (found.value, _range(found))}


def _latency(server: OwnServer, seconds: float, folder: Path) -> tuple[Reached, bool]:
    """Measure HTTP under load, and one WebSocket for the RTF. The bool: all speech was sound."""
    plan = latency.Plan(server.url, sweep=Sweep(listeners=LISTENERS, seconds=seconds))
    report = asyncio.run(latency.measure(plan))
    alone = asyncio.run(
        latency.measure(
            replace(plan, protocols=("ws",), sweep=Sweep(concurrency=(1,), rates_hz=(), seconds=seconds))
        )
    )
    report = replace(report, levels=(*report.levels, *alone.levels))
    latency.show_report(report)
    latency.write(report, folder / "latency.json", folder / "latency.png")
    first, last = report.levels[0], alone.levels[0]
    reached: Reached = {
        "listeners": (listeners_without_a_gap(report.levels), f"{seconds:g} s of each number")
    }
    if first.quantiles.ttfb:
        reached["ttfb_ms"] = (1000 * first.quantiles.ttfb[0].value, _range(first.quantiles.ttfb[0], 1000))
    if last.quantiles.compute_rtf:
        reached["rtf"] = (last.quantiles.compute_rtf[0].value, _range(last.quantiles.compute_rtf[0]))
    return reached, report.is_sound


def _range(found: Quantile | Interval, scale: float = 1) -> str:
    """Return words such as "95 %: 0.9 to 1.1, n=12"; "?" where so few values do not bound it."""
    low, high = ("?" if end is None else f"{scale * end:.3g}" for end in (found.low, found.high))
    return f"95 %: {low} to {high}, n={found.num_values}"


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
