"""Speaks texts so many at once in each back end, beside the published table of compute over audio.

The engine runs in this process, as the service does it, without a network. Published: CosyVoice 2 on an
NVIDIA L20 by the runtime/triton_trtllm of the published code, 26 prompts of 170 s of audio.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, get_args

from rich.table import Table

from firstword.app.clients import ANYBODY
from firstword.app.core.interface import Audio, Engine
from firstword.app.core.request import Delivery, SynthesisRequest, VoiceChoice
from firstword.app.engine.startup import running_engine
from firstword.app.errors import TtsError
from firstword.app.options import BackendChoice, InvalidOptions, StartOptions
from firstword.app.settings import InvalidSettings, Settings, load_settings
from firstword.app.telemetry.metrics import Metrics
from firstword.bench.arguments import count, counts
from firstword.bench.checkpoints import add_checkpoint_arguments, checkpoint_at
from firstword.bench.data_set import Item, own_sentences, read_items
from firstword.bench.terminal import show
from firstword.models.config import CheckpointError
from firstword.models.runtimes.interface import BackendError

PUBLISHED_OFFLINE: Final = {
    1: (0.2494, 0.0987),
    2: (0.2064, 0.0739),
    4: (0.1421, 0.0539),
    8: (0.0947, 0.0418),
    16: (0.0821, 0.0386),
}
"""By batch size, compute over audio: the language model in Hugging Face's transformers, in TensorRT-LLM."""

PUBLISHED_STREAMING: Final = {1: (189.88, 0.1155), 2: (323.04, 0.0905), 4: (977.68, 0.0733)}
"""By requests at a time: mean ms to the first chunk and compute over audio, the speakers kept ready."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Texts spoken `at_once`. seconds: from the first one's beginning to the last one's end."""

    backend: str
    at_once: int
    is_streamed: bool
    seconds: float
    audio_s: float
    first_audio_s: float  # mean of the texts, from their own beginning on

    @property
    def rtf(self) -> float:
        return self.seconds / self.audio_s


async def speak_all(
    engine: Engine, backend: str, items: Sequence[Item], at_once: int, is_streamed: bool
) -> Spoken:
    """Speak every item, so many at a time; where one ends the next begins.

    Raises the first failure of the engine, and ValueError where nothing was spoken.
    """
    waiting, firsts_s, audio_s = iter(items), list[float](), 0.0
    delivery = Delivery(is_played=is_streamed, cache=False)

    async def speak_on() -> None:
        nonlocal audio_s
        for item in waiting:
            voice = VoiceChoice(speaker=item.speaker, language=item.language)
            request = SynthesisRequest(
                item.name,
                "cli",
                "whole",
                item.text,
                voice=voice,
                seed=item.seed,
                delivery=delivery,
                client=ANYBODY,
            )
            asked_s, samples = time.perf_counter(), 0
            async with engine.open(request) as stream:
                async for event in stream:
                    if isinstance(event, Audio):
                        if not samples:
                            firsts_s.append(time.perf_counter() - asked_s)
                        samples += len(event.samples)
                audio_s += samples / stream.sample_rate_hz

    began_s = time.perf_counter()
    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(at_once):
                tasks.create_task(speak_on())
    except ExceptionGroup as failures:  # the first of them ended the others
        raise failures.exceptions[0] from None
    seconds = time.perf_counter() - began_s
    if not audio_s:
        raise ValueError(
            f"{len(items)} texts, from {items[0].name!r} on, gave no audio; give some with words"
        )
    return Spoken(backend, at_once, is_streamed, seconds, audio_s, sum(firsts_s) / len(firsts_s))


