"""When a listener hears something, where it stands still, and what is not worth hearing."""

import numpy as np
import pytest
from numpy.typing import NDArray

from firstword.bench.hearing import Heard, Piece, first_sound, flaw_of, heard

RATE_HZ = 24_000
ASKED_S = 100.0


def tone(seconds: float, dbfs: float = -20.0) -> NDArray[np.float32]:
    """A sine whose RMS is so far below full scale."""
    time_s = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (10 ** (dbfs / 20) * np.sqrt(2) * np.sin(2 * np.pi * 200 * time_s)).astype(np.float32)


def silence(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * RATE_HZ), np.float32)


def piece(at_s: float, samples: NDArray[np.float32]) -> Piece:
    return Piece(ASKED_S + at_s, np.round(samples * 32767).astype("<i2").tobytes())


def listened(*pieces: Piece) -> Heard:
    found = heard(pieces, ASKED_S, RATE_HZ)
    assert found is not None
    return found


def test_audio_that_is_always_there_in_time_has_no_gap() -> None:
    found = listened(piece(0.2, tone(0.4)), piece(0.5, tone(1.0)), piece(1.5, tone(1.0)))
    assert found.ttfb_s == pytest.approx(0.2)
    assert found.ttfa_s == pytest.approx(0.2, abs=0.001)
    assert found.second_chunk_s == pytest.approx(0.3)
    assert found.underrun_s == 0
    assert found.audio_s == pytest.approx(2.4)
    assert found.total_s == pytest.approx(1.5)


def test_worst_deficit_is_the_sum_of_the_gaps() -> None:
    found = listened(piece(0.0, tone(0.4)), piece(0.5, tone(0.4)), piece(1.2, tone(0.4)))
    assert found.underrun_s == pytest.approx(0.4)  # 0.1 before the second, 0.3 more before the third


def test_leading_silence_delays_the_first_sound_not_the_first_byte() -> None:
    found = listened(piece(0.2, silence(0.4)), piece(0.3, np.concatenate([silence(0.1), tone(1.0)])))
    assert found.ttfb_s == pytest.approx(0.2)
    assert found.ttfa_s == pytest.approx(0.2 + 0.5, abs=0.011)


def test_first_sound_waits_through_the_gap_before_it() -> None:
    found = listened(piece(0.0, silence(0.4)), piece(2.0, tone(1.0)))
    assert found.ttfa_s == pytest.approx(2.0, abs=0.011)


def test_sound_after_the_first_second_is_found() -> None:
    assert listened(piece(0.0, np.concatenate([silence(1.5), tone(0.5)]))).ttfa_s == pytest.approx(
        1.5, abs=0.011
    )


@pytest.mark.parametrize(("dbfs", "is_audible"), [(-44.5, True), (-45.5, False)])
def test_what_can_be_heard_is_over_minus_45_dbfs(dbfs: float, is_audible: bool) -> None:
    assert (first_sound(tone(0.5, dbfs), RATE_HZ) is not None) == is_audible


def test_pieces_that_the_network_cut_are_one_chunk() -> None:
    found = listened(piece(0.1, tone(0.2)), piece(0.1005, tone(0.2)), piece(0.4, tone(0.4)))
    assert found.second_chunk_s == pytest.approx(0.3)


def test_samples_cut_in_half_are_joined() -> None:
    data = piece(0, tone(0.1)).data
    found = listened(Piece(ASKED_S, data[:1]), Piece(ASKED_S + 0.01, data[1:]))
    assert found.audio_s == pytest.approx(0.1)
    assert found.ttfb_s == pytest.approx(0.01)


@pytest.mark.parametrize("pieces", [[], [Piece(ASKED_S, b"")], [Piece(ASKED_S, b"\0")]])
def test_no_audio_is_nothing_heard(pieces: list[Piece]) -> None:
    assert heard(pieces, ASKED_S, RATE_HZ) is None


def test_silence_has_no_first_sound() -> None:
    found = listened(piece(0.0, silence(2.0)))
    assert found.ttfa_s is None
    assert flaw_of("Good morning.", "en", found) == "silent"


@pytest.mark.parametrize(
    ("text", "language", "seconds", "flaw"),
    [
        ("The children built a house out of empty boxes.", "en", 3.0, None),
        ("The children built a house out of empty boxes.", "en", 1.0, "truncated"),
        ("The children built a house out of empty boxes.", "en", 12.0, "looping"),
        ("Yes.", "en", 0.4, None),
        ("Yes.", "en", 5.0, "looping"),
        ("这家面馆开了三十多年。", "zh", 2.5, None),
        ("这家面馆开了三十多年。", "zh", 0.7, "truncated"),
        ("这家面馆开了三十多年。", "zh", 12.0, "looping"),
    ],
)
def test_speech_that_is_too_short_or_too_long_for_its_text_is_flawed(
    text: str, language: str, seconds: float, flaw: str | None
) -> None:
    assert flaw_of(text, language, listened(piece(0.0, tone(seconds)))) == flaw
