"""Speakers: values, names and the checks of their fields.

The speakers as the routes and the engine see them.

What a client may call a speaker and say about it.
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, Protocol

from firstword.app.errors import InvalidRequest

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


MAX_TRANSCRIPT_CHARS = 1000  # of 30 s: a fast reader of English comes to 750
MAX_LANGUAGE_CHARS = 35

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)  # BCP 47, its usual part


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    if not is_name(name):
        raise InvalidRequest(
            f"name {_shown(name)}; expected 1 to 64 of the characters A-Z a-z 0-9 _ and -", param="name"
        )
    return name


def checked_transcript(transcript: str) -> str:
    """Without the blanks at its ends and with every run of blanks and line breaks as one blank."""
    text = " ".join(transcript.split())
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise InvalidRequest(
            f"a transcript of {len(text)} characters; expected {MAX_TRANSCRIPT_CHARS} at most, what is said "
            "in the recording",
            param="transcript",
        )
    foreign = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if foreign is not None:
        raise InvalidRequest(
            f"the transcript holds the character {foreign!a}; expected readable text", param="transcript"
        )
    return text


def checked_language(language: str | None) -> str | None:
    """None and an empty one are none."""
    if not language:
        return None
    if len(language) > MAX_LANGUAGE_CHARS or not _LANGUAGE.fullmatch(language):
        raise InvalidRequest(
            f"language {_shown(language)}; expected a tag such as en, zh or pt-BR", param="language"
        )
    return language


def _shown(text: str) -> str:
    """In ASCII and short, so that any error body can carry it."""
    return ascii(text) if len(text) <= 80 else f"{text[:80]!a} and more"
