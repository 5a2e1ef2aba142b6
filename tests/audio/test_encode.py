"""Streamed is the same as whole, whatever the pieces."""

import gc
import struct
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from firstword.app.audio.dsp import wav_header
from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.formats import FORMATS, AudioFormat, sample_rate_of
from tests.support.sounds import Samples, chirp, counts_samples, decode, decode_with_ffmpeg, dominant_hz, tone

SOURCE_RATE_HZ = 24_000
WAV_HEADER_BYTES = 44
ALL_FORMATS: tuple[AudioFormat, ...] = get_args(AudioFormat)
LOSSLESS: tuple[AudioFormat, ...] = ("wav", "pcm", "flac", "ulaw", "alaw")
# What an encoder may put in front and behind: AAC has no place to say how much of it is padding.
PADDING_SAMPLES = {"mp3": 2400, "aac": 3 * 1024}


def streamed(
    format: AudioFormat,
    samples: Samples,
    chunk_samples: int,
    sample_rate_hz: int | None = None,
    speed: float = 1.0,
    source_rate_hz: int = SOURCE_RATE_HZ,
) -> bytes:
    encoder = AudioEncoder(format, source_rate_hz, sample_rate_hz, speed)
    parts = [encoder.start(), encoder.encode(samples[:0])]
    starts = [*range(0, len(samples), chunk_samples), len(samples)]
    for start, stop in pairwise(starts):
        parts += [encoder.encode(samples[start:stop]), encoder.encode(samples[:0])]
    return b"".join([*parts, encoder.finish()])


def assert_same(format: AudioFormat, stream: bytes, whole: bytes) -> None:
    """The same audio: the same bytes behind the header, where one says a length and the other cannot."""
    if format == "wav":
        assert stream[WAV_HEADER_BYTES:] == whole[WAV_HEADER_BYTES:]
    elif format == "mp3":
        assert whole.endswith(stream)
        assert b"Info" not in stream
    elif format == "flac":
        np.testing.assert_array_equal(decode_with_ffmpeg(stream)[0], decode_with_ffmpeg(whole)[0])
    else:
        assert stream == whole


@pytest.mark.parametrize("chunk_samples", [1, 7, 480, 24_001])
@pytest.mark.parametrize("format", ALL_FORMATS)
def test_streaming_equals_whole(format: AudioFormat, chunk_samples: int) -> None:
    samples = chirp(0.21 if chunk_samples == 1 else 1.3, SOURCE_RATE_HZ)

    assert_same(
        format, streamed(format, samples, chunk_samples), encode_whole(format, samples, SOURCE_RATE_HZ)
    )


@pytest.mark.parametrize("speed", [0.7, 1.0, 3.1])
@pytest.mark.parametrize(
    ("format", "rate_hz"), [(format, rate) for format in LOSSLESS for rate in FORMATS[format].sample_rates_hz]
)
def test_streaming_equals_whole_after_speed_and_resampling(
    format: AudioFormat, rate_hz: int, speed: float
) -> None:
    samples = chirp(0.7, SOURCE_RATE_HZ)
    whole = encode_whole(format, samples, SOURCE_RATE_HZ, rate_hz, speed)

    assert_same(format, streamed(format, samples, 479, rate_hz, speed), whole)
    assert len(decode(format, whole, rate_hz)[0]) == pytest.approx(0.7 * rate_hz / speed, abs=2)


@pytest.mark.parametrize(
    ("format", "rate_hz"), [(format, rate) for format in FORMATS for rate in FORMATS[format].sample_rates_hz]
)
@pytest.mark.parametrize("is_streamed", [True, False])
def test_what_is_heard_has_the_rate_the_duration_and_the_pitch(
    format: AudioFormat, rate_hz: int, is_streamed: bool
) -> None:
    source = tone(1.0, 22_050)
    if is_streamed:
        body = streamed(format, source, 480, rate_hz, source_rate_hz=22_050)
    else:
        body = encode_whole(format, source, 22_050, rate_hz)

    samples, heard_rate_hz = decode(format, body, rate_hz)

    assert heard_rate_hz == rate_hz
    padding = 0 if format == "mp3" and not is_streamed else PADDING_SAMPLES.get(format, 0)
    assert heard_rate_hz - 1 <= len(samples) <= heard_rate_hz + padding
    assert dominant_hz(samples, heard_rate_hz) == pytest.approx(300, abs=1)
    middle = samples[len(samples) // 4 : -len(samples) // 4]
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.4 / np.sqrt(2), rel=0.06)  # LAME takes 5 % off


