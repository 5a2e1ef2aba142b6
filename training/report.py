"""The evaluation as tables on the terminal, in Markdown, and as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import matplotlib
import numpy as np
import torch
from PIL import Image
from rich.console import Console

from firstword.models.frontend.features import MelExtractor
from training import corpus
from training.features import MEL
from training.judge.words import fewest_errors
from training.settings import Settings
from training.teachers import open_teacher
from training.text.corpus import read_words
from training.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Callable

    from training.evaluate import Result, Scores

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BY_WORDS_EVERY = 2  # sentences
_WITHIN = 0.8, 1.25  # of a sentence's time, where its teacher takes 1
_ONCE = 0.5, 1.6  # of a single word: it was neither cut nor said twice
_NUM_COLORS = 16  # of the picture, which is to be small
PICTURE_TEXT = "Please turn off the lights before you go to bed."


def num_errors(wanted: str, heard: str) -> int:
    return fewest_errors(wanted, heard)[0]


def show(text: str) -> None:
    """On the terminal, its lines as long as they are."""
    Console(soft_wrap=True).print(text, markup=False, highlight=False)


def markdown(results: list[Result], default: str) -> str:
    """The figures of docs/voice.md and of the model card."""
    names = [result.speaker for result in results]
    lines: list[str] = []
    for title, of in _SCORES.items():
        lines += [f"| {title} | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
        for path in results[0].paths:
            lines.append(f"| {path} | " + " | ".join(of(one.paths[path]) for one in results) + " |")
        lines.append("")
    lines += ["| against the teacher | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for path in ("copy", "tokens", "streamed"):
        for title, name in (("WER", "errors"), ("P.808", "p808"), ("overall", "overall")):
            cells = [_paired(one, path, name) for one in results]
            lines.append(f"| {path}, {title} | " + " | ".join(cells) + " |")
    lines += ["", "| streamed speech | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(row(one) for one in results) + " |" for name, row in _ROWS.items()]
    lines += ["", *table_of_musts(musts(results, default))]
    faults = [f"- {one.speaker}: {fault}" for one in results for fault in one.faults]
    return "\n".join([*lines, "", f"Faults: {len(faults)}", *faults])


class Must(NamedTuple):
    name: str
    reached: str
    is_met: bool


def table_of_musts(musts: list[Must]) -> list[str]:
    rows = [f"| {one.name} | {one.reached} | {'yes' if one.is_met else 'no'} |" for one in musts]
    return ["| must | reached | met |", "|---|---|---|", *rows]


def musts(results: list[Result], default: str) -> list[Must]:
    """What the voice may not fall short of: the default speaker, and each."""
    durations = [ratio for one in results for ratio in one.durations]
    within = _share_within(_WITHIN, durations)
    num_joined = sum(len(one.join_jumps) for one in results)
    once = _share_within(_ONCE, [ratio for one in results for ratio in one.single_durations])
    enrolled = float(np.mean([is_right for one in results for is_right in one.enrolled_right]))
    joins = sum(_num_joins_heard(one) for one in results)
    faults = sum(len(one.faults) for one in results)
    loss = max(one.paths["by words"].wer() - one.paths["streamed"].wer(BY_WORDS_EVERY) for one in results)
    hard = max(one.paths["hard"].wer() for one in results)
    first = next((one for one in results if one.speaker == default), results[0])
    teacher, tokens = first.paths["teacher"], first.paths["tokens"]
    lost, num_heard = _lost_by_tokens(first)
    duller = float(np.mean(teacher.p808) - np.mean(tokens.p808))
    return [
        *_bound("WER", results, default, lambda one: one.wer(), 0.05, 0.07, is_most=True),
        *_bound("P.808", results, default, lambda one: float(np.mean(one.p808)), 3.5, 3.3),
        *_bound("overall", results, default, lambda one: float(np.mean(one.overall)), 3.0, 2.8),
        Must("word by word, each: at most 0.02 more than whole", f"{loss:+.3f}", loss <= 0.02),
        Must("hard sentences, each: at most 0.12", f"{hard:.3f}", hard <= 0.12),
        Must(
            f"tokens spoken again, {first.speaker}: WER at most 0.015 more",
            f"{lost:+.3f} of {num_heard} sentences",
            lost <= 0.015,
        ),
        Must(f"tokens spoken again, {first.speaker}: P.808 at most 0.3 less", f"{duller:.2f}", duller <= 0.3),
        Must("silent, looping, endless, of unequal length: none", str(faults), faults == 0),
        Must(
            f"within {_WITHIN[0]} to {_WITHIN[1]} of the teacher's time: 95 %",
            f"{within:.1%}",
            within >= 0.95,
        ),
        Must("single words said whole and once: 95 %", f"{once:.1%}", once >= 0.95),
        Must("enrolled, nearest to their teacher: 90 %", f"{enrolled:.0%}", enrolled >= 0.90),
        Must("utterances whose largest jump is a join: 1 %", str(joins), joins <= 0.01 * num_joined),
    ]


def _lost_by_tokens(one: Result) -> tuple[float, int]:
    """Of all sentences whose tokens were heard: by how much the word error rate rises, and their number."""
    parts = [paths for paths in (one.paths, one.other_sentences) if paths]
    rates = [
        sum(sum(paths[name].errors) for paths in parts) / sum(sum(paths[name].words) for paths in parts)
        for name in ("tokens", "teacher")
    ]
    return rates[0] - rates[1], sum(len(paths["tokens"].words) for paths in parts)


def _bound(
    title: str,
    results: list[Result],
    default: str,
    of: Callable[[Scores], float],
    for_default: float,
    for_each: float,
    *,
    is_most: bool = False,
) -> list[Must]:
    """Of streamed speech: at most the bound, or at least."""
    values = {one.speaker: of(one.paths["streamed"]) for one in results}
    worst = max(values.values()) if is_most else min(values.values())
    named = [(f"streamed, each: {title}", worst, for_each)]
    if default in values:
        named.insert(0, (f"streamed, {default}: {title}", values[default], for_default))
    word = "at most" if is_most else "at least"
    return [
        Must(f"{name} {word} {bound}", f"{value:.3f}", value <= bound if is_most else value >= bound)
        for name, value, bound in named
    ]


def _paired(one: Result, path: str, name: str) -> str:
    """Mean difference to the teacher of the sentences that it said, and two standard errors."""
    teacher, other = one.paths["teacher"], np.array(getattr(one.paths[path], name), float)
    if path == "streamed":  # all sentences; other paths begin with what the teacher said
        other = other[:: one.teacher_every]
    difference = other - np.array(getattr(teacher, name), float)
    scale = len(difference) / sum(teacher.words) if name == "errors" else 1.0
    error = 2 * difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else np.nan
    return f"{scale * difference.mean():+.3f} ± {scale * error:.3f}"


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


_SCORES = {
    "word error rate, Whisper": lambda scores: f"{scores.wer():.3f}",
    "word error rate, pocketsphinx": lambda scores: (
        f"{sum(scores.sphinx_errors) / max(1, sum(scores.words)):.3f}" if scores.sphinx_errors else "-"
    ),
    "P.808": lambda scores: f"{np.mean(scores.p808):.2f}",
    "overall": lambda scores: f"{np.mean(scores.overall):.2f}",
}

_ROWS = {
    "duration / teacher's, mean": lambda one: f"{np.mean(one.durations):.2f}",
    f"sentences within {_WITHIN[0]} to {_WITHIN[1]}": lambda one: (
        f"{_share_within(_WITHIN, one.durations):.0%}"
    ),
    "mel distance of tokens spoken again, dB": lambda one: f"{np.mean(one.mel_distance_db):.2f}",
    "likeness to the teacher": lambda one: f"{np.mean(one.likeness):.2f}",
    "enrolled, likeness to the recording": lambda one: f"{np.mean(one.enrolled_likeness):.2f}",
    "enrolled, nearest to its teacher": lambda one: _share(one.enrolled_right),
    "largest jump at a join, median": lambda one: f"{np.median(one.join_jumps):.3f}",
    "largest jump elsewhere, median": lambda one: f"{np.median(one.other_jumps):.3f}",
    "utterances whose largest jump is a join": lambda one: str(_num_joins_heard(one)),
    "single words said whole and once": lambda one: f"{_share_within(_ONCE, one.single_durations):.0%}",
    "single words heard right": _heard_right,
    "words wrong of the 60-word sentence": lambda one: str(one.long_errors),
}


def draw(voice: Voice, settings: Settings, names: Sequence[str], path: Path) -> None:
    """Mel spectrograms of teacher and voice side by side, one row a speaker."""
    mel_of = MelExtractor(MEL)
    figure, axes = plt.subplots(
        len(names), 2, figsize=(9, 1.7 * len(names)), sharex=True, sharey=True, squeeze=False
    )
    for row, name in zip(axes, names, strict=True):
        call = settings.teacher_of(name)
        for place, title, samples in (
            (row[0], call, corpus.trim(open_teacher(call).speak(PICTURE_TEXT)).waveform),
            (row[1], f"the voice, {name}", np.concatenate(voice.speak(PICTURE_TEXT, name))),
        ):
            mel = mel_of(torch.from_numpy(samples)).numpy()
            place.imshow(
                mel,
                origin="lower",
                aspect="auto",
                vmin=-11,
                vmax=1,
                extent=(0, mel.shape[1] / 50, 0, 80),
                interpolation="nearest",
            )
            place.set_title(title)
    for place in axes[-1]:
        place.set_xlabel("seconds")
    for row in axes:
        row[0].set_ylabel("mel bin")
    figure.suptitle(f"“{PICTURE_TEXT}”")
    figure.tight_layout()
    with io.BytesIO() as whole:
        figure.savefig(whole, dpi=55)
        Image.open(whole).convert("RGB").quantize(_NUM_COLORS).save(path, optimize=True)
    plt.close(figure)
