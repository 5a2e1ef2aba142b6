"""An enroller without networks: quick, can be held up, and counts what it did."""

import threading
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from firstword.app.errors import BadAudio
from firstword.app.speakers.store import Tensors

STATE_BYTES = 100


@dataclass(frozen=True, eq=False)
class FakeSpeaker:
    prompt_text: str
    prompt_tokens: NDArray[np.int64]
    checkpoint: int  # which made it


@dataclass(frozen=True, eq=False)
class FakePrepared:
    speaker: FakeSpeaker
    state_bytes: int = STATE_BYTES

    @property
    def transcript(self) -> str:
        return self.speaker.prompt_text

    def with_transcript(self, transcript: str) -> "FakePrepared":
        return replace(self, speaker=replace(self.speaker, prompt_text=transcript))


@dataclass(frozen=True, eq=False)
class FakeBuiltin:
    speaker: FakeSpeaker
    transcript: str = "Hello."
    duration_s: float = 2.0
    created_at: str = "2026-01-01T00:00:00+00:00"


def builtin(*names: str) -> dict[str, FakeBuiltin]:
    return {name: FakeBuiltin(FakeSpeaker("Hello.", np.arange(50), 0)) for name in names}


@dataclass(eq=False)
class FakeEnroller:
    """checkpoint: its number; speech tokens are what it makes of a recording.

    While `gate` is clear, work waits; `began` is released each time some work begins.
    """

    checkpoint: int = 1
    builtin: dict[str, FakeBuiltin] = field(default_factory=lambda: builtin("ann", "bob"))
    max_recording_s: float = 30.0
    reads: int = 0
    prepares: int = 0
    failure: Exception | None = None  # of the next `prepare`
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def fingerprint(self) -> str:
        return f"checkpoint-{self.checkpoint}"

    def read(self, samples: NDArray[np.float32], sample_rate_hz: int, transcript: str) -> FakeSpeaker:
        self._work()
        self.reads += 1
        if not samples.any():
            raise BadAudio("the recording is silent")
        levels = np.abs(samples[:: sample_rate_hz // 25]) * 1000
        return FakeSpeaker(transcript, levels.astype(np.int64), self.checkpoint)

    def prepare(self, speaker: FakeSpeaker) -> FakePrepared:
        self._work()
        self.prepares += 1
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return FakePrepared(speaker)

    def features(self, speaker: FakeSpeaker) -> Tensors:
        return {"prompt_tokens": speaker.prompt_tokens}

    def speaker(self, features: Tensors, transcript: str) -> FakeSpeaker:
        if features.keys() != {"prompt_tokens"}:
            raise ValueError(f"tensors {sorted(features)}; expected prompt_tokens")
        return FakeSpeaker(transcript, features["prompt_tokens"], self.checkpoint)

    def _work(self) -> None:
        self.began.release()
        assert self.gate.wait(timeout=30), "the test never opened the gate"
