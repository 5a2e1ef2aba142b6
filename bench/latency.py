"""Drives a running server over real sockets, load after load, and says how soon and how smoothly it speaks.

`firstword bench` is its command. A silent, truncated or looping answer fails the run, however fast it was.
"""

import json
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from firstword.bench.client import Ask, Client, Protocol, Voice
from firstword.bench.data_set import own_sentences, read_items, read_reference
from firstword.bench.levels import Goal, Level, capacity_hz, goodput, level_of, server_times
from firstword.bench.load import Load, asks, run_load, watched_lag
from firstword.bench.plots import plot_latency
from firstword.bench.terminal import Bar, cosyvoice_table, level_table, progress_of, show, verdict_lines

CAPACITY_SHARES = (0.3, 0.5, 0.7, 1.0, 2.0)
MIN_REQUESTS = 12  # of a Poisson rate, on average: a low one takes up to twice as long for them


@dataclass(frozen=True, slots=True)
class Sweep:
    """The loads of a run, one after the other: closed loops, listeners, Poisson rates.

    rates_hz None: CAPACITY_SHARES of what the closed loop reached. seconds: of each load.
    """

    concurrency: tuple[int, ...] = (1, 2, 4, 8)
    listeners: tuple[int, ...] = ()
    rates_hz: tuple[float, ...] | None = None
    seconds: float = 30.0
    seed: int = 0

    @property
    def num_rates(self) -> int:
        return len(CAPACITY_SHARES) if self.rates_hz is None else len(self.rates_hz)


@dataclass(frozen=True, slots=True)
class VoiceChoice:
    """Who speaks: a speaker by name, or a recording's file with what is said in it.

    is_cold: no request's recording was seen by the server before.
    """

    speaker: str | None = None
    reference: Path | None = None
    reference_text: str = ""
    is_cold: bool = False

    def open(self) -> Voice:
        """Raises ValueError if the reference is no recording, or cannot be cold."""
        if self.is_cold and not (self.reference and self.reference_text):
            raise ValueError("a cold speaker is a recording with what is said in it; give both")
        reference = read_reference(self.reference, self.reference_text) if self.reference else None
        return Voice(self.speaker, reference, self.is_cold)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run measures; data: a JSON Lines file instead of our own sentences. The rest is `Client`'s."""

    url: str
    api_key: str | None = None
    voice: VoiceChoice = VoiceChoice()
    protocols: tuple[Protocol, ...] = ("http",)
    sweep: Sweep = Sweep()
    goal: Goal = field(default_factory=Goal)
    judges_speech: bool = True
    grpc_address: str | None = None
    data: Path | None = None
    audio_dir: Path | None = None
    metrics_url: str | None = None

    def client(self) -> Client:
        """Open a client. Raises ValueError as `VoiceChoice.open` does."""
        return Client(
            self.url,
            self.api_key,
            self.voice.open(),
            judges_speech=self.judges_speech,
            grpc_address=self.grpc_address,
            audio_dir=self.audio_dir,
            metrics_url=self.metrics_url,
        )

    def as_json(self) -> dict[str, Any]:
        """Return one flat object, without the key."""
        flat = asdict(self)
        flat = flat.pop("voice") | flat.pop("sweep") | flat | {"api_key": None}
        return {name: str(value) if isinstance(value, Path) else value for name, value in flat.items()}


@dataclass(frozen=True, slots=True)
class Report:
    plan: Plan
    server: dict[str, Any]  # its own account of itself
    levels: tuple[Level, ...]

    @property
    def is_sound(self) -> bool:
        """Whether every request was served whole or refused in good order, and some were served."""
        return not any(level.counts.num_failed for level in self.levels) and any(
            level.counts.num_served for level in self.levels
        )

    def as_json(self) -> dict[str, Any]:
        best = goodput(self.levels)
        return {
            "plan": self.plan.as_json(),
            "server": self.server,
            "client": {
                "machine": platform.machine(),
                "cpus": os.cpu_count(),
                "python": platform.python_version(),
            },
            "goodput": None if best is None else {"rate_hz": best.load.amount, "realtime": best.realtime},
            "levels": [level.as_json() for level in self.levels],
        }


async def measure(plan: Plan, on_level: Callable[[Level], None] = lambda level: None) -> Report:
    """Run each load of a plan. on_level: called with each load's figures as soon as they are there.

    Raises httpx.HTTPError where no server answers, ValueError where no text is in a language it speaks.
    """
    sweep = plan.sweep
    num_loads = len(plan.protocols) * (len(sweep.concurrency) + len(sweep.listeners)) + sweep.num_rates
    async with plan.client() as client:
        server = await client.describe()
        client.sample_rate_hz = server["default_sample_rate"]
        items = read_items(plan.data) if plan.data else own_sentences(tuple(server["languages"]))
        wanted = {protocol: asks(items, protocol) for protocol in plan.protocols}
        for protocol in plan.protocols:
            await client.speak(next(wanted[protocol]))  # connections and caches stand from here on
        levels: list[Level] = []
        with progress_of(sweep.seconds * num_loads) as bar:

            async def take(loads: Sequence[Load]) -> None:
                for load in loads:
                    levels.append(level := await _taken(client, load, plan, wanted[load.protocol], bar))
                    on_level(level)
                    if load.kind == "listeners" and level.counts.num_stalled:
                        return  # more of them would stall more

            for protocol in plan.protocols:
                await take([Load("closed", n, sweep.seconds, protocol) for n in sweep.concurrency])
                await take([Load("listeners", n, sweep.seconds, protocol) for n in sweep.listeners])
            await take(_poisson_loads(plan, capacity_hz(levels)))
    return Report(plan, server, tuple(levels))


def write(report: Report, json_path: Path | None, plot_path: Path | None) -> None:
    if json_path is not None:
        json_path.parent.mkdir(parents=True, exist_ok=True)
        json_path.write_text(json.dumps(report.as_json(), indent=1) + "\n", encoding="utf-8")
    if plot_path is not None:
        plot_latency(report.levels, report.plan.goal, plot_path)


def show_report(report: Report, table: str | None = None) -> None:
    """Print the figures. table: "cosyvoice" adds one in the layout of the published deployment."""
    goal = report.plan.goal
    show(level_table(report.levels, goal), *verdict_lines(report.levels, goal))
    if table == "cosyvoice":
        sends_recordings = report.plan.voice.reference is not None
        show(*cosyvoice_table(report.levels, uses_speaker_cache=not sends_recordings))


async def _taken(client: Client, load: Load, plan: Plan, wanted: Iterator[Ask], bar: Bar) -> Level:
    bar.say(str(load))
    before = await client.server_times(load.protocol)
    async with watched_lag() as lag:
        outcomes = await run_load(load, wanted, client.speak, plan.sweep.seed)
    bar.advance(plan.sweep.seconds)
    times = server_times(before, await client.server_times(load.protocol))
    return replace(level_of(load, outcomes, plan.goal, lag.worst_s), server=times)


def _poisson_loads(plan: Plan, capacity: float) -> list[Load]:
    """Return the Poisson loads, over the first protocol; none if there is no capacity to take shares of."""
    rates = plan.sweep.rates_hz
    if rates is None:
        rates = tuple(share * capacity for share in CAPACITY_SHARES if capacity)
    return [Load("poisson", rate, _seconds(plan.sweep.seconds, rate), plan.protocols[0]) for rate in rates]


def _seconds(wanted_s: float, rate_hz: float) -> float:
    return min(2 * wanted_s, max(wanted_s, MIN_REQUESTS / rate_hz))
