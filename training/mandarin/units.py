"""Mandarin's speech tokens: silence, an initial, or half of a final with its tone and a register of pitch.

The speech tokenizer knows English sounds, so these are not read off sound: they are laid down from a
teacher's own durations and pitch, 25 a second. Their ids stand behind the codes of English, which stay what
they are.
"""

import re
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from training.networks.speech_tokenizer import NUM_CODES
from training.teachers.spoken import UNTOLD

INITIALS: Final = (
    *("f", "k", "kʰ", "l", "m", "n", "p", "pʰ", "s", "t", "tʰ", "x", "ɕ", "ɻ", "ʂ"),
    *("ʦ", "ʦʰ", "ʨ", "ʨʰ", "ꭧ", "ꭧʰ"),
)
FINALS: Final = (
    *("a", "ai", "an", "au", "aŋ", "ei", "i", "in", "iŋ", "ja", "jau", "jaŋ", "je", "jou", "jɛn", "jʊŋ"),
    *("ou", "u", "wa", "wai", "wan", "waŋ", "wei", "wo", "wən", "wəŋ", "y", "yn", "ɔ", "ən", "əŋ", "ɚ"),
    *("ɤ", "ɥe", "ɥɛn", "ɨ", "ʊŋ"),
)
NUM_TONES: Final = 5  # the last is light
NUM_HALVES: Final = 2
REGISTER_EDGES: Final = (-5.0, -2.0, 1.0, 4.0)  # semitones about the speaker's median
NUM_REGISTERS: Final = len(REGISTER_EDGES) + 1
_OF_FINALS: Final = (len(FINALS), NUM_TONES, NUM_HALVES, NUM_REGISTERS)
NUM_UNITS: Final = 1 + len(INITIALS) + int(np.prod(_OF_FINALS))  # 1,872
SILENCE: Final = NUM_CODES
UNITS: Final = range(NUM_CODES, NUM_CODES + NUM_UNITS)
NUM_SOUNDS: Final = 1 + len(INITIALS) + len(FINALS) * NUM_TONES  # silence, initials and toned finals
_FIRST_INITIAL: Final = SILENCE + 1
_FIRST_FINAL: Final = _FIRST_INITIAL + len(INITIALS)
_TONES: Final = {"→": 1, "↗": 2, "↓": 3, "↘": 4}
_LOWEST: Final = -99.0  # semitones, where there is no voice


def initial_id(symbols: str) -> int:
    """Raises ValueError for none of INITIALS."""
    return _FIRST_INITIAL + INITIALS.index(symbols)


def final_id(final: str, tone: int, half: int, register: int) -> int:
    """final: one of FINALS; tone: from 1. Raises ValueError."""
    place = (FINALS.index(final), tone - 1, half, register)
    return _FIRST_FINAL + int(np.ravel_multi_index(place, _OF_FINALS))


def tone_of(symbols: str) -> tuple[str, int]:
    """The symbols of a final without the arrow that tells its tone, and the tone.

    >>> tone_of("jɛ↓n"), tone_of("ɤ")
    (('jɛn', 3), ('ɤ', 5))
    """
    found = re.search("[→↗↓↘]", symbols)
    if found is None:
        return symbols, NUM_TONES
    return symbols.replace(found[0], ""), _TONES[found[0]]


def register_of(f0_hz: NDArray[np.float32], median_hz: float) -> int:
    """f0_hz (n,), 0 where unvoiced: the lowest where there is no voice."""
    voiced = f0_hz[f0_hz > 0]
    semitones = 12 * np.log2(voiced.mean() / median_hz) if len(voiced) else _LOWEST
    return int(np.searchsorted(REGISTER_EDGES, semitones))


def sounds_of(tokens: NDArray[np.integer]) -> NDArray[np.int64]:
    """Which of NUM_SOUNDS each token says, whatever its half and its register; UNTOLD in English."""
    units = tokens.astype(np.int64) - SILENCE
    first = _FIRST_FINAL - SILENCE
    sounds = np.where(units < first, units, first + (units - first) // (NUM_HALVES * NUM_REGISTERS))
    return np.where(units < 0, UNTOLD, sounds)


def components() -> NDArray[np.float32]:
    """(units, K), 1 where a unit has a component: what it is, and pairs of what it is, which others share."""
    finals = np.array(list(product(*map(range, _OF_FINALS))))  # (N, 4)
    final, tone, half, register = finals.T
    shared = [
        _one_hot(place, size)
        for place, size in (
            *((one, size) for one, size in zip(finals.T, _OF_FINALS, strict=True)),
            (final * NUM_TONES + tone, len(FINALS) * NUM_TONES),
            (final * NUM_HALVES + half, len(FINALS) * NUM_HALVES),
            ((tone * NUM_HALVES + half) * NUM_REGISTERS + register, NUM_TONES * NUM_HALVES * NUM_REGISTERS),
            ((final * NUM_TONES + tone) * NUM_HALVES + half, len(FINALS) * NUM_TONES * NUM_HALVES),
        )
    ]
    own = np.eye(1 + len(INITIALS), dtype=np.float32)
    of_finals = np.concatenate(shared, axis=1)
    table = np.zeros((NUM_UNITS, own.shape[1] + of_finals.shape[1]), np.float32)
    table[: len(own), : own.shape[1]] = own
    table[len(own) :, own.shape[1] :] = of_finals
    return table


def _one_hot(places: NDArray[np.int64], size: int) -> NDArray[np.float32]:
    return np.eye(size, dtype=np.float32)[places]
