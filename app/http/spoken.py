"""The speech of one stream, encoded as it is made, and how it is framed for a body or another wire."""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from firstword.app.audio.formats import OutputFormat
from firstword.app.http.encoding import MIN_AUDIO_S, EncodedChunk, StreamEncoder
from firstword.app.http.errors import INTERNAL, error_body, row_of
from firstword.app.http.schemas import SpokenWord, TimestampFields
from firstword.app.http.session import StreamSession

NO_TIMESTAMPS: Final = TimestampFields(timestamps=None)

logger = logging.getLogger(__name__)


class SpokenAudio:
    """The speech of one session, which is entered for its chunks and left behind the last of them.

    A chunk counts as sent once the next is asked for. Leaving `chunks` or `file` early ends the stream.
    """

    def __init__(
        self, session: StreamSession, output: OutputFormat, timestamps: TimestampFields = NO_TIMESTAMPS
    ) -> None:
        self.session = session
        self.output = output
        self._timestamps = timestamps

    def chunks(self) -> "aclosing[AsyncGenerator[EncodedChunk]]":
        """Give the audio as it is made; a stream without any becomes silence of MIN_AUDIO_S."""
        return aclosing(self._chunks())

    def file(self) -> "aclosing[AsyncGenerator[EncodedChunk]]":
        """Give all of it as one chunk, with true sizes in its header."""
        return aclosing(self._file())

    def words(self, chunk: EncodedChunk) -> list[SpokenWord] | None:
        """Return the words that ended in the chunk, as the listener hears them; None: nobody asked."""
        return self._timestamps.spoken(chunk.words, self.session.stream.sample_rate_hz * self.output.speed)

    async def _chunks(self) -> AsyncGenerator[EncodedChunk]:
        rate_hz = self.output.sample_rate_hz
        async with self.session as session:
            with StreamEncoder(session.stream, self.output, session.record.encoded) as encoder:
                async with aclosing(encoder.events(MIN_AUDIO_S)) as events:
                    async for event in events:
                        if isinstance(event, EncodedChunk):
                            yield event
                            session.record.audio_went(event.num_samples, rate_hz)

    async def _file(self) -> AsyncGenerator[EncodedChunk]:
        async with self.session as session:
            with StreamEncoder(session.stream, self.output, session.record.encoded) as encoder:
                file = await encoder.file()
                if session.provenance.signer is not None:
                    data = await asyncio.to_thread(session.provenance.signed, file.data, self.output.format)
                    file = replace(file, data=data)
                yield file
                session.record.audio_went(file.num_samples, self.output.sample_rate_hz)


async def reported(
    parts: AsyncGenerator[bytes], report: Callable[[Exception], bytes]
) -> AsyncGenerator[bytes]:
    """Yield the parts; an error behind the first of them becomes the last one."""
    has_begun = False
    async with aclosing(parts):
        try:
            async for part in parts:
                has_begun = True
                yield part
        except Exception as error:
            if not has_begun:
                raise
            if row_of(error) is INTERNAL:
                logger.error("a stream failed after its first audio", exc_info=error)
            else:
                logger.info("a stream was cut off: %s", error)
            yield report(error)


@dataclass(frozen=True, slots=True)
class Framing:
    """How audio stands in the body of an answer.

    media_type: None is that of the audio. is_whole: the body is one part, with its length. report: how an
    error behind the first audio stands in the body; None: the body is cut off.
    """

    frame: Callable[[SpokenAudio], AsyncGenerator[bytes]]
    media_type: str | None = None
    is_whole: bool = False
    report: Callable[[Exception], bytes] | None = None


async def _plain(audio: SpokenAudio) -> AsyncGenerator[bytes]:
    async with audio.chunks() as chunks:
        async for chunk in chunks:
            yield chunk.data


async def _whole(audio: SpokenAudio) -> AsyncGenerator[bytes]:
    async with audio.file() as files:
        async for file in files:
            yield file.data


async def _lines(audio: SpokenAudio) -> AsyncGenerator[bytes]:
    """`audio` in base64 with the `words` that ended in it, a line each; at last `word_times`."""
    async with audio.chunks() as chunks:
        async for chunk in chunks:
            yield line(in_json(audio, chunk))
    yield line({"word_times": audio.session.stream.stats.word_times})


async def _object(audio: SpokenAudio) -> AsyncGenerator[bytes]:
    """`audio` in base64, `words` and how their times were found."""
    async with audio.file() as files:
        async for file in files:
            content = {**in_json(audio, file), "word_times": audio.session.stream.stats.word_times}
            yield json.dumps(content).encode()


JSON_LINES: Final = "application/x-ndjson"
PLAIN: Final = Framing(_plain)
WHOLE: Final = Framing(_whole, is_whole=True)
TIMED_LINES: Final = Framing(_lines, JSON_LINES, report=lambda error: line(error_body(error)))
TIMED_OBJECT: Final = Framing(_object, "application/json", is_whole=True)


def framing_of(is_streamed: bool, has_words: bool) -> Framing:
    if has_words:
        return TIMED_LINES if is_streamed else TIMED_OBJECT
    return PLAIN if is_streamed else WHOLE


def in_json(audio: SpokenAudio, chunk: EncodedChunk) -> dict[str, object]:
    words = audio.words(chunk)
    timed = {} if words is None else {"words": [word.model_dump() for word in words]}
    return {"audio": base64.b64encode(chunk.data).decode(), **timed}


def line(content: Mapping[str, object]) -> bytes:
    return json.dumps(content).encode() + b"\n"
