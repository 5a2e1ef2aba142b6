"""What comes of a text: audio with its words, statistics, what an interrupted listener has heard; errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Word:
    """A word, when it sounds, in milliseconds from the start of the speech, and where it is in the text."""

    text: str
    start_ms: float
    end_ms: float
    char_start: int
    char_end: int


@dataclass(frozen=True)
class Audio:
    """A piece of audio: 16-bit little-endian mono PCM, or whatever format was asked for.

    words: those that end in it, where `timestamps` was asked for; they never change.
    """

    pcm: bytes
    start_ms: float
    duration_ms: float
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Stats:
    """What the server measured of a speech. ttfb_ms None: nothing of it was to be spoken."""

    ttfb_ms: float | None
    audio_ms: float
    rtf: float | None
    characters: int
    speech_tokens: int


@dataclass(frozen=True)
class Interrupted:
    """What a listener had heard when the speech was interrupted, to the word, and what was left to say."""

    spoken_text: str
    remaining_text: str
    audio_ms_sent: float


class FirstwordError(Exception):
    """The server's answer where it did not speak.

    code: such as "speaker_not_found" (docs/api.md lists them). param: the field that is wrong, if one is.
    """

    def __init__(self, message: str, code: str, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> FirstwordError:
        """body: the server's `error`."""
        return cls(str(body.get("message")), str(body.get("code")), body.get("param"))


class ConnectionLost(FirstwordError):
    """The connection to the server broke after a speech had begun to sound."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "connection_lost")


class SocketLost(ConnectionResetError):
    """The connection broke; a speech that has not sounded begins again, for others it is ConnectionLost."""
