"""The evaluation as tables on the terminal, in Markdown, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
import numpy as np
import torch
from rich.console import Console

from models.frontend.mel import MelExtractor
from training.features import MEL, teacher_samples
from training.flite import SPEAKERS, Flite
from training.voice import Voice

if TYPE_CHECKING:
    from training.evaluate import Result

matplotlib.use("Agg")
import matplotlib.pyplot as plt

_SHORTEST, _LONGEST = 0.8, 1.25  # of a sentence, where its teacher takes 1
PICTURE_TEXT = "please turn off the lights before you go to bed."


def print_tables(results: list[Result]) -> None:
    Console(soft_wrap=True).print(markdown(results), markup=False, highlight=False)


def markdown(results: list[Result]) -> str:
    """The figures of docs/voice.md and of the model card."""
    paths = list(results[0].errors)
    names = [result.speaker for result in results]
    lines = ["| word error rate | " + " | ".join([*names, "all"]) + " |", "|---" * (len(names) + 2) + "|"]
    for path in paths:
        everyone = sum(sum(one.errors[path]) for one in results) / sum(
            sum(one.words[path]) for one in results
        )
        lines.append(
            f"| {path} | " + " | ".join(f"{one.wer(path):.3f}" for one in results) + f" | {everyone:.3f} |"
        )
    lines += ["", "| streamed speech | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(of(one) for one in results) + " |" for name, of in _ROWS.items()]
    faults = [f"- {one.speaker}: {fault}" for one in results for fault in one.faults]
    return "\n".join([*lines, "", f"Faults: {len(faults)}", *faults])


def _within(one: Result) -> str:
    return f"{np.mean([_SHORTEST <= ratio <= _LONGEST for ratio in one.durations]):.0%}"


_ROWS = {
    "duration / teacher's, mean": lambda one: f"{np.mean(one.durations):.2f}",
    f"sentences within {_SHORTEST} to {_LONGEST}": _within,
    "mel distance of tokens spoken again, dB": lambda one: f"{np.mean(one.mel_distance_db):.2f}",
    "similarity to the teacher": lambda one: f"{np.nanmean(one.own_similarity):.2f}",
    "similarity to the nearest other": lambda one: f"{np.nanmean(one.other_similarity):.2f}",
    "enrolled, nearest to its teacher": lambda one: f"{sum(one.enrolled_right)} of {len(one.enrolled_right)}",
    "largest jump at a join, median": lambda one: f"{np.median(one.join_jumps):.3f}",
    "largest jump elsewhere, median": lambda one: f"{np.median(one.other_jumps):.3f}",
    "utterances whose largest jump is a join": lambda one: str(
        sum(join > other for join, other in zip(one.join_jumps, one.other_jumps, strict=True))
    ),
    "words wrong of the 60-word sentence": lambda one: str(one.long_errors),
}


def draw(directory: Path, path: Path) -> None:
    """Mel spectrograms of teacher and voice side by side, one row a speaker."""
    voice, mel_of = Voice(directory), MelExtractor(MEL)
    figure, axes = plt.subplots(len(SPEAKERS), 2, figsize=(11, 9), sharex=True, sharey=True)
    for row, name in zip(axes, SPEAKERS, strict=True):
        tokens = voice.read(PICTURE_TEXT, voice.speakers[name])
        for place, title, samples in (
            (row[0], f"flite {name}", teacher_samples(Flite(name), PICTURE_TEXT)),
            (row[1], f"the voice, {name}", voice.sound(tokens.ids, voice.speakers[name])),
        ):
            mel = mel_of(torch.from_numpy(samples)).numpy()
            place.imshow(
                mel, origin="lower", aspect="auto", vmin=-11, vmax=1, extent=(0, mel.shape[1] / 50, 0, 80)
            )
            place.set_title(title)
    for place in axes[-1]:
        place.set_xlabel("seconds")
    for row in axes:
        row[0].set_ylabel("mel bin")
    figure.suptitle(f"“{PICTURE_TEXT}”")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
