"""The published code beside this program: same checkpoint, same text, same speaker, in turn on one machine.

`python -m bench upstream CHECKOUT CHECKPOINT --python PYTHON`: CHECKOUT is somebody's copy of the published
repository, PYTHON an interpreter that runs it (float32, as its `tts(stream=True)` serves on a CPU). In each
round either side runs in a process of its own; the medians of the rounds are shown.
"""

import argparse
import asyncio
import itertools
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from rich.table import Table

from firstword.app.engine.text_frontend import text_frontend
from firstword.app.synthesizer import AsyncSynthesizer
from firstword.bench.arguments import count
from firstword.bench.stages import TEXT
from firstword.bench.terminal import show
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import TOKEN_RATE_HZ, CheckpointError
from firstword.models.tokenizer import load_text_tokenizer

SIDE: Final = Path(__file__).with_name("upstream_side.py")
HOP_TOKENS, LOOKAHEAD_TOKENS = 25, 3  # of the published code's first chunk
RANGES: Final = ((25, 75), (75, 175))  # tokens of its second and its third chunk

Measured = Mapping[str, Any]


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    if given.ours:
        given.out.write_text(json.dumps(asyncio.run(_serve_ours(given.checkpoint, given.text))))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        try:
            rounds = [_round(given, out) for _ in range(given.rounds)]
        except (CheckpointError, subprocess.CalledProcessError, OSError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 1
    rows = [rows_of(*sides) for sides in rounds]
    table = {
        name: tuple(statistics.median(row[name][side] for row in rows) for side in (0, 1)) for name in rows[0]
    }
    show(as_table(table))
    if given.json:
        given.json.write_text(json.dumps({"rounds": rounds, "table": table}, indent=1) + "\n")
    return 0


def _round(given: argparse.Namespace, out: Path) -> tuple[Measured, Measured]:
    """Return the figures of the published code and of this program."""
    torch.save(published_inputs(open_checkpoint(given.checkpoint), given.text), out / "inputs.pt")
    checkout, checkpoint, threads = str(given.checkout), str(given.checkpoint), str(given.threads)
    inputs = [str(out / "inputs.pt"), str(out / "upstream.json")]
    subprocess.run([given.python, str(SIDE), checkout, checkpoint, *inputs, threads], check=True)
    upstream = json.loads((out / "upstream.json").read_text())
    seconds = str(upstream["num_tokens"] / TOKEN_RATE_HZ)
    ours = ["--checkpoint", checkpoint, "--text", given.text]
    bench = [sys.executable, "-m", "firstword.bench"]
    stages = ["--threads", threads, "--seconds", seconds, "--runs", "1", "--json", str(out / "stages.json")]
    subprocess.run([*bench, "stages", *ours, *stages], check=True, stdout=subprocess.DEVNULL)
    served = [checkout, checkpoint, "--text", given.text, "--ours", "--out", str(out / "served.json")]
    subprocess.run([*bench, "upstream", *served], check=True)
    parts = (json.loads((out / name).read_text()) for name in ("stages.json", "served.json"))
    return upstream, dict(itertools.chain.from_iterable(part.items() for part in parts)) | {
        "prompt_tokens": len(torch.load(out / "inputs.pt")["flow_prompt_speech_token"][0])
    }


def published_inputs(checkpoint: Checkpoint, text: str) -> dict[str, Any]:
    """Return the arguments of the published `tts`, for the first speaker and the text's first segment.

    Raises CheckpointError.
    """
    speakers = checkpoint.load_speakers()
    if not speakers:
        raise CheckpointError(f"{checkpoint.directory}: has no speaker; both sides need one")
    speaker = next(iter(speakers.values()))
    tokenizer = load_text_tokenizer(checkpoint.config.family, checkpoint.directory)
    (segment, *_) = text_frontend(tokenizer, checkpoint, "warn").split(text, None, True)
    prompt_text = speaker.prompt_text_ids or tuple(tokenizer.encode(speaker.prompt_text))
    prompt = speaker.prompt_tokens[None].int()
    return {
        "sample_rate_hz": checkpoint.config.sample_rate_hz,
        "text": torch.tensor([segment.text_ids], dtype=torch.int32),
        "prompt_text": torch.tensor([prompt_text], dtype=torch.int32),
        "llm_prompt_speech_token": prompt,
        "flow_prompt_speech_token": prompt,
        "prompt_speech_feat": speaker.prompt_mel[None],
        "llm_embedding": speaker.embedding[None],
        "flow_embedding": speaker.embedding[None],
    }


async def _serve_ours(checkpoint: Path, text: str) -> dict[str, float]:
    async with AsyncSynthesizer.open(checkpoint, max_streams=1) as synthesizer:
        for _ in range(2):  # the first one warms up
            began_s, first_s, num_samples = time.perf_counter(), 0.0, 0
            async for piece in synthesizer.speak(text):
                first_s = first_s or time.perf_counter() - began_s
                num_samples += len(piece)
        all_s = time.perf_counter() - began_s
        return {
            "served_first_s": first_s,
            "served_s": all_s,
            "served_audio_s": num_samples / synthesizer.sample_rate_hz,
        }


def rows_of(upstream: Measured, ours: Measured) -> dict[str, tuple[float, float]]:
    """Return the rows of one round: the published code's seconds or ratio, and ours, by name."""
    num_prompt = ours["prompt_tokens"]
    num_first = HOP_TOKENS + math.ceil(num_prompt / HOP_TOKENS) * HOP_TOKENS - num_prompt + LOOKAHEAD_TOKENS
    first_lm_s = sum(upstream["first_lm_tokens_s"][:num_first])
    computed_s = upstream["lm_s"] + sum(upstream["flow_s"]) + sum(upstream["vocoder_s"])
    rows = {
        "first audio as served, s": (upstream["served_first_s"], ours["served_first_s"]),
        "first audio, networks in turn, s": (
            first_lm_s + upstream["flow_s"][0] + upstream["vocoder_s"][0],
            ours["first_audio_s"],
        ),
        "compute over audio, in turn": (computed_s / upstream["audio_s"], ours["rtf"]),
        "compute over audio, as served": (
            upstream["served_s"] / upstream["audio_s"],
            ours["served_s"] / ours["served_audio_s"],
        ),
        "language model, a token, s": (upstream["step_s"], ours["step_s"]),
        "language model, prefill, s": (upstream["prefill_s"], ours["prefill_s"]),
    }
    for place, (first, stop) in enumerate(RANGES, start=1):
        for stage in ("flow", "vocoder"):
            if len(upstream[f"{stage}_s"]) > place + 1:  # the last call is another length
                theirs = upstream[f"{stage}_s"][place]
                rows[f"{stage}, tokens {first} to {stop}, s"] = theirs, _between(ours, stage, first, stop)
    return rows


def _between(ours: Measured, stage: str, first: int, stop: int) -> float:
    """Return seconds of a stage between two tokens; a chunk on a border counts in proportion."""
    seconds, position = 0.0, 0
    for chunk in ours["chunks"]:
        end = position + chunk["num_tokens"]
        inside = max(0, min(stop, end) - max(first, position))
        seconds += chunk[f"{stage}_s"] * inside / max(1, chunk["num_tokens"])
        position = end
    return seconds


def as_table(rows: Mapping[str, tuple[float, ...]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("", "published", "Firstword", "ratio"):
        table.add_column(name, justify="right" if name else "left")
    for name, (theirs, mine) in rows.items():
        table.add_row(name, f"{theirs:.4g}", f"{mine:.4g}", f"÷{theirs / mine:.2f}")
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench upstream", description=__doc__)
    parser.add_argument("checkout", type=Path, help="a copy of the published repository, with its submodule")
    parser.add_argument("checkpoint", type=Path, help="a CosyVoice 2 or 3 with a speaker")
    parser.add_argument("--python", default="python3", help="what runs the published code")
    parser.add_argument("--text", default=TEXT, help="its first segment is spoken")
    parser.add_argument("--rounds", type=count, default=2)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    return parser
