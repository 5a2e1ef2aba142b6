"""`python -m training.recordings`: a teacher reads what judges a new speaker, and what is learned from."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile

from training import corpus
from training.new_speaker import NUM_SENTENCES
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples, Teacher
from training.text.corpus import evaluation_sentences

PROMPT_S = 10.0
_PAUSE_S = 0.2


def record(teacher: Teacher, folder: Path, learned_s: float) -> None:
    """Write `judged/`, `prompt/` and `learned/`, each of other sentences of the evaluation, in its order."""
    unread = iter(evaluation_sentences())
    for number in range(NUM_SENTENCES):
        text = next(unread)
        _write(folder / "judged" / f"{number:03}.wav", text, _speak(teacher, text))
    said = list(_until(PROMPT_S, teacher, unread))
    pause = np.zeros(round(_PAUSE_S * SAMPLE_RATE_HZ), np.float32)
    samples = np.concatenate([part for _, one in said for part in (one, pause)][:-1])
    _write(folder / "prompt" / "prompt.wav", " ".join(text for text, _ in said), samples)
    for number, (text, samples) in enumerate(_until(learned_s, teacher, unread)):
        _write(folder / "learned" / f"{number:03}.wav", text, samples)


def _until(seconds: float, teacher: Teacher, unread: Iterator[str]) -> Iterator[tuple[str, Samples]]:
    """Texts and what was said, so many that they last as long."""
    said_s = 0.0
    while said_s < seconds:
        text = next(unread)
        samples = _speak(teacher, text)
        said_s += len(samples) / SAMPLE_RATE_HZ
        yield text, samples


def _speak(teacher: Teacher, text: str) -> Samples:
    return corpus.trim(teacher.speak(text)).waveform


def _write(path: Path, text: str, samples: Samples) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, SAMPLE_RATE_HZ, subtype="PCM_16")
    path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--teacher", default="kokoro af_nova", help="as docs/voice.md, Teachers")
    parser.add_argument("--minutes", type=float, default=3.0, help="of what is learned from")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(argv)
    record(open_teacher(given.teacher), given.output, 60 * given.minutes)


if __name__ == "__main__":
    main()
