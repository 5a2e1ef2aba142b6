"""Speaker networks without weights: quick, can be held up, and count what they did."""

import threading
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from firstword.app.errors import BadAudio
from firstword.app.speakers.bundle import Tensors
from firstword.app.speakers.interface import PreparedSpeaker

STATE_BYTES = 100


@dataclass(frozen=True, eq=False)
class FakeFeatures:
    prompt_tokens: NDArray[np.int64]
    checkpoint: int  # which made it


@dataclass(frozen=True, eq=False)
class FakeBuiltin:
    features: FakeFeatures
    transcript: str = "Hello."
    duration_s: float = 2.0
    created_at: str = "2026-01-01T00:00:00+00:00"
    quality: None = None
    description: None = None


def builtin(*names: str) -> dict[str, FakeBuiltin]:
    return {name: FakeBuiltin(FakeFeatures(np.arange(50), 0)) for name in names}


@dataclass(eq=False)
class FakeNetworks:
    """checkpoint: its number; speech tokens are what it makes of a recording.

    While `gate` is clear, work waits; `began` is released each time some work begins.
    """

    checkpoint: int = 1
    builtin: dict[str, FakeBuiltin] = field(default_factory=lambda: builtin("ann", "bob"))
    former: dict[str, str] = field(default_factory=dict)
    reads: int = 0
    prepares: int = 0
    failure: Exception | None = None  # of the next prompt state
    fit: float | None = None  # of every transcript
    gate: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def __post_init__(self) -> None:
        self.gate.set()

    @property
    def builtin_names(self) -> dict[str, str]:
        return {**self.former, **{name: name for name in self.builtin}}

    @property
    def fingerprint(self) -> str:
        return f"checkpoint-{self.checkpoint}"

    def transcript_fit(self, features: FakeFeatures, transcript: str) -> float | None:
        return self.fit

    def read_features(self, samples: NDArray[np.float32], sample_rate_hz: int) -> FakeFeatures:
        self._work()
        self.reads += 1
        if not samples.any():
            raise BadAudio("the recording is silent")
        levels = np.abs(samples[:: sample_rate_hz // 25]) * 1000
        return FakeFeatures(levels.astype(np.int64), self.checkpoint)

    def read_speaker(self, samples: NDArray[np.float32], sample_rate_hz: int) -> FakeFeatures:
        return self.matched(self.read_features(samples, sample_rate_hz))

    def read_source_tokens(self, samples: NDArray[np.float32], sample_rate_hz: int) -> list[int]:
        return self.read_features(samples, sample_rate_hz).prompt_tokens.tolist()

    def read_embedding(self, samples: NDArray[np.float32], sample_rate_hz: int) -> NDArray[np.float32]:
        self._work()
        return np.zeros(192, np.float32)

    def with_prompt_state(self, features: FakeFeatures, transcript: str) -> PreparedSpeaker:
        self._work()
        self.prepares += 1
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return PreparedSpeaker(transcript, features, None, STATE_BYTES)

    def with_transcript(self, speaker: PreparedSpeaker, transcript: str) -> PreparedSpeaker:
        return replace(speaker, transcript=transcript)

    def tensors_of(self, features: FakeFeatures) -> Tensors:
        return {"prompt_tokens": features.prompt_tokens}

    def features_from(self, tensors: Tensors) -> FakeFeatures:
        if tensors.keys() != {"prompt_tokens"}:
            raise ValueError(f"tensors {sorted(tensors)}; expected prompt_tokens")
        return FakeFeatures(tensors["prompt_tokens"], self.checkpoint)

    def matched(self, features: FakeFeatures) -> FakeFeatures:
        return features

    def _work(self) -> None:
        self.began.release()
        assert self.gate.wait(timeout=30), "the test never opened the gate"
