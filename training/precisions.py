"""`python -m training.precisions`: whether words are lost by fewer bits.

The built-in voice says the same sentences, with the same seeds, in two precisions; Whisper tiny.en listens.
Printed are both word error rates and their difference with its 95 % interval (bootstrap over sentences).
"""

import argparse
import json
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from rich.console import Console

from firstword.app.synthesizer import Synthesizer
from training.settings import BUILTIN
from training.text import prose
from training.text.corpus import KeptOut, evaluation_sentences, read_words

Precision = Literal["float32", "int8", "int4"]

_WORDS = range(5, 16)  # of a sentence that is not of the evaluation's
_RESAMPLES = 10_000
_ROWS_AT_ONCE = 50  # sentences that a process speaks and hears before it says how far it is


def sentences(number: int) -> list[str]:
    """The evaluation's, then examples of WordNet, seeded."""
    wanted, kept_out = evaluation_sentences(), KeptOut()
    for text in prose.examples(random.Random(4), 4 * number):
        if len(read_words(text)) in _WORDS and kept_out.allows(text):
            wanted.append(text)
    return wanted[:number]


def errors_of(precisions: Sequence[Precision], said: Sequence[tuple[int, str]]) -> list[list[int]]:
    """said: seeds and texts -> of each its words, and the errors in each precision."""
    from training.judge.recognise import Whisper
    from training.judge.words import fewest_errors

    whisper = Whisper()
    columns = []
    for precision in precisions:
        with Synthesizer.open(BUILTIN, precision=precision, max_streams=1) as voice:
            spoken = [np.concatenate(list(voice.speak(text, seed=seed))) for seed, text in said]
            rate_hz = voice.sample_rate_hz
        found = [
            fewest_errors(text, whisper(samples, rate_hz))
            for (_, text), samples in zip(said, spoken, strict=True)
        ]
        columns.append([errors for errors, _ in found])
        words = [count for _, count in found]
    return [list(row) for row in zip(words, *columns, strict=True)]


def difference(rows: Sequence[Sequence[int]]) -> tuple[float, float, float]:
    """rows: words, errors of the first, errors of the second -> rate of the second less the first, its
    interval's ends."""
    words, first, second = np.array(rows, dtype=np.float64).T
    picks = np.random.default_rng(0).integers(len(words), size=(_RESAMPLES, len(words)))
    drawn = (second - first)[picks].sum(1) / words[picks].sum(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return float((second - first).sum() / words.sum()), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.precisions", description=__doc__.split("\n")[0])
    parser.add_argument(
        "precisions", nargs="*", default=["int8", "int4"], metavar="precision", help="int8 and int4"
    )
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the rows here")
    given = parser.parse_args()
    if len(given.precisions) != 2 or not set(given.precisions) <= set(get_args(Precision)):
        parser.error(f"expected two of {', '.join(get_args(Precision))}, got {given.precisions}")
    said = list(enumerate(sentences(given.sentences)))
    parts = [said[start : start + _ROWS_AT_ONCE] for start in range(0, len(said), _ROWS_AT_ONCE)]
    console = Console()
    rows: list[list[int]] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for found in pool.map(partial(errors_of, tuple(given.precisions)), parts):
            rows += found
            words, *errors = np.array(rows).sum(0)
            rates = ", ".join(
                f"{name} {count / words:.4f}" for name, count in zip(given.precisions, errors, strict=True)
            )
            change, low, high = difference(rows)
            console.print(
                f"{len(rows)} sentences, {words} words: {rates}, "
                f"difference {change:.4f} ({low:.4f} to {high:.4f})"
            )
            if given.json:
                given.json.write_text(json.dumps(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
