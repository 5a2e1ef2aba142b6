from typing import get_args

import pytest

from firstword.app.audio.formats import FORMATS, SAMPLE_RATES_HZ, AudioFormat, sample_rate_of

ALL_FORMATS: tuple[AudioFormat, ...] = get_args(AudioFormat)


def test_every_format_is_in_the_table_with_rates_in_order() -> None:
    assert set(FORMATS) == set(ALL_FORMATS)
    for info in FORMATS.values():
        assert info.media_type.startswith("audio/")
        assert list(info.sample_rates_hz) == sorted(info.sample_rates_hz)
        assert set(info.sample_rates_hz) <= set(SAMPLE_RATES_HZ)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_a_wanted_rate_is_given_or_refused_never_changed(format: AudioFormat) -> None:
    for rate_hz in (*SAMPLE_RATES_HZ, 0, -8000, 11_025, 96_000):
        if rate_hz in FORMATS[format].sample_rates_hz:
            assert sample_rate_of(format, rate_hz, 24_000) == rate_hz
        else:
            with pytest.raises(ValueError, match=f"{rate_hz} Hz is not one that {format} carries; choose"):
                sample_rate_of(format, rate_hz, 24_000)


@pytest.mark.parametrize(
    ("format", "default", "rate_hz"),
    [
        ("wav", 24_000, 24_000),
        ("wav", 22_050, 22_050),
        ("mp3", 32_000, 44_100),
        ("wav", 96_000, 48_000),
        ("opus", 22_050, 24_000),
        ("opus", 44_100, 48_000),
        ("ulaw", 24_000, 8000),
        ("alaw", 8000, 8000),
    ],
)
def test_without_a_wish_the_rate_is_the_one_that_loses_least(
    format: AudioFormat, default: int, rate_hz: int
) -> None:
    assert sample_rate_of(format, None, default) == rate_hz


def test_an_unknown_format_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="'ogg' is unknown; choose one of wav, pcm, pcm_f32, mp3, opus"):
        sample_rate_of("ogg", None, 24_000)  # type: ignore[arg-type]
