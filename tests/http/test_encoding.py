"""A stream's chunks are its file, and what takes long is encoded in a thread."""

import asyncio
import gc
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any

import numpy as np
import pytest

from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.formats import AudioFormat, OutputFormat
from firstword.app.clients import STRANGER
from firstword.app.core.interface import Audio, Flushed, StreamEvent
from firstword.app.core.request import SynthesisRequest
from firstword.app.http.encoding import EncodedChunk, StreamEncoder
from tests.support.fake_engine import FakeEngine, FakeStream
from tests.support.sounds import tone

pytestmark = pytest.mark.anyio

RATE_HZ = 24_000
SOUND = tone(0.5, RATE_HZ)


FLUSH = Flushed()


def encoder_of(
    output: OutputFormat, events: Sequence[StreamEvent], on_encoded: Callable[[float], None] = lambda _: None
) -> StreamEncoder:
    class Listed(FakeStream):
        async def __aiter__(self) -> AsyncIterator[StreamEvent]:
            for event in events:
                yield event

    stream = Listed(FakeEngine(), SynthesisRequest("test", "http", text="Hello.", client=STRANGER), "anna")
    assert stream.sample_rate_hz == RATE_HZ
    return StreamEncoder(stream, output, on_encoded)


async def streamed(encoder: StreamEncoder) -> list[EncodedChunk]:
    return [event async for event in encoder.events() if isinstance(event, EncodedChunk)]


def pieces(num: int) -> list[StreamEvent]:
    return [Audio(piece) for piece in np.array_split(SOUND, num)]


@pytest.mark.parametrize("output", [OutputFormat("wav", 24_000), OutputFormat("flac", 16_000, 1.5)])
async def test_the_first_chunk_is_the_header_with_audio_behind_it(output: OutputFormat) -> None:
    header = AudioEncoder(output.format, RATE_HZ, output.sample_rate_hz, output.speed).start()
    chunks = await streamed(encoder_of(output, [*pieces(5), FLUSH]))
    assert chunks[0].data.startswith(header)
    assert len(chunks[0].data) > len(header) > 0
    assert all(chunk.data for chunk in chunks)
    num_samples = len(SOUND) * output.sample_rate_hz / RATE_HZ / output.speed
    assert sum(chunk.num_samples for chunk in chunks) == pytest.approx(num_samples, abs=2)


async def test_a_header_waits_for_the_first_audio() -> None:
    encoder = encoder_of(OutputFormat("wav", RATE_HZ), [FLUSH, Audio(SOUND[:0]), Audio(SOUND[:100])])
    flushed, chunk = [event async for event in encoder.events()]
    assert flushed == FLUSH
    assert isinstance(chunk, EncodedChunk)
    assert (len(chunk.data), chunk.num_samples) == (44 + 200, 100)


@pytest.mark.parametrize("events", [[], [FLUSH], [Audio(SOUND[:0])]])
async def test_a_stream_without_audio_is_no_chunk_or_short_silence(events: list[StreamEvent]) -> None:
    output = OutputFormat("wav", 16_000, 2.0)
    assert await streamed(encoder_of(output, events)) == []
    silence = [event async for event in encoder_of(output, events).events(0.02) if event != FLUSH]
    file = await encoder_of(output, events).file()
    for chunk in (*silence, file):
        assert isinstance(chunk, EncodedChunk)
        assert chunk.num_samples == 320
        assert chunk.data[44:] == bytes(640)


async def test_a_file_is_complete_and_its_time_is_reported() -> None:
    output = OutputFormat("wav", 16_000, 0.5)
    times: list[float] = []
    file = await encoder_of(output, pieces(3), times.append).file()
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
    await streamed(encoder_of(output, [*pieces(5), FLUSH], times.append))
    assert {thread is not threading.current_thread() for thread in threads} == {is_in_thread}
    assert len(times) == 8  # start, five chunks, flush, finish


def num_threads() -> int:
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(
    not os.path.exists("/proc/self/task"), reason="counts the threads of the process on Linux"
)
@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac"])
@pytest.mark.parametrize("is_finished", [True, False])
async def test_a_stream_that_is_left_keeps_no_threads(format: AudioFormat, is_finished: bool) -> None:
    async def speak() -> None:
        output = OutputFormat(format, RATE_HZ, 1.5)
        with encoder_of(output, pieces(2)) as encoder:
            async with aclosing(encoder.events()) as events:
                async for _ in events:
                    if not is_finished:
                        break

    gc.disable()
    try:
        for _ in range(10):  # until the pool of threads is as large as it gets
            await speak()
        before = num_threads()
        for _ in range(20):
            await speak()
        assert num_threads() <= before + 2
    finally:
        gc.enable()


async def test_a_step_that_is_cancelled_is_the_last_one_and_frees_the_encoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    encode, close = AudioEncoder.encode, AudioEncoder.close

    def slow(self: AudioEncoder, samples: Any) -> bytes:
        begun.set()
        go_on.wait()
        return encode(self, samples)

    def watched(self: AudioEncoder) -> None:
        assert go_on.is_set(), "closed while a step was running"
        close(self)
        closed.set()

    monkeypatch.setattr(AudioEncoder, "encode", slow)
    monkeypatch.setattr(AudioEncoder, "close", watched)

    async def speak() -> None:
        output = OutputFormat("mp3", RATE_HZ)
        with encoder_of(output, pieces(1)) as encoder:
            await streamed(encoder)

    speaking = asyncio.create_task(speak())
    await asyncio.to_thread(begun.wait)
    speaking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await speaking
    assert not closed.is_set()
    go_on.set()
    assert await asyncio.to_thread(closed.wait, 10)
