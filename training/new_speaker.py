"""`python -m training.new_speaker`: whether fine-tuning on recordings brings a voice nearer to its speaker.

Compared are the same speaker cloned from one recording by the checkpoint before, and by name by the one
after. The recordings that judge are of sentences that no training has seen, each beside its text (a.wav,
a.txt), as `training.recordings` writes them. docs/fine-tuning.md has the commands that train.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from training.judge.words import fewest_errors
from training.report import Must, table_of_musts
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples
from training.voice import Voice

NUM_SENTENCES = 40  # that judge
GAP_SHARE = 0.5  # of the gap to the teacher, that is to be closed
MORE_ERRORS = 0.03
DEFAULT_MOVED = 0.02


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Of some sentences: embeddings (N, D) of length one, words heard wrong a word, and P.808."""

    voices: Tensor
    word_errors: float
    p808: float

    def likeness(self, teacher: Tensor) -> float:
        """The mean over sentences of the dot product with the teacher's mean."""
        return float((self.voices @ torch.nn.functional.normalize(teacher.mean(0), dim=0)).mean())


class Judges:
    def __init__(self) -> None:
        from training.judge.likeness import SpeakerJudge  # all of the extra `voice`
        from training.judge.quality import quality
        from training.judge.recognise import Whisper

        self._whisper, self._speakers, self._quality = Whisper(), SpeakerJudge(), quality

    def judge(self, texts: Sequence[str], speak: Callable[[str], Samples]) -> Judged:
        voices, scores, errors, words = [], [], 0, 0
        for text in texts:
            samples = speak(text).astype(np.float32)
            wrong, wanted = fewest_errors(text, self._whisper(samples, SAMPLE_RATE_HZ))
            errors, words = errors + wrong, words + wanted
            voices.append(self._speakers.embed(samples, SAMPLE_RATE_HZ))
            scores.append(self._quality(samples, SAMPLE_RATE_HZ).p808)
        return Judged(torch.stack(voices), errors / words, float(np.mean(scores)))


def read_recordings(folder: Path) -> dict[str, Samples]:
    """Samples by text, in the order of the files' names."""
    found = {}
    for path in sorted(folder.glob("*.wav")):
        samples, rate_hz = soundfile.read(path, dtype="float32")
        assert rate_hz == SAMPLE_RATE_HZ, f"{path}: {rate_hz} Hz, expected {SAMPLE_RATE_HZ}"
        found[path.with_suffix(".txt").read_text(encoding="utf-8").strip()] = samples
    return found


def musts(teacher: Judged, cloned: Judged, tuned: Judged, default: tuple[Judged, Judged]) -> list[Must]:
    """teacher: its own recordings; default: what the default speaker says before and after."""
    half = len(teacher.voices) // 2
    most = Judged(teacher.voices[:half], 0, 0).likeness(teacher.voices[half:])  # the teacher to itself
    least = cloned.likeness(teacher.voices)
    before, after = default
    wanted, reached = least + GAP_SHARE * (most - least), tuned.likeness(teacher.voices)
    moved = before.likeness(before.voices) - after.likeness(before.voices)
    lost = after.word_errors - before.word_errors
    return [
        Must(
            f"likeness to the teacher >= {wanted:.3f} (cloned {least:.3f}, itself {most:.3f})",
            f"{reached:.3f}",
            reached >= wanted,
        ),
        Must(
            f"word error rate <= {cloned.word_errors + MORE_ERRORS:.3f} (cloned {cloned.word_errors:.3f})",
            f"{tuned.word_errors:.3f}",
            tuned.word_errors <= cloned.word_errors + MORE_ERRORS,
        ),
        Must(f"default speaker: likeness lost <= {DEFAULT_MOVED}", f"{moved:.3f}", moved <= DEFAULT_MOVED),
        Must(f"default speaker: word errors more <= {DEFAULT_MOVED}", f"{lost:.3f}", lost <= DEFAULT_MOVED),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the checkpoint that was fine-tuned")
    parser.add_argument("--after", type=Path, required=True, help="the result")
    parser.add_argument("--speaker", required=True, help="of the result")
    parser.add_argument("--recordings", type=Path, required=True, help="of sentences that were kept out")
    parser.add_argument("--prompt", type=Path, required=True, help="a recording of about 10 s, to clone")
    given = parser.parse_args()
    recordings = read_recordings(given.recordings)
    texts, judges = list(recordings), Judges()
    teacher = judges.judge(texts, recordings.__getitem__)
    samples, _ = soundfile.read(given.prompt, dtype="float32")
    transcript = given.prompt.with_suffix(".txt").read_text(encoding="utf-8")
    with Voice(given.before) as voice:
        prompt = voice.enroll(samples, transcript)
        cloned = judges.judge(texts, lambda text: np.concatenate(voice.speak(text, reference=prompt)))
        before = judges.judge(texts, lambda text: np.concatenate(voice.speak(text)))
    with Voice(given.after) as voice:
        tuned = judges.judge(texts, lambda text: np.concatenate(voice.speak(text, given.speaker)))
        after = judges.judge(texts, lambda text: np.concatenate(voice.speak(text)))
    print(*table_of_musts(musts(teacher, cloned, tuned, (before, after))), sep="\n")  # noqa: T201
    print(f"P.808: teacher {teacher.p808:.2f}, cloned {cloned.p808:.2f}, fine-tuned {tuned.p808:.2f}")  # noqa: T201


if __name__ == "__main__":
    main()
