"""Times a stream as its listener has it: when it began, when it could be heard, where it stood still.

The listener plays from the first byte on, with no pre-buffer. Pure functions of what arrived and when.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import AUDIBLE, WINDOW_MS, first_loud_window
from firstword.app.telemetry.metrics import Playback

SAME_CHUNK_S = 0.002  # what comes within it is one chunk that the network cut

Flaw = Literal["silent", "truncated", "looping"]
# Seconds of speech that a character of text may take. Slow and quick speakers lie well within.
_PACE_S = {"en": (0.03, 0.2), "zh": (0.1, 0.6)}
_PAUSES_S = 3.0  # beyond the pace: what a short text may have at its ends, and a number written in digits


class ServerAnswer(Exception):
    """The server refused or failed; the message is its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of s16le mono that arrived together."""

    at_s: float
    data: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """Seconds, all but `total_s` and `audio_s` from the request on, as the listener has them.

    ttfa_s: until a sound is heard; None: all was silent. second_chunk_s: from the first chunk to the
    second; None: there was one. underrun_s: the worst deficit, which is the sum of the gaps.
    """

    ttfb_s: float
    ttfa_s: float | None
    second_chunk_s: float | None
    underrun_s: float
    audio_s: float
    total_s: float


def heard(pieces: Sequence[Piece], asked_s: float, sample_rate_hz: int) -> Heard | None:
    """Return the times of a stream; None: no audio. asked_s: of the request, by the pieces' clock."""
    playback = Playback(sample_rate_hz)
    starts: list[tuple[int, float]] = []  # of each piece: its first sample, and when that is played
    num_bytes = 0
    for piece in pieces:
        first = num_bytes // 2
        num_bytes += len(piece.data)
        if num_bytes // 2 == first:
            continue
        playback.received(num_bytes // 2 - first, piece.at_s)
        assert playback.first_at_s is not None, "audio was heard"
        starts.append((first, playback.first_at_s + first / sample_rate_hz + playback.worst_deficit_s))
    if playback.first_at_s is None:
        return None
    sound = _first_sound(samples_of(pieces), sample_rate_hz)
    return Heard(
        ttfb_s=playback.first_at_s - asked_s,
        ttfa_s=None if sound is None else _played_s(sound, starts, sample_rate_hz) - asked_s,
        second_chunk_s=_second_chunk_s(pieces),
        underrun_s=playback.worst_deficit_s,
        audio_s=playback.audio_s,
        total_s=pieces[-1].at_s - asked_s,
    )


def samples_of(pieces: Sequence[Piece]) -> NDArray[np.float32]:
    """Return samples (N,) within ±1; half a sample at the end is left out."""
    data = b"".join(piece.data for piece in pieces)
    return np.frombuffer(data, "<i2", count=len(data) // 2).astype(np.float32) / np.float32(32768)


def first_sound(samples: NDArray[np.float32], sample_rate_hz: int) -> int | None:
    """Return the index of the first audible one of samples (N,), by loud windows; None: there is none."""
    start = first_loud_window(samples, sample_rate_hz)
    if start is None:
        return None
    window = samples[start : start + sample_rate_hz * WINDOW_MS // 1000]
    return start + int((np.abs(window) > AUDIBLE).argmax())


def flaw_of(text: str, language: str, found: Heard) -> Flaw | None:
    """Return what is wrong with the speech of `text`; "": nothing."""
    if found.ttfa_s is None:
        return "silent"
    if language not in _PACE_S:
        return None
    shortest_s, longest_s = _PACE_S[language]
    num_characters = sum(character.isalnum() for character in text)
    if found.audio_s < shortest_s * num_characters:
        return "truncated"
    if found.audio_s > longest_s * num_characters + _PAUSES_S:
        return "looping"
    return None


def _played_s(sample: int, starts: Sequence[tuple[int, float]], sample_rate_hz: int) -> float:
    first, at_s = next(start for start in reversed(starts) if start[0] <= sample)
    return at_s + (sample - first) / sample_rate_hz


def _first_sound(samples: NDArray[np.float32], sample_rate_hz: int) -> int | None:
    """Look for it in the first second before the rest, which is enough nearly always."""
    early = first_sound(samples[:sample_rate_hz], sample_rate_hz)
    return first_sound(samples, sample_rate_hz) if early is None else early


def _second_chunk_s(pieces: Sequence[Piece]) -> float | None:
    for earlier, later in pairwise(pieces):
        if later.at_s - earlier.at_s > SAME_CHUNK_S:
            return later.at_s - pieces[0].at_s
    return None
