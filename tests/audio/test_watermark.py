"""A watermark comes out the same however the stream is cut, is found blind, and by its key alone."""

import numpy as np
import pytest

from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import (
    DETECTOR_HZ,
    LAYOUTS,
    QUIET_BELOW_HZ,
    QUIET_SHARE,
    RATES_HZ,
    Marker,
    Watermark,
    noise_lines,
)
from firstword.app.audio.watermark_detector import Detector
from tests.support.sounds import babble

KEY, OTHER_KEY = b"a secret of the test", b"another one of tests"
PAYLOAD = 0xCAFEBA


def marked(samples: Samples, watermark: Watermark, rate_hz: int = DETECTOR_HZ, size: int = 4800) -> Samples:
    marker = watermark.marker(rate_hz)
    pieces = [marker.feed(samples[start : start + size]) for start in range(0, len(samples), size)]
    return np.concatenate([*pieces, marker.finish()])


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_marked_stream_is_the_same_however_it_is_cut(rate_hz: int) -> None:
    watermark, sound = Watermark(KEY, PAYLOAD), babble(2.1, rate_hz)
    whole = marked(sound, watermark, rate_hz, len(sound))
    assert len(whole) == len(sound)
    assert 12 < snr_db(sound, whole) < 25, "it is there, and quiet"
    for size in (4800, 777, 20):
        np.testing.assert_array_equal(marked(sound, watermark, rate_hz, size), whole)


def test_it_holds_back_ten_milliseconds_and_none_behind_a_flush() -> None:
    marker, sound = Watermark(KEY, PAYLOAD).marker(DETECTOR_HZ), babble(1.0)
    assert len(marker.feed(sound[:4800])) == 4800 - 240
    assert len(marker.finish()) == 240
    assert len(marker.feed(sound[4800:4900])) + len(marker.finish()) == 100
    assert len(marker.finish()) == 0


def test_no_strength_is_no_change_and_silence_stays_silent() -> None:
    sound = babble(1.0)
    np.testing.assert_allclose(marked(sound, Watermark(KEY, 0, strength=0.0)), sound, atol=1e-6)
    assert not marked(np.zeros(5000, np.float32), Watermark(KEY, PAYLOAD)).any()


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_it_is_quieter_where_harmonics_hide_little(rate_hz: int) -> None:
    sound = np.random.default_rng(0).standard_normal(rate_hz).astype(np.float32)
    changed = np.abs(np.fft.rfft(marked(sound, Watermark(KEY, PAYLOAD), rate_hz) - sound)) ** 2
    low, high = changed[250 : QUIET_BELOW_HZ - 50].mean(), changed[QUIET_BELOW_HZ + 50 : 7500].mean()
    assert np.sqrt(low / high) == pytest.approx(QUIET_SHARE, rel=0.15)


def test_a_mark_of_equal_strength_at_all_frequencies_is_found_as_earlier_versions_laid_it() -> None:
    real, imaginary = (part.copy() for part in Watermark(KEY, PAYLOAD).frames[DETECTOR_HZ])
    for part in (real, imaginary):
        part[:, :16] /= QUIET_SHARE
    marker = Marker(real, imaginary, 240, DETECTOR_HZ, 0.25)
    sound = np.concatenate([marker.feed(babble(5.0)), marker.finish()])
    assert Detector(KEY).detect(sound[7001:]).payload == PAYLOAD


@pytest.mark.parametrize("bits", LAYOUTS)
def test_it_is_found_at_any_offset_and_polarity_by_its_key_alone(bits: int) -> None:
    payload = PAYLOAD if bits == 24 else 0xDEADBEEF
    sound = babble(5.0)
    part = -0.3 * marked(sound, Watermark(KEY, payload, bits))[7001:]
    found = Detector(KEY, bits).detect(part)
    assert found.payload == payload, found
    assert Detector(OTHER_KEY, bits).detect(part).payload is None
    assert Detector(KEY, bits).detect(sound).payload is None


def test_it_is_found_behind_a_flush_and_a_cut_and_within_a_long_recording() -> None:
    marker, sound = Watermark(KEY, PAYLOAD).marker(DETECTOR_HZ), babble(6.0)
    pieces = [marker.feed(sound[:50_003]), marker.finish(), marker.feed(sound[50_003:]), marker.finish()]
    flushed = np.concatenate(pieces)
    detector = Detector(KEY)
    assert detector.detect(flushed).payload == PAYLOAD
    assert detector.detect(np.concatenate([flushed[:72_000], flushed[75_300:]])).payload == PAYLOAD
    silence = np.zeros(15 * DETECTOR_HZ, np.float32)
    late = detector.detect(np.concatenate([silence, flushed, silence]))
    assert late.payload == PAYLOAD
    assert 5 <= late.start_s <= 20


def test_it_is_found_at_another_speed_that_nobody_told() -> None:
    part = marked(babble(5.0), Watermark(KEY, PAYLOAD))
    speed = 1.0273
    fast = np.interp(np.arange(int(len(part) / speed)) * speed, np.arange(len(part)), part).astype(np.float32)
    detector = Detector(KEY)
    assert detector.detect(fast).payload is None
    found = detector.detect(fast, searches_speeds=True)
    assert found.payload == PAYLOAD
    assert found.speed == pytest.approx(speed, abs=5e-5)


def test_threshold_is_that_of_the_tail_that_was_measured() -> None:
    detector = Detector(KEY)
    assert detector.threshold(1) == pytest.approx(9.49, abs=0.01)
    assert detector.threshold(5000) > detector.threshold(3) > detector.threshold(1)
    assert Detector(KEY, 32).threshold(1) > detector.threshold(1), "more words are searched"


def test_noises_are_what_the_document_says() -> None:
    """Marks must be found by every later version: this may not change."""
    first = np.angle(noise_lines(KEY, LAYOUTS[24])[0, 0]) / (2 * np.pi) % 1 * 65536
    assert round(first) == 42400


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Watermark(b"short", 1), "has 5 bytes; expected 16 or more"),
        (lambda: Watermark(KEY, 2**24), "16777216 does not fit in 24 bits"),
        (lambda: Watermark(KEY, 1, 12), "24 or 32 bits, not 12"),
        (lambda: Watermark(KEY, 1).marker(16_000), "24,000 or 22,050 Hz, and the checkpoint has 16,000 Hz"),
    ],
)
def test_what_cannot_be_is_refused(made: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        made()  # type: ignore[operator]


def snr_db(sound: Samples, changed: Samples) -> float:
    return float(10 * np.log10(np.sum(sound**2) / np.sum((changed - sound) ** 2)))
