"""`python -m training.word_times`: when words sound, by the voice itself and by forced alignment."""

import argparse
import json
import re
import sys
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from firstword.app.synthesizer import Synthesizer
from training.text.corpus import evaluation_sentences

_PLAIN = re.compile(r"[A-Za-z ,.;:!?']+")
_NEAR_MS = 120


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.word_times", description=__doc__.split("\n")[0])
    parser.add_argument("--sentences", type=int, default=50, help="for each speaker")
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="all if left out")
    parser.add_argument("--checkpoint", type=Path, help="model directory; the built-in voice if left out")
    parser.add_argument("--in-pieces", action="store_true", help="text word by word, as it is written")
    parser.add_argument("--json", type=Path, help="file for the differences in milliseconds")
    parser.add_argument("--plot", type=Path, help="file for their distribution")
    arguments = parser.parse_args()
    from training.judge.recognise import Pocketsphinx

    recogniser = Pocketsphinx()
    sentences = [text for text in evaluation_sentences() if _PLAIN.fullmatch(text)][: arguments.sentences]
    differences: dict[str, list[float]] = {}
    given = [] if arguments.checkpoint is None else [arguments.checkpoint]
    with Synthesizer.open(*given) as synthesizer:
        for speaker in arguments.speakers or synthesizer.speakers:
            found = differences.setdefault(speaker, [])
            for seed, text in enumerate(sentences):
                pieces = re.findall(r"\s*\S+", text) if arguments.in_pieces else text
                spoken = list(synthesizer.timed(pieces, speaker=speaker, seed=seed))
                samples = np.concatenate([one.samples for one in spoken])
                words = [word for one in spoken for word in one.words]
                if [word.text.lower() for word in words] != [word.lower() for word in text_words(text)]:
                    sys.exit(f"{text!r} has the words {[word.text for word in words]}")
                starts_s = np.array([word.start for word in words]) / synthesizer.sample_rate_hz
                theirs_s = recogniser.word_starts(samples, synthesizer.sample_rate_hz, text)
                found += compared(theirs_s, starts_s)
    Console().print(table(differences))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(differences))
    if arguments.plot is not None:
        plot(differences, arguments.plot)


def text_words(text: str) -> list[str]:
    return [word.strip(".,;:!?'") for word in text.split() if word.strip(".,;:!?'")]


def compared(theirs_s: list[float], ours_s: NDArray[np.float64]) -> list[float]:
    """Milliseconds by which each word starts later by our times; none where theirs are missing."""
    return [1000 * (ours - theirs) for ours, theirs in zip(ours_s, theirs_s, strict=True)] if theirs_s else []


def table(differences: dict[str, list[float]]) -> Table:
    shown = Table("speaker", "words", "median ms", "median of size", "95 % within", f"within {_NEAR_MS} ms")
    for speaker, values in [*differences.items(), ("all", [*chain(*differences.values())])]:
        sizes = np.abs(values)
        shown.add_row(
            speaker,
            str(len(values)),
            f"{np.median(values):.0f}",
            f"{np.median(sizes):.0f}",
            f"{np.percentile(sizes, 95):.0f}",
            f"{100 * np.mean(sizes <= _NEAR_MS):.1f} %",
        )
    return shown


def plot(differences: dict[str, list[float]], path: Path) -> None:
    """The share of words that start within so many milliseconds of the alignment's."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    for speaker, values in differences.items():
        shares = 100 * np.arange(1, len(values) + 1) / len(values)
        axes.step(np.sort(np.abs(values)), shares, where="post", label=speaker)
    axes.set(xlabel="ms between the word's start and forced alignment's", ylabel="% of words", xlim=(0, 200))
    axes.axvline(_NEAR_MS, color="grey", linewidth=0.8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