# Milliseconds of sound that go in before the first bytes of sound come out, header aside: at the
# source's own rate under 100 in every format. The frames of mp3, AAC and FLAC are counted in samples and
# so last longer at low rates; AAC's encoder wants two of 1024. Resampling holds back 40 ms, 75 on the way
# down to 8 kHz, which is all there is to G.711.
FIRST_PAYLOAD_MS = [
    ("pcm", 24_000, 1),
    ("wav", 24_000, 1),
    ("flac", 24_000, 25),
    ("opus", 24_000, 40),
    ("mp3", 24_000, 48),
    ("ulaw", 8000, 75),
    ("alaw", 8000, 75),
    ("pcm", 48_000, 40),
    ("opus", 48_000, 80),
    ("aac", 24_000, 86),
    ("flac", 8000, 135),
    ("opus", 8000, 80),
    ("mp3", 16_000, 98),
    ("mp3", 8000, 196),
    ("aac", 16_000, 160),
    ("aac", 8000, 320),
]


@pytest.mark.parametrize(("format", "rate_hz", "max_ms"), FIRST_PAYLOAD_MS)
def test_first_bytes_of_sound_come_early(format: AudioFormat, rate_hz: int, max_ms: int) -> None:
    encoder = AudioEncoder(format, SOURCE_RATE_HZ, rate_hz)
    encoder.start()
    fed_ms = 0
    sound = chirp(1.0, SOURCE_RATE_HZ)

    for piece in sound.reshape(-1, SOURCE_RATE_HZ // 1000):
        fed_ms += 1
        if encoder.encode(piece):
            break

    assert fed_ms <= max_ms


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_bytes_keep_coming_while_sound_does(format: AudioFormat) -> None:
    encoder = AudioEncoder(format, SOURCE_RATE_HZ)
    encoder.start()

    sizes = [len(encoder.encode(piece)) for piece in chirp(2.0, SOURCE_RATE_HZ).reshape(-1, 2400)]  # 100 ms

    assert all(sizes[1:])


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_the_header_comes_before_the_sound_and_without_it(format: AudioFormat) -> None:
    encoder = AudioEncoder(format, SOURCE_RATE_HZ)

    header = encoder.start()

    magic = {"wav": b"RIFF", "flac": b"fLaC", "opus": b"OggS"}.get(format)
    assert header.startswith(magic) if magic else header == b""


def test_a_streamed_wav_says_that_its_size_is_unknown() -> None:
    header = AudioEncoder("wav", SOURCE_RATE_HZ, 16_000).start()

    assert len(header) == WAV_HEADER_BYTES
    assert header[:4] + header[8:16] == b"RIFFWAVEfmt "
    assert struct.unpack("<HHIIHH", header[20:36]) == (1, 1, 16_000, 32_000, 2, 16)
    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"


def test_a_wav_of_known_length_says_it() -> None:
    samples = chirp(0.5, SOURCE_RATE_HZ)
    whole = encode_whole("wav", samples, SOURCE_RATE_HZ)

    assert int.from_bytes(whole[4:8], "little") == len(whole) - 8
    assert int.from_bytes(whole[40:44], "little") == 2 * len(samples)
    assert wav_header(SOURCE_RATE_HZ, len(samples)) == whole[:WAV_HEADER_BYTES]
    with pytest.raises(ValueError, match="more than a WAV can hold"):
        wav_header(SOURCE_RATE_HZ, 1 << 31)


def test_a_whole_flac_says_its_length_and_a_streamed_one_cannot() -> None:
    samples = chirp(0.5, SOURCE_RATE_HZ)

    assert counts_samples(encode_whole("flac", samples, SOURCE_RATE_HZ))
    assert not counts_samples(streamed("flac", samples, 480))


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_no_sound_at_all_is_a_file_without_sound(format: AudioFormat) -> None:
    nothing = np.empty(0, np.float32)

    whole = encode_whole(format, nothing, SOURCE_RATE_HZ, speed=1.5)

    assert len(whole) < 500
    assert len(streamed(format, nothing, 480, speed=1.5)) < 500
    if format in ("wav", "flac", "pcm"):
        assert len(decode(format, whole, SOURCE_RATE_HZ)[0]) == 0


def test_beyond_full_scale_is_clipped_and_what_is_no_number_is_silence() -> None:
    values = [0.0, 1.0, -1.0, 1.5, -7.0, np.nan, np.inf, -np.inf, 3e38, 0.5, -1 / 32768, 0.4 / 32768]

    pcm = np.frombuffer(encode_whole("pcm", np.array(values, np.float32), SOURCE_RATE_HZ), "<i2")

    low, high = -32768, 32767
    assert pcm.tolist() == [0, high, low, high, low, 0, high, low, high, 16_384, -1, 0]


def test_every_16_bit_value_comes_out_as_it_went_in() -> None:
    values = np.arange(-32768, 32768).astype(np.int16)

    body = encode_whole("pcm", values.astype(np.float32) / 32768, SOURCE_RATE_HZ)

    np.testing.assert_array_equal(np.frombuffer(body, "<i2"), values)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_one_sample_that_is_no_number_spoils_none_beside_it(format: AudioFormat) -> None:
    sound = tone(0.5, SOURCE_RATE_HZ)
    with_zero, with_nan = sound.copy(), sound.copy()
    with_zero[5000], with_nan[5000] = 0.0, np.nan

    assert streamed(format, with_nan, 480, 8000, 1.2) == streamed(format, with_zero, 480, 8000, 1.2)


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_far_too_loud_is_clipped_in_every_format(format: AudioFormat) -> None:
    rate_hz = sample_rate_of(format, None, SOURCE_RATE_HZ)
    square = np.sign(tone(0.5, SOURCE_RATE_HZ, frequency_hz=50))

    samples, heard_rate_hz = decode(format, streamed(format, 9 * square, 480), rate_hz)

    quarter = samples[len(samples) // 4 : len(samples) // 2]
    assert dominant_hz(quarter, heard_rate_hz) == pytest.approx(50, abs=5)
    np.testing.assert_array_equal(samples, decode(format, streamed(format, square, 480), rate_hz)[0])


@pytest.mark.parametrize(
    ("format", "zero", "highest", "lowest"), [("ulaw", 0xFF, 0x80, 0x00), ("alaw", 0xD5, 0xAA, 0x2A)]
)
def test_g711_has_the_codes_of_the_standard_and_the_nearest_of_them(
    format: AudioFormat, zero: int, highest: int, lowest: int
) -> None:
    values = np.arange(-32768, 32768).astype(np.float32) / 32768

    codes = encode_whole(format, values, 8000)

    assert (codes[32768], codes[-1], codes[0]) == (zero, highest, lowest)
    levels = np.sort(decode(format, bytes(range(256)), 8000)[0])
    nearest = np.abs(levels - values[:, None]).min(axis=1)
    error = np.abs(decode(format, codes, 8000)[0] - values)
    assert (error - nearest).max() <= 8 / 32768  # a quarter of a step where steps double


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_an_encoder_dropped_in_the_middle_leaves_without_a_word(format: AudioFormat) -> None:
    encoder = AudioEncoder(format, SOURCE_RATE_HZ, speed=0.9)
    encoder.start()
    encoder.encode(chirp(0.5, SOURCE_RATE_HZ))

    del encoder
    gc.collect()  # an error in a destructor fails the test: pytest turns it into a warning


@pytest.mark.parametrize("format", ALL_FORMATS)
def test_the_media_type_and_rate_are_the_tables(format: AudioFormat) -> None:
    encoder = AudioEncoder(format, SOURCE_RATE_HZ)

    assert encoder.media_type == FORMATS[format].media_type
    assert encoder.sample_rate_hz == sample_rate_of(format, None, SOURCE_RATE_HZ)


@pytest.mark.parametrize("make", [AudioEncoder, partial(encode_whole, samples=np.zeros(100, np.float32))])
def test_what_cannot_be_encoded_is_refused_when_asked_for(make: Callable[..., object]) -> None:
    def ask(format: str, sample_rate_hz: int | None = None, speed: float = 1.0) -> None:
        make(format, source_rate_hz=SOURCE_RATE_HZ, sample_rate_hz=sample_rate_hz, speed=speed)

    with pytest.raises(ValueError, match="'vorbis' is unknown"):
        ask("vorbis")
    with pytest.raises(ValueError, match="44100 Hz is not one that opus carries"):
        ask("opus", 44_100)
    with pytest.raises(ValueError, match="24000 Hz is not one that ulaw carries; choose one of 8000"):
        ask("ulaw", 24_000)
    for speed in (0.0, 0.249, 4.01, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=r"out of range; choose one from 0.25 to 4.0"):
            ask("wav", speed=speed)


def test_out_of_turn_calls_are_bugs() -> None:
    encoder = AudioEncoder("mp3", SOURCE_RATE_HZ)
    with pytest.raises(AssertionError, match="before start"):
        encoder.encode(tone(0.1, SOURCE_RATE_HZ))
    encoder.start()
    encoder.finish()
    with pytest.raises(AssertionError, match="after finish"):
        encoder.encode(tone(0.1, SOURCE_RATE_HZ))
    with pytest.raises(AssertionError, match="twice"):
        encoder.finish()
