"""`python -m training.vocoder_gate FOLDER`: what recordings of people lose by a trained vocoder.

FOLDER holds recordings that no stage heard, NAME.wav or NAME.flac, each beside what is said in it, NAME.txt.
Their mels are spoken again by the vocoder of a checkpoint and by the stage as it is, and judged by Whisper
tiny.en and P.808. The gate holds with 200 words and more, where the word error rate is at most MAX_WORSE
above the checkpoint's and P.808 not below it; until then the checkpoint keeps its vocoder.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
import torch

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.frontend.features import MelExtractor
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT
from training import harmonic_vocos
from training.features import MEL
from training.offline import vocode
from training.report import show
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples

MIN_WORDS = 200
MAX_WORSE = 0.01


@dataclass(frozen=True, slots=True)
class Result:
    """All recordings as they were, or by one vocoder."""

    name: str
    errors: int
    words: int
    p808: tuple[float, ...]

    @property
    def word_error_rate(self) -> float:
        return self.errors / self.words


@dataclass(frozen=True, slots=True)
class Recording:
    samples: Samples
    text: str


def read_recordings(folder: Path) -> list[Recording]:
    """Raises FileNotFoundError for a recording without its text, ValueError where there is none."""
    found = []
    for path in sorted([*folder.glob("*.wav"), *folder.glob("*.flac")]):
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
        resampled = soxr.resample(samples.mean(1), rate, SAMPLE_RATE_HZ).astype(np.float32)
        found.append(Recording(resampled, path.with_suffix(".txt").read_text().strip()))
    if not found:
        raise ValueError(f"{folder}: no .wav and no .flac in it")
    return found


@torch.inference_mode()
def copies(vocoder: HiFT | HarmonicVocos, recordings: list[Recording]) -> list[Samples]:
    """Each recording's mel, spoken again."""
    mel_of = MelExtractor(MEL)
    return [vocode(vocoder, mel_of(torch.from_numpy(one.samples))[None]) for one in recordings]


def judged(name: str, spoken: list[Samples], recordings: list[Recording]) -> Result:
    from training.judge.quality import p808
    from training.judge.recognise import Whisper
    from training.judge.words import fewest_errors

    whisper, errors, words, scores = Whisper(), 0, 0, []
    for samples, one in zip(spoken, recordings, strict=True):
        wrong, number = fewest_errors(one.text, whisper(samples, SAMPLE_RATE_HZ))
        errors, words = errors + wrong, words + number
        scores.append(p808(samples, SAMPLE_RATE_HZ))
    return Result(name, errors, words, tuple(scores))


def holds(shipped: Result, trained: Result) -> bool:
    """Raises ValueError for too few words to tell."""
    if trained.words < MIN_WORDS:
        raise ValueError(f"the recordings have {trained.words} words; expected at least {MIN_WORDS}")
    worse = trained.word_error_rate - shipped.word_error_rate
    return worse <= MAX_WORSE and float(np.mean(trained.p808)) >= float(np.mean(shipped.p808))


def table(results: list[Result]) -> Iterator[str]:
    """Lines of Markdown; behind the means what two standard errors are."""
    yield "| | recordings | WER | P.808 |"
    yield "|---|---|---|---|"
    for one in results:
        error = 2 * float(np.std(one.p808)) / len(one.p808) ** 0.5
        yield (
            f"| {one.name} | {len(one.p808)} | {one.word_error_rate:.3f} ({one.errors} of {one.words}) "
            f"| {np.mean(one.p808):.2f} ± {error:.2f} |"
        )


def vocoders(settings: Settings, checkpoint: Path) -> dict[str, HiFT | HarmonicVocos]:
    """Return the vocoder of a checkpoint, and that of the stage as it is now."""
    model = harmonic_vocos.load_vocoder(settings)
    return {"the checkpoint's": open_checkpoint(checkpoint).load_vocoder(), "in training": model}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m training.vocoder_gate", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN, help="whose vocoder is the other one")
    arguments = parser.parse_args()
    recordings = read_recordings(arguments.folder)
    results = [judged("recorded", [one.samples for one in recordings], recordings)]
    for name, vocoder in vocoders(read_settings(arguments.settings), arguments.checkpoint).items():
        results.append(judged(name, copies(vocoder, recordings), recordings))
    show("\n".join(table(results)))
    show("The gate holds." if holds(*results[1:]) else "The gate does not hold.")


if __name__ == "__main__":
    main()
