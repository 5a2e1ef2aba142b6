"""A checkpoint as its evaluation hears it: the service's own parts, in this process."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firstword.app.synthesizer import Synthesizer
from firstword.models.checkpoint.open import Checkpoint
from training.teachers.spoken import SAMPLE_RATE_HZ, Samples

_FAULTS = {
    "max_tokens": "does not stop",
    "token_loop": "one token again and again",
    "silence": "silent",
    "empty": "says nothing",
}


def english_speakers(checkpoint: Checkpoint) -> list[str]:
    """Those of whom no other language is told."""
    described = checkpoint.load_descriptions()
    others = {name for name, who in described.items() if not who.language.startswith("en")}
    return [name for name in checkpoint.load_speakers() if name not in others]


class Voice:
    """`with` frees its networks.

    faults: what went wrong in all that was spoken, with its text, where one thread speaks.
    """

    def __init__(self, directory: Path, max_streams: int = 1) -> None:
        """max_streams: of threads that speak at once. Raises CheckpointError."""
        self.synthesizer = Synthesizer.open(directory, max_streams=max_streams)
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.synthesizer.close()

    def speak(
        self, text: str | Sequence[str], speaker: str | None = None, seed: int = 0, *, reference: Any = None
    ) -> list[Samples]:
        """Return the chunks of a text, whole or in pieces, by a speaker or by what `enroll` gave."""
        before = dict(self.synthesizer.anomalies)  # which goes on counting
        spoken = list(self.synthesizer.speak(text, speaker=speaker, seed=seed, reference=reference))
        said = text if isinstance(text, str) else "".join(text)
        for kind, count in self.synthesizer.anomalies.items():
            if count > before[kind]:
                self.faults.append(f"{said}: {_FAULTS[kind]}")
        return spoken

    def enroll(self, samples: Samples, transcript: str) -> Any:
        """Raises BadAudio, AudioTooShort and AudioTooLong."""
        return self.synthesizer.prepare((samples, SAMPLE_RATE_HZ), transcript)

    def respeak(self, samples: Samples, speaker: str) -> Samples:
        """Speak a recording's speech tokens as a stream does, without the language model."""
        return self.synthesizer.convert((samples, SAMPLE_RATE_HZ), speaker)
