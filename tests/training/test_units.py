"""Mandarin's speech tokens: their ids, and how they are laid along what a teacher says."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from training.mandarin.tokens import lay, owners_of
from training.mandarin.units import (
    FINALS,
    INITIALS,
    NUM_HALVES,
    NUM_REGISTERS,
    NUM_TONES,
    NUM_UNITS,
    SILENCE,
    UNITS,
    components,
    final_id,
    initial_id,
    register_of,
    tone_of,
)
from training.networks.speech_tokenizer import NUM_CODES
from training.teachers.pieces import NO_MARKS, Kind, Piece
from training.teachers.spoken import Spoken, TeacherError

TOKEN_S = 0.04
UNIT_S, LAG_S = 0.025, 0.05  # of Kokoro
HELLO = (  # 你好, hey
    Piece(Kind.INITIAL, "n", (0, 0)),
    Piece(Kind.FINAL, "i↓", (1, 1)),
    Piece(Kind.INITIAL, "x", (2, 2)),
    Piece(Kind.FINAL, "au↓", (3, 3)),
    Piece(Kind.PAUSE, ","),
    Piece(Kind.ENGLISH, "hA"),
)


def spoken(num_tokens: Sequence[float], f0_hz: float = 100.0) -> Spoken:
    """num_tokens: of each piece and of the pads at both ends."""
    ends_s = np.cumsum(num_tokens).astype(np.float32) * TOKEN_S
    steps = round(float(ends_s[-1]) * 400)
    pieces = len(num_tokens)
    return Spoken(
        np.zeros(60 * steps, np.int16),
        np.zeros(pieces, np.uint8),
        ends_s,
        np.zeros(pieces, np.int32),
        1,
        np.full(steps, f0_hz, np.float32),
        np.zeros(steps),
        "",
    )


def english(said: Spoken) -> NDArray[np.int16]:
    return np.arange(len(said.f0_hz) // 16, dtype=np.int16)


def test_every_unit_has_an_id_of_its_own_behind_the_codes() -> None:
    ids = [initial_id(one) for one in INITIALS]
    ids += [
        final_id(final, tone, half, register)
        for final in FINALS
        for tone in range(1, NUM_TONES + 1)
        for half in range(NUM_HALVES)
        for register in range(NUM_REGISTERS)
    ]
    assert [SILENCE, *ids] == list(UNITS)
    assert (UNITS.start, NUM_UNITS, UNITS.stop) == (NUM_CODES, 1872, 8433)


def test_units_that_share_something_share_a_component() -> None:
    table = components()
    assert len(np.unique(table, axis=0)) == NUM_UNITS  # no two are alike
    ma1, ma4, pa1 = (final_id("a", 1, 0, 2), final_id("a", 4, 0, 2), initial_id("p"))
    low, high = final_id("a", 1, 0, 0), final_id("a", 1, 0, 4)
    shared = lambda one, other: float(table[one - NUM_CODES] @ table[other - NUM_CODES])  # noqa: E731
    assert shared(low, high) > shared(ma1, ma4) > 0
    assert shared(ma1, pa1) == 0


def test_a_register_is_counted_from_the_speakers_median() -> None:
    semitones = np.array([-6, -3, 0, 3, 6])
    for median_hz in (110.0, 220.0):
        pitch = (median_hz * 2 ** (semitones / 12)).astype(np.float32)
        assert [register_of(one[None], median_hz) for one in pitch] == [0, 1, 2, 3, 4]
    assert register_of(np.array([0, 0, 220], np.float32), 220.0) == 2
    assert register_of(np.zeros(4, np.float32), 220.0) == 0


def test_a_tone_is_an_arrow_in_a_final() -> None:
    assert tone_of("jɛ↓n") == ("jɛn", 3)
    assert tone_of("ʊ→ŋ") == ("ʊŋ", 1)
    assert tone_of("ɤ") == ("ɤ", 5)


def test_tokens_are_laid_along_the_sounds() -> None:
    said = spoken([2, 1, 4, 1, 3, 2, 2, 1])
    laid = lay(said, HELLO, 100.0, english)
    i, au = ([final_id(final, 3, half, 2) for half in (0, 1)] for final in ("i", "au"))
    assert laid.tokens.tolist() == [
        *[SILENCE] * 2,
        *[initial_id("n"), i[0], i[0], i[1], i[1]],
        *[initial_id("x"), au[0], au[1], au[1]],
        *[SILENCE] * 2,
        *[13, 14],
        SILENCE,
    ]
    assert laid.marks[2:11, 0].tolist() == [0, 1, 1, 1, 1, 2, 3, 3, 3]
    assert laid.marks[12:].tolist() == [list(NO_MARKS)] * 4
    higher = lay(spoken([2, 1, 4, 1, 3, 2, 2, 1], 200.0), HELLO, 100.0, english)
    assert higher.tokens[3] == final_id("i", 3, 0, 4)


@pytest.mark.parametrize("kind", [Kind.INITIAL, Kind.FINAL])
def test_a_sound_without_units_is_named(kind: Kind) -> None:
    with pytest.raises(TeacherError, match="no unit is written 'θ↓'"):
        lay(spoken([1, 2, 1]), [Piece(kind, "θ↓", (0, 0))], 100.0, english)


def test_a_text_in_english_keeps_the_speech_tokenizers_tokens() -> None:
    laid = lay(spoken([2, 5, 1]), HELLO[-1:], 100.0, english)
    assert laid.tokens.tolist() == list(range(8))
    assert laid.marks.tolist() == [list(NO_MARKS)] * 8


def test_a_sound_without_a_middle_takes_a_neighbours_token() -> None:
    pieces, ends_s = HELLO[:4], spoken([1, 2, 0.2, 2, 2, 1]).ends_s
    assert owners_of(pieces, ends_s, 8).tolist() == [-1, 0, 0, 1, 2, 3, 3, -1]
    with pytest.raises(TeacherError, match="too short"):
        owners_of(pieces, spoken([1, 0.3, 0.3, 0.2, 0.2, 0]).ends_s, 2)


def test_a_short_blank_belongs_to_what_follows() -> None:
    blank = Piece(Kind.PAUSE, " ")
    pieces = [HELLO[1], blank, HELLO[3]]
    assert owners_of(pieces, spoken([1, 2, 1, 2, 1]).ends_s, 7).tolist() == [-1, 0, 0, 2, 2, 2, -1]
    assert owners_of(pieces, spoken([1, 2, 2, 2, 1]).ends_s, 8).tolist() == [-1, 0, 0, -1, -1, 2, 2, -1]


@pytest.mark.parametrize("before", range(1, 200, 13))
def test_a_blank_of_two_units_is_short_wherever_it_is(before: int) -> None:
    pieces = [HELLO[1], Piece(Kind.PAUSE, " "), HELLO[3]]
    for blank, is_short in ((2, True), (3, False)):
        units = np.cumsum([before, 16, blank, 16, 3])
        ends_s = (units * UNIT_S - LAG_S).astype(np.float32)
        owners = owners_of(pieces, ends_s, int(ends_s[-1] / TOKEN_S))
        owned = owners[np.flatnonzero(owners >= 0)[0] : np.flatnonzero(owners >= 0)[-1]]
        assert (-1 not in owned) == is_short