async def measure(
    settings: Settings, backends: Sequence[BackendChoice], sizes: Sequence[int], items: Sequence[Item]
) -> list[Spoken]:
    """Speak all items in each back end, once per size, whole and streamed, after a warm-up.

    Raises InvalidOptions, BackendError, CheckpointError, and what `speak_all` does.
    """
    found: list[Spoken] = []
    for backend in backends:
        networks = replace(settings.networks, backend=backend)
        engine_options = replace(settings.engine, max_streams=max(sizes))
        given = StartOptions(networks, engine_options, settings.speakers, settings.lm_engines)
        async with running_engine(given, Metrics()) as running:
            await speak_all(running.engine, backend, items[:1], 1, is_streamed=True)  # a warm-up
            for is_streamed in (False, True):
                for at_once in sizes:
                    found.append(await speak_all(running.engine, backend, items, at_once, is_streamed))
    return found


def offline_table(found: Sequence[Spoken]) -> Table:
    names = ("back end", "batch", "s", "audio s", "RTF", "published: HF", "published: TRT-LLM")
    table = _table("offline: compute over audio", names)
    for one in found:
        if not one.is_streamed:
            published = (f"{rtf:.4f}" for rtf in PUBLISHED_OFFLINE.get(one.at_once, ()))
            figures = f"{one.seconds:.2f}", f"{one.audio_s:.2f}", f"{one.rtf:.4f}"
            table.add_row(one.backend, str(one.at_once), *figures, *published)
    return table


def streaming_table(found: Sequence[Spoken]) -> Table:
    names = ("back end", "at a time", "first chunk ms", "RTF", "published: ms", "published: RTF")
    table = _table("streaming, the speaker kept ready", names)
    for one in found:
        if one.is_streamed:
            published = (f"{figure:g}" for figure in PUBLISHED_STREAMING.get(one.at_once, ()))
            figures = f"{1000 * one.first_audio_s:.2f}", f"{one.rtf:.4f}"
            table.add_row(one.backend, str(one.at_once), *figures, *published)
    return table


def _table(title: str, names: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == "back end" else "right", no_wrap=True)
    return table


def as_json(found: Sequence[Spoken], settings: Settings) -> dict[str, Any]:
    networks = settings.networks
    of = {"checkpoint": networks.checkpoint.name, "device": networks.device, "precision": networks.precision}
    return of | {"spoken": [asdict(one) | {"rtf": one.rtf} for one in found]}


def backends(words: str) -> tuple[BackendChoice, ...]:
    """Read "torch, vllm". Raises argparse.ArgumentTypeError."""
    known = get_args(BackendChoice)
    wanted = tuple(word.strip() for word in words.split(","))
    for word in wanted:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{word!r} is no back end; expected {', '.join(known)}")
    return wanted  # type: ignore[return-value]  # checked above


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    try:
        items = read_items(given.data) if given.data else own_sentences(("en",))
        items = list(islice(cycle(items), given.texts)) if given.texts else items
        settings = load_settings(checkpoint=given.checkpoint, device=given.device, precision=given.precision)
        with checkpoint_at(settings.networks.checkpoint, given.random, given.size) as directory:
            networks = replace(settings.networks, checkpoint=directory)
            settings = settings.model_copy(update={"networks": networks})
            found = asyncio.run(measure(settings, given.backends, given.batches, items))
    except (InvalidSettings, InvalidOptions, BackendError, CheckpointError, TtsError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    for table in (offline_table(found), streaming_table(found)):
        show(table)
    if given.json:
        given.json.write_text(json.dumps(as_json(found, settings), indent=1) + "\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench offline", description=__doc__)
    add_checkpoint_arguments(parser)
    parser.add_argument(
        "--backends", type=backends, default=("auto",), help="of the language model: torch,vllm"
    )
    parser.add_argument(
        "--batches", type=counts, default=tuple(PUBLISHED_OFFLINE), help="texts at once: 1,2,4"
    )
    parser.add_argument("--data", type=Path, help="JSON Lines with the texts; else a hundred of its own")
    parser.add_argument("--texts", type=count, help="so many of them, over and over where they are fewer")
    parser.add_argument("--json", type=Path)
    return parser
