"""What each stage costs along an utterance: normalize, LM, flow, vocoder, encode, in milliseconds a chunk.

One process, no network, one stage after the other: the service's own parts, of any checkpoint, precision
and device; `--random cosyvoice2 --size full` takes a random checkpoint of the published sizes.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from rich.table import Table

from firstword.app.settings import InvalidSettings, Settings, load_settings
from firstword.bench.arguments import count
from firstword.bench.checkpoints import checkpoint_at
from firstword.bench.estimates import Interval, ratio_of_medians
from firstword.bench.plots import plot_stages
from firstword.bench.random_checkpoint import Size
from firstword.bench.rig import ChunkCost, Clock, NothingToSay, Rig, Utterance
from firstword.bench.terminal import show
from firstword.models.config import TOKEN_RATE_HZ, CheckpointError, Family

TEXT = "I can tell you what the weather will be like, read your messages aloud, or keep you company."
EARLY_S, LATE_S = (1.0, 4.0), (59.0, 62.0)  # where the chunks begin that are compared
LAST_S = 62.5  # how long an utterance must be for that
MAX_ROWS = 12


def measure(
    settings: Settings, text: str, seconds: float | None, runs: int, clock: Clock | None = None
) -> Utterance:
    """The run of the median cost, after one that warms up. seconds None: to the end of the utterance.

    Raises InvalidSettings, CheckpointError and NothingToSay.
    """
    rig = Rig(settings, clock)
    num_tokens = None if seconds is None else round(seconds * TOKEN_RATE_HZ)
    rig.speak(text, min(num_tokens or 100, 100))
    spoken = [rig.speak(text, num_tokens) for _ in range(runs)]
    return sorted(spoken, key=lambda utterance: utterance.rtf)[runs // 2]


def constancy(chunks: Sequence[ChunkCost]) -> Interval | None:
    """What a second of audio costs around second 60 over around second 2; None: not so long."""
    early, late = (
        [chunk.total_s / chunk.audio_s for chunk in chunks if first <= chunk.start_s < last]
        for first, last in (EARLY_S, LATE_S)
    )
    return ratio_of_medians(early, late) if early and late else None


def as_json(utterance: Utterance, settings: Settings) -> dict[str, Any]:
    ratio = constancy(utterance.chunks)
    return {
        "checkpoint": settings.networks.checkpoint.name,
        "precision": settings.networks.precision,
        "device": settings.networks.device,
        "first_audio_s": utterance.first_audio_s,
        "rtf": utterance.rtf,
        "constancy": None if ratio is None else asdict(ratio),
        **asdict(utterance),
    }


def title_of(settings: Settings) -> str:
    return f"{settings.networks.checkpoint.name}, {settings.networks.precision}"


def show_report(utterance: Utterance) -> None:
    table = Table(title="ms a chunk", title_justify="left", box=None, pad_edge=False)
    for name in (
        "at s",
        "audio s",
        "tokens",
        "LM",
        "flow",
        "vocoder",
        "encode",
        "all",
        "RTF",
        "state MB",
        "LM MB",
    ):
        table.add_column(name, justify="right")
    for chunk in _shown(utterance.chunks):
        times = [f"{1000 * seconds:.1f}" for seconds in (*chunk.stages().values(), chunk.total_s)]
        table.add_row(
            f"{chunk.start_s:.1f}",
            f"{chunk.audio_s:.2f}",
            str(chunk.num_tokens),
            *times,
            f"{chunk.total_s / chunk.audio_s:.3f}",
            f"{chunk.state_mb:.1f}",
            f"{chunk.cache_mb:.1f}",
        )
    ratio = constancy(utterance.chunks)
    show(
        table,
        f"normalize {1000 * utterance.normalize_s:.1f} ms, LM prefill {1000 * utterance.prefill_s:.1f} ms,"
        f" LM step {1000 * utterance.step_s:.2f} ms a token",
        f"first audio after {1000 * utterance.first_audio_s:.0f} ms, RTF {utterance.rtf:.3f}, by stage: "
        + ", ".join(f"{name} {share:.3f}" for name, share in rtf_by_stage(utterance).items()),
        *([] if ratio is None else [f"a second of audio at second 60 ÷ at second 2: {ratio}"]),
    )


def rtf_by_stage(utterance: Utterance) -> dict[str, float]:
    audio_s = sum(chunk.audio_s for chunk in utterance.chunks)
    names = utterance.chunks[0].stages()
    return {name: sum(chunk.stages()[name] for chunk in utterance.chunks) / audio_s for name in names}


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    try:
        settings = load_settings(
            checkpoint=given.checkpoint,
            device=given.device,
            precision=given.precision,
            num_threads=given.threads,
        )
        with checkpoint_at(settings.networks.checkpoint, given.random, given.size) as directory:
            settings = settings.model_copy(
                update={"networks": replace(settings.networks, checkpoint=directory)}
            )
            clock = time.process_time if given.cpu_time else None
            utterance = measure(settings, given.text, given.seconds or None, given.runs, clock)
    except (InvalidSettings, CheckpointError, ImportError, NothingToSay) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    show_report(utterance)
    if given.json:
        given.json.write_text(json.dumps(as_json(utterance, settings), indent=1) + "\n", encoding="utf-8")
    if given.plot:
        plot_stages(
            utterance.chunks,
            title_of(settings),
            given.plot,
        )
    return 0


def _shown(chunks: Sequence[ChunkCost]) -> list[ChunkCost]:
    """The first ones, and of a long utterance the last ones."""
    if len(chunks) <= MAX_ROWS:
        return list(chunks)
    return [*chunks[: MAX_ROWS // 2], *chunks[-MAX_ROWS // 2 :]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench stages", description=__doc__)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--random", choices=get_args(Family), help="a checkpoint with random weights instead")
    parser.add_argument("--size", choices=get_args(Size), default="full", help="of the random one")
    parser.add_argument("--device", help="auto, cpu or cuda")
    parser.add_argument("--precision", help="auto, float32, bfloat16 or int8")
    parser.add_argument(
        "--threads", type=int, help="of one network's arithmetic; 0 chooses as the server does"
    )
    parser.add_argument("--text", default=TEXT, help="its first segment is spoken")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="of audio, whatever the LM wants; 0: its end"
    )
    parser.add_argument("--runs", type=count, default=3, help="the one of the median cost is shown")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="what was computed, for a CPU that does other work too",
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a PNG")
    return parser
