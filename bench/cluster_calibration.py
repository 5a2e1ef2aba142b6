"""Runs two servers with small random networks, and sets what they do beside the model of `bench.cluster`."""

import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import httpx
import simpy
from rich.table import Table

from firstword.bench.client import Ask, Client, Outcome
from firstword.bench.cluster import Cluster, Scenario, Times, simulate
from firstword.bench.load import poisson_times
from firstword.bench.random_checkpoint import write_random_checkpoint
from firstword.bench.server import counted, own_server
from firstword.bench.terminal import show, show_line

TEXT = "Yes, of course."
NUM_SPEAKERS = 24
USAGE = 0.5
ROUNDS = 15
MAX_STREAMS = 4
HITS, MISSES = "tts_speaker_cache_hits_total", "tts_speaker_cache_misses_total"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two servers that have the same speakers."""

    clients: tuple[Client, Client]

    async def both(self, speaker: int, at_once: int = 1) -> list[Outcome]:
        """Ask both at the same time: they share the machine, as they will under load."""
        asked = [client.speak(_ask(speaker)) for client in self.clients for _ in range(at_once)]
        return await asyncio.gather(*asked)

    def found(self) -> tuple[float, float]:
        """Return how many speakers were ready so far, and how many were not."""
        series = [counted(client.url) for client in self.clients]
        return sum(one[HITS] for one in series), sum(one[MISSES] for one in series)


def _ask(speaker: int) -> Ask:
    return Ask(TEXT, "en", seed=1, speaker=f"speaker-{speaker % NUM_SPEAKERS}")


def calibrate(seconds: float, as_json: bool) -> int:
    """Return 0, whatever the deviation is."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        checkpoint = Path(folder) / "model"
        write_random_checkpoint(checkpoint, "cosyvoice2", "small")
        settings = {
            **{"checkpoint": checkpoint, "max_streams": MAX_STREAMS, "speaker_cache_mb": 32, "device": "cpu"},
            **{"trim_silence": "false", "phrase_cache_mb": 0, "loudness_lufs": "", "idle_timeout_s": 600},
        }
        urls = [stack.enter_context(own_server(settings)).url for _ in range(2)]
        times, kept, rows = asyncio.run(_calibrated(urls, seconds))
    if as_json:
        print(json.dumps({"times": asdict(times), "kept": kept, "rows": rows}))
        return 0
    table = Table(title="two servers and the model of them", title_justify="left", box=None)
    for name in rows[0]:
        table.add_column(name, justify="left" if name in ("policy", "what") else "right")
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else value for value in row.values()))
    show(table)
    show_line(f"measured: {json.dumps({name: round(value, 4) for name, value in asdict(times).items()})}")
    show_line(f"each server keeps {kept} of {NUM_SPEAKERS} speakers ready")
    return 0


async def _calibrated(urls: Sequence[str], seconds: float) -> tuple[Times, int, list[dict[str, float | str]]]:
    async with (
        Client(urls[0], judges_speech=False) as one,
        Client(urls[1], judges_speech=False) as other,
    ):
        pair = Pair((one, other))
        for url in urls:
            await _give_speakers(url)
        kept = await _kept(pair)
        times = await _times(pair)
        rate_hz = USAGE * 2 * times.parallel / times.stream_s
        scenario = Scenario(2, rate_hz, seconds, num_speakers=NUM_SPEAKERS, kept=kept)
        rows: list[dict[str, float | str]] = []
        for policy in ("any", "ring"):
            case = replace(scenario, policy=policy)
            real = await _run(pair, case, times)
            # As many seconds as give the model ten times the requests.
            tally = simulate(times, replace(case, seconds=10 * seconds))
            model = {name: tally.row(times)[name] for name in real}
            rows.append({"policy": policy, "what": "servers", **real})
            rows.append({"policy": policy, "what": "model", **model})
            deviation = {name: model[name] / real[name] - 1 for name in real}
            rows.append({"policy": policy, "what": "deviation", **deviation})
        return times, kept, rows


async def _give_speakers(url: str) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        known = (await http.get("/speakers")).raise_for_status().json()["speakers"]
        name = next(one["name"] for one in known if one["prompt_tokens"])
        bundle = (await http.get(f"/speakers/{name}/export")).raise_for_status().content
        for number in range(NUM_SPEAKERS):
            form = {"name": f"speaker-{number}"}
            answer = await http.post("/speakers/import", data=form, files={"bundle": ("a", bundle)})
            answer.raise_for_status()


async def _kept(pair: Pair) -> int:
    """Ask for all speakers, then backwards from the last: those still ready are what a server keeps."""
    for number in range(NUM_SPEAKERS):
        await pair.both(number)
    before, _ = pair.found()
    for number in reversed(range(NUM_SPEAKERS)):
        await pair.both(number)
    after, _ = pair.found()
    return max(1, round((after - before) / 2))


async def _times(pair: Pair) -> Times:
    overheads: list[float] = []
    firsts: list[float] = []
    wholes: list[float] = []
    misses: list[float] = []
    crowded: list[float] = []
    for number in range(ROUNDS):
        began_s = time.perf_counter()
        await pair.clients[0].get("/livez")
        overheads.append(time.perf_counter() - began_s)
        for times in (misses, firsts):  # twice in a row: not ready, ready
            outcomes = await pair.both(number)
            times += [one.heard.ttfb_s for one in outcomes if one.heard]
        wholes += [one.ended_s - one.asked_s for one in outcomes]
        audio_s = [one.heard.audio_s for one in outcomes if one.heard]
    for _ in range(ROUNDS):
        await pair.both(0)  # ready then
        crowded += [one.ended_s - one.asked_s for one in await pair.both(0, MAX_STREAMS)]
    overhead_s, whole_s = median(overheads), median(wholes)
    return Times(
        first_s=max(0.001, median(firsts) - overhead_s),
        stream_s=whole_s - overhead_s,
        prompt_s=max(0.0, median(misses) - median(firsts)),
        overhead_s=overhead_s,
        parallel=max(1.0, MAX_STREAMS * (whole_s - overhead_s) / (median(crowded) - overhead_s)),
        audio_s=median(audio_s),
        slots=MAX_STREAMS,
    )


async def _run(pair: Pair, scenario: Scenario, times: Times) -> dict[str, float]:
    """Ask as the model does: Poisson arrivals, Zipf's speakers, the same ring."""
    chooser = Cluster(simpy.Environment(), times, scenario, seed=1)
    outcomes: list[Outcome] = []

    async def come(at_s: float, speaker: int) -> None:
        server = next(iter(chooser.candidates(speaker)))
        outcome = await pair.clients[server.number].speak(_ask(speaker))
        if at_s > scenario.seconds / 4:  # the caches are as they will be
            outcomes.append(outcome)

    hits, misses = pair.found()
    began_s = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for at_s in poisson_times(scenario.rate_hz, scenario.seconds, seed=2):
            await asyncio.sleep(max(0.0, began_s + at_s - time.perf_counter()))
            tasks.create_task(come(at_s, chooser.speaker()))
    hits, misses = (now - before for now, before in zip(pair.found(), (hits, misses), strict=True))
    firsts = sorted(one.heard.ttfb_s for one in outcomes if one.heard)
    return {
        "p50_ms": 1000 * median(firsts),
        "p95_ms": 1000 * firsts[round(0.95 * (len(firsts) - 1))],
        "hit_rate": hits / (hits + misses),
    }
