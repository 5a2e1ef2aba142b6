"""A flush gives out all that the stages hold back, and what comes behind it begins anew."""

import numpy as np
import pytest

from firstword.app.audio.encode import AudioEncoder
from firstword.app.audio.formats import AudioFormat
from tests.support.sounds import Samples, chirp, decode

SOURCE_HZ = 24_000
FORMS: list[tuple[AudioFormat, int, float]] = [
    ("pcm", 24_000, 1.0),
    ("pcm", 48_000, 1.0),
    ("pcm", 8_000, 1.0),
    ("pcm", 24_000, 2.0),
    ("wav", 16_000, 0.5),
    ("ulaw", 8_000, 1.0),
    ("alaw", 8_000, 1.5),
]
forms = pytest.mark.parametrize(("format", "rate_hz", "speed"), FORMS)


def started(format: AudioFormat, rate_hz: int, speed: float) -> AudioEncoder:
    encoder = AudioEncoder(format, SOURCE_HZ, rate_hz, speed)
    encoder.start()
    return encoder


def body(encoder: AudioEncoder, sound: Samples) -> bytes:
    return b"".join(encoder.encode(piece) for piece in np.array_split(sound, 7))


@forms
def test_a_flush_gives_all_that_came(format: AudioFormat, rate_hz: int, speed: float) -> None:
    encoder, sound = started(format, rate_hz, speed), chirp(1.0, SOURCE_HZ)
    encoded = body(encoder, sound) + encoder.flush()
    num_samples = round(len(sound) * rate_hz / SOURCE_HZ / speed)
    bytes_per_sample = 1 if format in ("ulaw", "alaw") else 2
    assert len(encoded) == pytest.approx(bytes_per_sample * num_samples, abs=2 * bytes_per_sample)
    assert encoder.num_samples == len(encoded) // bytes_per_sample


@forms
def test_what_comes_behind_a_flush_sounds_as_if_nothing_had_been_before(
    format: AudioFormat, rate_hz: int, speed: float
) -> None:
    encoder, alone = started(format, rate_hz, speed), started(format, rate_hz, speed)
    first, second = chirp(0.7, SOURCE_HZ), chirp(0.5, SOURCE_HZ)
    body(encoder, first)
    encoder.flush()
    behind = body(encoder, second) + encoder.finish()
    assert behind == body(alone, second) + alone.finish()


@forms
def test_a_flush_with_nothing_to_give_gives_nothing(format: AudioFormat, rate_hz: int, speed: float) -> None:
    encoder = started(format, rate_hz, speed)
    assert encoder.flush() == b""
    body(encoder, chirp(0.3, SOURCE_HZ))
    encoder.flush()
    assert encoder.flush() == encoder.finish() == b""


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac"])
def test_a_flush_in_a_format_of_frames_leaves_one_whole_file(format: AudioFormat) -> None:
    encoder, sound = AudioEncoder(format, SOURCE_HZ, speed=1.5), chirp(0.9, SOURCE_HZ)
    file = encoder.start() + body(encoder, sound) + encoder.flush() + body(encoder, sound) + encoder.finish()
    samples, rate_hz = decode(format, file, SOURCE_HZ)
    assert len(samples) / rate_hz == pytest.approx(2 * 0.9 / 1.5, abs=0.1)


def test_a_flush_out_of_turn_is_a_bug() -> None:
    encoder = AudioEncoder("pcm", SOURCE_HZ)
    with pytest.raises(AssertionError, match="flush before start"):
        encoder.flush()
