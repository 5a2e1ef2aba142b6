"""Reads misaki's phoneme strings: which phone and which word each symbol, and so each moment, belongs to.

Kokoro and what was distilled from it say how long they hold every symbol, stress marks and spaces included,
and speak 50 ms ahead of what they say: without the shift the phone of a frame explains 0.23 of the variance
of the log-mel, with it 0.36.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from training.teachers.spoken import PHONES, TeacherError

LAG_S = 0.05
_STRESS = frozenset("ˈˌ")
_LENGTH = frozenset("ːʰʲ")
_SHORT_SPACE = 2  # units: no silence, the next sound begins here
_INDEX = {phone: place for place, phone in enumerate(PHONES)}


@dataclass(frozen=True, slots=True)
class Labels:
    """Neighbours alike are one."""

    phones: NDArray[np.uint8]  # (num_phones,)
    words: NDArray[np.int32]  # (num_phones,), -1: silence
    ends_s: NDArray[np.float32]  # (num_phones,)
    num_words: int


def label(symbols: str, durations: NDArray[np.floating], unit_s: float) -> Labels:
    """symbols: what was spoken; durations (len(symbols) + 2,): of each, in units, and of a pad at each end.

    Raises TeacherError for another number of durations.
    """
    if len(durations) != len(symbols) + 2:
        raise TeacherError(f"{len(durations)} durations for {len(symbols)} symbols and two pads")
    phones, words = _of_symbols(symbols, durations[1:-1])
    ends = np.cumsum(durations) * unit_s - LAG_S
    last = np.append(np.diff(phones) != 0, True) | np.append(np.diff(words) != 0, True)
    ends[-1] += LAG_S
    return Labels(
        phones[last].astype(np.uint8),
        words[last].astype(np.int32),
        np.maximum(ends[last], 0.0).astype(np.float32),
        count_words(symbols),
    )


def count_words(symbols: str) -> int:
    return len(symbols.split(" ")) if symbols else 0


def _of_symbols(symbols: str, durations: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """-> phone and word of every symbol and of the pads."""
    phones = np.zeros(len(symbols), np.int64)
    words = np.zeros(len(symbols), np.int64)
    word = 0
    for place in range(len(symbols) - 1, -1, -1):  # backwards: a stress mark has the phone behind it
        symbol, following = symbols[place], phones[place + 1] if place + 1 < len(symbols) else 0
        is_inner_space = 0 < place < len(symbols) - 1 and symbol == " "
        if symbol in _STRESS or (is_inner_space and durations[place] <= _SHORT_SPACE):
            phones[place] = following
        elif symbol not in _LENGTH:
            phones[place] = _INDEX.get(symbol, 0)
    for place, symbol in enumerate(symbols):
        if symbol in _LENGTH and place:
            phones[place] = phones[place - 1]
        word += symbol == " "
        words[place] = word
    words[phones == 0] = -1
    return np.pad(phones, 1), np.pad(words, 1, constant_values=-1)
