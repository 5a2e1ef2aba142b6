"""The speakers as the routes and the engine see them."""

from dataclasses import dataclass
from typing import Literal, Protocol

MAX_FEATURES_BYTES = 2 << 20  # what a bundle holds beside its recording, with room to spare


def max_bundle_bytes(max_recording_bytes: int) -> int:
    """So that whatever can be registered can be exported and imported again."""
    return max_recording_bytes + MAX_FEATURES_BYTES


@dataclass(frozen=True, slots=True)
class Quality:
    """Measured of a recording at enrolment."""

    snr_db: float
    clipping: float  # share of samples at full scale
    speech_ratio: float  # share of 20 ms windows with speech
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeakerInfo:
    name: str
    kind: Literal["builtin", "registered"]
    created_at: str  # ISO 8601, UTC; of a built-in one, when its checkpoint was made
    duration_s: float
    transcript: str
    language: str | None
    quality: Quality | None  # None: built-in
    prompt_tokens: int
    cached: bool  # the flow prompt state is in memory


class Speakers(Protocol):
    """Raises SpeakerNotFound for a name that nobody has; everything else as each says."""

    def list(self) -> list[SpeakerInfo]:
        """By name, the built-in ones first."""
        ...

    def count(self) -> int:
        """As many as `list` has, but cheaper; any thread may ask."""
        ...

    def get(self, name: str) -> SpeakerInfo: ...

    async def enrol(
        self, name: str, recording: bytes, transcript: str = "", language: str | None = None
    ) -> SpeakerInfo:
        """Returns when the speaker is durable and its states are computed.

        recording: the file as uploaded. Raises InvalidRequest (name), SpeakerExists, BadAudio and kin.
        """
        ...

    async def update(
        self, name: str, transcript: str | None = None, language: str | None = None
    ) -> SpeakerInfo:
        """None leaves a field. Raises InvalidRequest for a built-in speaker."""
        ...

    async def delete(self, name: str) -> None:
        """Running streams finish. Raises InvalidRequest for a built-in speaker."""
        ...

    async def export(self, name: str) -> bytes:
        """One safetensors file."""
        ...

    async def import_bundle(self, bundle: bytes, name: str | None = None) -> SpeakerInfo:
        """Raises InvalidRequest (no bundle), SpeakerExists, SpeakerIncompatible."""
        ...
