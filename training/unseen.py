"""`python -m training.unseen`: speakers registered from voices that no training has heard.

Each reads a recording; the voice then says other sentences as that speaker. An independent encoder tells
which of all the recordings they resemble.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from training import corpus
from training.report import Must, show, table_of_musts
from training.settings import BUILTIN, DEFAULT, Settings, read_settings
from training.teachers import open_teacher
from training.teachers.spoken import SAMPLE_RATE_HZ
from training.text.corpus import evaluation_sentences
from training.voice import Voice

NUM_SENTENCES = 4  # that each speaker says
_RECORDED = 2  # sentences of a recording


@dataclass(frozen=True, slots=True, eq=False)
class Unseen:
    """Of N voices what was heard. The dot product of two embeddings is their likeness."""

    voices: tuple[str, ...]  # as open_teacher takes them
    recordings: Tensor  # (N, D) embeddings of length one
    spoken: Tensor  # (N, D): of all sentences of a registered speaker together

    @property
    def likeness(self) -> Tensor:
        """(N, N): of what speaker i said to the recording of voice j."""
        return self.spoken @ self.recordings.T

    @property
    def own(self) -> Tensor:
        """(N,): to the recording it was registered from."""
        return self.likeness.diagonal()

    @property
    def margins(self) -> Tensor:
        """(N,): by how much that is more than to the other recordings, on average."""
        others = (self.likeness.sum(1) - self.own) / (len(self.voices) - 1)
        return self.own - others

    @property
    def nearest(self) -> list[str]:
        """Of each speaker the voice whose recording is most like it."""
        return [self.voices[place] for place in self.likeness.argmax(1)]

    @property
    def num_right(self) -> int:
        return sum(voice == nearest for voice, nearest in zip(self.voices, self.nearest, strict=True))


def listen(voice: Voice, settings: Settings) -> Unseen:
    """Registers settings.unseen and lets each of them speak."""
    from training.judge.likeness import SpeakerJudge

    judge = SpeakerJudge()
    sentences = evaluation_sentences()
    recordings, spoken = [], []
    for place, call in enumerate(settings.unseen):
        text = " ".join(sentences[-_RECORDED * (place + 1) :][:_RECORDED])
        recording = corpus.trim(open_teacher(call).speak(text)).waveform
        speaker = voice.enroll(recording, text)
        said = [
            np.concatenate(voice.speak(sentence, seed=place, reference=speaker))
            for sentence in sentences[NUM_SENTENCES * place :][:NUM_SENTENCES]
        ]
        recordings.append(judge.embed(recording, SAMPLE_RATE_HZ))
        spoken.append(judge.embed(np.concatenate(said), SAMPLE_RATE_HZ))
    return Unseen(settings.unseen, torch.stack(recordings), torch.stack(spoken))


def listen_to(directory: Path, settings: Settings) -> Unseen:
    """Raises CheckpointError."""
    with Voice(directory) as voice:
        return listen(voice, settings)


def markdown(unseen: Unseen) -> str:
    """A table, and one of what it may not fall short of."""
    lines = ["| unseen voice | likeness to its recording | more than to the others | nearest |"]
    lines.append("|---|---|---|---|")
    columns = zip(unseen.voices, unseen.own, unseen.margins, unseen.nearest, strict=True)
    for voice, own, margin, nearest in columns:
        lines.append(f"| {voice} | {own:.2f} | {margin:.2f} | {'its own' if nearest == voice else nearest} |")
    lines += ["", *table_of_musts(musts(unseen))]
    return "\n".join(lines)


def musts(unseen: Unseen) -> list[Must]:
    own, margin = float(unseen.own.mean()), float(unseen.margins.mean())
    share = unseen.num_right / len(unseen.voices)
    return [
        Must("unseen voices, likeness to their recordings at least 0.70", f"{own:.2f}", own >= 0.70),
        Must("more than to the others by at least 0.08", f"{margin:.2f}", margin >= 0.08),
        Must("nearest to their own recordings: 90 %", f"{share:.0%}", share >= 0.9),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m training.unseen", description=__doc__.split("\n")[0])
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN)
    parser.add_argument("--settings", type=Path, default=DEFAULT)
    arguments = parser.parse_args()
    show(markdown(listen_to(arguments.checkpoint, read_settings(arguments.settings))))


if __name__ == "__main__":
    main()
