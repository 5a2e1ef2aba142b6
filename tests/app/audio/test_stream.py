"""A stream's chunks are its file, and what takes long is encoded in a thread."""

import threading
from typing import Any

import numpy as np
import pytest

from firstword.app.audio.encode import AudioEncoder, encode_whole, open_encoder
from firstword.app.audio.formats import OutputFormat
from firstword.app.audio.stream import EncodedChunk, StreamEncoder
from tests.support.sounds import tone

pytestmark = pytest.mark.anyio

RATE_HZ = 24_000
SOUND = tone(0.5, RATE_HZ)


async def streamed(encoder: StreamEncoder) -> list[EncodedChunk]:
    await encoder.start()
    chunks = [await encoder.encode(part) for part in np.array_split(SOUND, 5)]
    chunks += [await encoder.flush(), await encoder.finish()]
    return [chunk for chunk in chunks if chunk is not None]


@pytest.mark.parametrize("output", [OutputFormat("wav", 24_000), OutputFormat("flac", 16_000, 1.5)])
async def test_the_first_chunk_is_the_header_with_audio_behind_it(output: OutputFormat) -> None:
    header = open_encoder(output.format, RATE_HZ, output.sample_rate_hz, output.speed).start()
    chunks = await streamed(StreamEncoder(output, RATE_HZ, on_encoded=lambda seconds: None))
    assert chunks[0].data.startswith(header)
    assert len(chunks[0].data) > len(header) > 0
    assert all(chunk.data for chunk in chunks)
    num_samples = len(SOUND) * output.sample_rate_hz / RATE_HZ / output.speed
    assert sum(chunk.num_samples for chunk in chunks) == pytest.approx(num_samples, abs=2)


async def test_a_stream_without_audio_is_still_a_header() -> None:
    encoder = StreamEncoder(OutputFormat("wav", RATE_HZ), RATE_HZ, on_encoded=lambda seconds: None)
    await encoder.start()
    assert await encoder.flush() is None
    rest = await encoder.finish()
    assert rest is not None
    assert (len(rest.data), rest.num_samples) == (44, 0)


async def test_a_file_is_complete_and_its_time_is_reported() -> None:
    output = OutputFormat("wav", 16_000, 0.5)
    times: list[float] = []
    file = await StreamEncoder(output, RATE_HZ, times.append).encode_file(np.array_split(SOUND, 3))
    assert file.data == encode_whole("wav", SOUND, RATE_HZ, 16_000, 0.5)
    assert file.num_samples == (len(file.data) - 44) // 2
    assert len(times) == 1
    assert times[0] > 0


@pytest.mark.parametrize(
    ("output", "is_in_thread"),
    [
        (OutputFormat("wav", RATE_HZ), False),
        (OutputFormat("pcm", RATE_HZ), False),
        (OutputFormat("pcm", 8_000), True),
        (OutputFormat("wav", RATE_HZ, 1.5), True),
        (OutputFormat("mp3", RATE_HZ), True),
    ],
)
async def test_what_takes_long_is_done_in_a_thread(
    output: OutputFormat, is_in_thread: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    encode = AudioEncoder.encode

    def watched(self: AudioEncoder, samples: Any) -> bytes:
        threads.append(threading.current_thread())
        return encode(self, samples)

    monkeypatch.setattr(AudioEncoder, "encode", watched)
    times: list[float] = []
    await streamed(StreamEncoder(output, RATE_HZ, times.append))
    assert {thread is not threading.current_thread() for thread in threads} == {is_in_thread}
    assert len(times) == 8  # start, five chunks, flush, finish
