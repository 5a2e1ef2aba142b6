"""Lays speech tokens along what a teacher says: units for Mandarin, for English the speech tokenizer's."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firstword.models.config import TOKEN_RATE_HZ
from training.corpus import STEPS_PER_TOKEN
from training.mandarin.units import SILENCE, final_id, initial_id, register_of, tone_of
from training.teachers.pieces import NO_MARKS, Kind, Piece
from training.teachers.spoken import Spoken, TeacherError

# A blank up to here is no silence: the next sound begins where it does. Kokoro counts durations in units of
# 25 ms, so that two and a half of them tell two from three however a difference of ends is rounded.
_SHORT_BLANK_S = 0.0625


@dataclass(frozen=True, slots=True, eq=False)
class Laid:
    tokens: NDArray[np.int16]  # (T,)
    marks: NDArray[np.int16]  # (T, 2), the first and the last of the text's pinyin marks that each says


def lay(
    spoken: Spoken,
    pieces: Sequence[Piece],
    median_hz: float,
    english_tokens: Callable[[Spoken], NDArray[np.int16]],
) -> Laid:
    """spoken: trimmed, its phones these pieces between two pads. english_tokens: called where English is.

    A text that is English as a whole has the speech tokenizer's tokens throughout, silences too. Raises
    TeacherError where a sound is too short to have a token, or is none of the units.
    """
    num_tokens = len(spoken.f0_hz) // STEPS_PER_TOKEN
    owners = owners_of(pieces, spoken.ends_s, num_tokens)
    heard = np.full(num_tokens, SILENCE, np.int16)
    if any(one.kind is Kind.ENGLISH for one in pieces):
        heard = english_tokens(spoken)
    if len(pieces) == 1 and pieces[0].kind is Kind.ENGLISH:
        return Laid(heard, np.tile(np.array(NO_MARKS, np.int16), (num_tokens, 1)))
    f0_hz = spoken.f0_hz[: num_tokens * STEPS_PER_TOKEN].reshape(num_tokens, STEPS_PER_TOKEN)
    tokens = np.full(num_tokens, SILENCE, np.int16)
    marks = np.tile(np.array(NO_MARKS, np.int16), (num_tokens, 1))
    for number, piece in enumerate(pieces):
        places = np.flatnonzero(owners == number)
        marks[places] = piece.marks
        if piece.kind is Kind.ENGLISH:
            tokens[places] = heard[places]
        elif piece.kind is not Kind.PAUSE:
            tokens[places] = _units_of(piece, f0_hz[places], median_hz)
    return Laid(tokens, marks)


def _units_of(piece: Piece, f0_hz: NDArray[np.float32], median_hz: float) -> list[int]:
    """f0_hz (n, 16): of an initial's or a final's tokens -> units. Raises TeacherError for other symbols."""
    num_tokens = len(f0_hz)
    try:
        if piece.kind is Kind.INITIAL:
            return [initial_id(piece.symbols)] * num_tokens
        final, tone = tone_of(piece.symbols)
        return [
            final_id(final, tone, int(order + 0.5 >= num_tokens / 2), register_of(one, median_hz))
            for order, one in enumerate(f0_hz)
        ]
    except ValueError as error:
        raise TeacherError(f"no unit is written {piece.symbols!r}") from error


def owners_of(pieces: Sequence[Piece], ends_s: NDArray[np.float32], num_tokens: int) -> NDArray[np.int64]:
    """The piece that each token is of, by its middle; -1 for silence.

    ends_s (2 + pieces,), of the pad before them, of each and of the pad behind. A sound that no middle falls
    into takes a neighbour's token where that has more. Raises TeacherError where none has.
    """
    begins, ends = ends_s[:-2].copy(), ends_s[1:-1]
    for number, piece in enumerate(pieces[:-1]):
        if piece.symbols == " " and ends[number] - begins[number] <= _SHORT_BLANK_S:
            begins[number + 1] = begins[number]
    middles = (np.arange(num_tokens) + 0.5) / TOKEN_RATE_HZ
    sounds = [number for number, piece in enumerate(pieces) if piece.kind is not Kind.PAUSE]
    owners = np.full(num_tokens, -1)
    for number in sounds:
        owners[(begins[number] <= middles) & (middles < ends[number])] = number
    for number in sounds:
        if number not in owners:
            place = int(np.clip((begins[number] + ends[number]) / 2 * TOKEN_RATE_HZ, 0, num_tokens - 1))
            _give(owners, number, place)
    if not set(sounds) <= set(owners.tolist()) or (np.diff(owners[owners >= 0]) < 0).any():
        raise TeacherError("a sound is too short to have a speech token")
    return owners


def _give(owners: NDArray[np.int64], number: int, place: int) -> None:
    """Give a sound that has none a token at `place` or beside it, if its owner has another; in place."""
    for one in (place, place - 1, place + 1):
        if 0 <= one < len(owners):
            owner = owners[one]
            is_near = one == place or abs(owner - number) <= 2 or owner < 0
            if is_near and (owner < 0 or (owners == owner).sum() > 1):
                owners[one] = number
                return
