"""The evaluation as tables on the terminal, in Markdown, and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib
import numpy as np
import torch
from rich.console import Console

from firstword.models.frontend.features import MelExtractor
from training.features import MEL, teacher_samples
from training.flite import SPEAKERS, Flite
from training.text.corpus import read_words
from training.voice import Voice

if TYPE_CHECKING:
    from training.evaluate import Result

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BY_WORDS_EVERY = 2  # sentences
_WITHIN = 0.8, 1.25  # of a sentence's time, where its teacher takes 1
_ONCE = 0.5, 1.6  # of a single word: it was neither cut nor said twice
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
    lines += ["", "| must | reached | met |", "|---|---|---|"]
    lines += [f"| {one.name} | {one.reached} | {'yes' if one.is_met else 'no'} |" for one in musts(results)]
    faults = [f"- {one.speaker}: {fault}" for one in results for fault in one.faults]
    return "\n".join([*lines, "", f"Faults: {len(faults)}", *faults])


class Must(NamedTuple):
    name: str
    reached: str
    is_met: bool


def musts(results: list[Result]) -> list[Must]:
    """What the voice may not fall short of, over all speakers."""
    rates = [one.wer("streamed") for one in results]
    loss = max(one.wer("by words") - one.wer("streamed", BY_WORDS_EVERY) for one in results)
    durations = [ratio for one in results for ratio in one.durations]
    within = _share_within(_WITHIN, durations)
    once = _share_within(_ONCE, [ratio for one in results for ratio in one.single_durations])
    enrolled = float(np.mean([is_right for one in results for is_right in one.enrolled_right]))
    joins = sum(_num_joins_heard(one) for one in results)
    faults = sum(len(one.faults) for one in results)
    return [
        Must("streamed, the best speaker: at most 0.20", f"{min(rates):.3f}", min(rates) <= 0.20),
        Must("streamed, each speaker: at most 0.30", f"{max(rates):.3f}", max(rates) <= 0.30),
        Must("by words, each: at most 0.10 more than whole", f"{loss:+.3f}", loss <= 0.10),
        Must("silent, looping, endless, of unequal length: none", str(faults), faults == 0),
        Must(
            f"within {_WITHIN[0]} to {_WITHIN[1]} of the teacher's time: 95 %",
            f"{within:.1%}",
            within >= 0.95,
        ),
        Must("single words said whole and once: 95 %", f"{once:.1%}", once >= 0.95),
        Must("enrolled, nearest to their teacher: 90 %", f"{enrolled:.0%}", enrolled >= 0.90),
        Must("utterances whose largest jump is a join: 1 %", str(joins), joins <= 0.01 * len(durations)),
    ]


def _share_within(limits: tuple[float, float], ratios: list[float]) -> float:
    return float(np.mean([limits[0] <= ratio <= limits[1] for ratio in ratios]))


def _num_joins_heard(one: Result) -> int:
    return sum(join > other for join, other in zip(one.join_jumps, one.other_jumps, strict=True))


def _heard_right(one: Result) -> str:
    return _share(
        [heard.split() == read_words(word) for word, draws in one.single_words.items() for heard in draws]
    )


def _share(are_right: list[bool]) -> str:
    return f"{sum(are_right)} of {len(are_right)}"


_ROWS = {
    "duration / teacher's, mean": lambda one: f"{np.mean(one.durations):.2f}",
    f"sentences within {_WITHIN[0]} to {_WITHIN[1]}": lambda one: (
        f"{_share_within(_WITHIN, one.durations):.0%}"
    ),
    "mel distance of tokens spoken again, dB": lambda one: f"{np.mean(one.mel_distance_db):.2f}",
    "similarity to the teacher": lambda one: f"{np.nanmean(one.own_similarity):.2f}",
    "similarity to the nearest other": lambda one: f"{np.nanmean(one.other_similarity):.2f}",
    "enrolled, nearest to its teacher": lambda one: _share(one.enrolled_right),
    "largest jump at a join, median": lambda one: f"{np.median(one.join_jumps):.3f}",
    "largest jump elsewhere, median": lambda one: f"{np.median(one.other_jumps):.3f}",
    "utterances whose largest jump is a join": lambda one: str(_num_joins_heard(one)),
    "single words said whole and once": lambda one: f"{_share_within(_ONCE, one.single_durations):.0%}",
    "single words heard right": _heard_right,
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
