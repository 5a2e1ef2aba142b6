"""`python -m training.mandarin.judge`: what a recogniser hears of the voice's Mandarin and its teachers'."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training import corpus
from training.report import show
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples
from training.text.mandarin import evaluation_sentences, mixed_sentences
from training.voice import Voice


@dataclass(frozen=True, slots=True)
class Heard:
    """One sentence of one speaker, by the voice or by its teacher."""

    speaker: str
    path: str
    text: str
    heard: str
    characters_wrong: int
    syllables_wrong: int  # tones count
    characters: int
    p808: float
    duration_s: float


class Judges:
    def __init__(self) -> None:
        from training.judge.mandarin import MandarinWhisper, mandarin_errors  # all of the extra `voice`
        from training.judge.quality import p808

        self._whisper, self._errors, self._p808 = MandarinWhisper(), mandarin_errors, p808

    def judge(self, speaker: str, path: str, text: str, samples: Samples) -> Heard:
        heard = self._whisper(samples, SAMPLE_RATE_HZ)
        return Heard(
            speaker,
            path,
            text,
            heard,
            *self._errors(text, heard),
            self._p808(samples, SAMPLE_RATE_HZ),
            len(samples) / SAMPLE_RATE_HZ,
        )


def listen(
    voice: Voice, settings: Settings, speakers: Sequence[str], texts: Sequence[str], judges: Judges
) -> Iterator[Heard]:
    """Each sentence of each speaker, by its teacher and by the voice."""
    for speaker in speakers:
        teacher = open_teacher(settings.teacher_of(speaker))
        for seed, text in enumerate(texts):
            yield judges.judge(speaker, "teacher", text, corpus.trim(teacher.speak(text)).waveform)
            yield judges.judge(speaker, "voice", text, np.concatenate(voice.speak(text, speaker, seed)))


def table(results: Sequence[Heard]) -> Iterator[str]:
    """Lines of Markdown."""
    yield "| speaker | | sentences | characters wrong | toned syllables wrong | P.808 | s a character |"
    yield "|---|---|---|---|---|---|---|"
    for speaker, path in dict.fromkeys((one.speaker, one.path) for one in results):
        mine = [one for one in results if (one.speaker, one.path) == (speaker, path)]
        wanted = sum(one.characters for one in mine)
        cells = (
            speaker,
            path,
            str(len(mine)),
            f"{sum(one.characters_wrong for one in mine) / wanted:.3f}",
            f"{sum(one.syllables_wrong for one in mine) / wanted:.3f}",
            f"{np.mean([one.p808 for one in mine]):.2f}",
            f"{sum(one.duration_s for one in mine) / wanted:.3f}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.mandarin.judge", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    parser.add_argument("--speakers", nargs="+", metavar="NAME", help="those of Mandarin by default")
    parser.add_argument("--sentences", type=int, default=40, help="of the 200, taken evenly")
    parser.add_argument("--mixed", action="store_true", help="the 40 with words of both languages instead")
    arguments = parser.parse_args()
    settings = read_settings(arguments.settings)
    everything = evaluation_sentences()
    if arguments.mixed:
        everything = mixed_sentences()
    texts = everything[:: max(1, len(everything) // arguments.sentences)][: arguments.sentences]
    speakers = arguments.speakers or settings.mandarin_shipped
    with Voice(arguments.checkpoint) as voice:
        results = list(listen(voice, settings, speakers, texts, Judges()))
        faults = [f"- {fault}" for fault in voice.faults]
    misheard = [f"- {one.speaker}: {one.text} {one.heard}" for one in results if one.path == "voice"]
    show("\n".join([*table(results), "", *misheard, "", f"Faults: {len(faults)}", *faults]))


if __name__ == "__main__":
    main()
