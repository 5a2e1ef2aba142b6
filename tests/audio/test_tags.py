"""Files say that they are synthetic, streamed or whole, and still decode."""

import io
import struct

import av
import numpy as np
import pytest
import soundfile

from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.formats import AudioFormat, synthetic_tags
from tests.support.sounds import tone

TAGS = synthetic_tags("anna", "r-1")
SOUND = tone(0.5, 24_000)


def written(format: AudioFormat, is_streamed: bool, tags: object = TAGS) -> bytes:
    if not is_streamed:
        return encode_whole(format, SOUND, 24_000, tags=tags)  # type: ignore[arg-type]
    encoder = AudioEncoder(format, 24_000, tags=tags)  # type: ignore[arg-type]
    return encoder.start() + encoder.encode(SOUND[:6000]) + encoder.encode(SOUND[6000:]) + encoder.finish()


def tags_in(content: bytes) -> dict[str, str]:
    with av.open(io.BytesIO(content)) as file:
        found = {**file.metadata, **file.streams.audio[0].metadata}
        found = {name.lower(): value for name, value in found.items()}
        return {"encoded_by": found.get("encoder", ""), **found}  # as FFmpeg calls it in a WAV


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("format", ["wav", "mp3", "opus", "flac"])
def test_container_says_that_it_is_synthetic(format: AudioFormat, is_streamed: bool) -> None:
    content = written(format, is_streamed)
    assert {name: tags_in(content)[name] for name in TAGS} == TAGS
    assert TAGS["comment"] == "synthetic speech; request r-1"
    with av.open(io.BytesIO(content)) as file:
        num_samples = sum(frame.samples for frame in file.decode(audio=0))
        rate_hz = file.streams.audio[0].sample_rate
    assert num_samples / rate_hz == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("format", ["pcm", "aac", "ulaw", "alaw"])
def test_format_without_a_place_for_tags_is_as_without(format: AudioFormat, is_streamed: bool) -> None:
    assert written(format, is_streamed) == written(format, is_streamed, None)


def test_wav_with_tags_has_true_sizes_and_the_same_samples() -> None:
    content = written("wav", is_streamed=False)
    assert struct.unpack("<I", content[4:8])[0] == len(content) - 8
    np.testing.assert_array_equal(
        soundfile.read(io.BytesIO(content), dtype="int16")[0],
        np.frombuffer(written("pcm", is_streamed=False), "<i2"),
    )
    with soundfile.SoundFile(io.BytesIO(content)) as file:
        assert (file.artist, file.comment, file.software) == (
            TAGS["artist"],
            TAGS["comment"],
            TAGS["encoded_by"],
        )
