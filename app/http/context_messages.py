"""What a context says while it speaks, whatever carries it, and what opens one."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from firstword.app.audio.formats import AudioFormat
from firstword.app.http.schemas import SpokenWord, VoiceFields
from firstword.app.speech_options import NotBoolean
from firstword.app.telemetry.stream_stats import WordTimes

ContextId = Annotated[str, Field(max_length=256)]  # it goes out again with every frame


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str  # here, so that it comes first


class ContextMessage(Message):
    context: ContextId = ""


class Start(VoiceFields, ContextMessage):
    type: Literal["start"] = "start"
    format: AudioFormat = "pcm"
    mode: Literal["continuous", "segments"] | None = None  # None: continuous where the checkpoint can
    # Behind which characters the writer is taken to pause: those of an earlier `done`. None: where it does.
    pauses: list[Annotated[int, NotBoolean, Field(ge=1)]] | None = Field(
        None, max_length=10_000, fail_fast=True
    )
    # Of a reference recording that follows in binary messages, before any other message of its context.
    reference_bytes: Annotated[int, NotBoolean, Field(ge=1)] | None = None


class Started(ContextMessage):
    type: Literal["started"] = "started"
    request_id: str
    sample_rate: int
    format: str
    channels: int = 1


class AudioFrame(ContextMessage):
    """The binary frame of `bytes` bytes follows at once. Times are the listener's, `speed` applied."""

    type: Literal["audio"] = "audio"
    bytes: int
    start_ms: float
    duration_ms: float
    # Those that ended since the frame before, where `timestamps` was asked for; they never change.
    words: list[SpokenWord] | None = Field(None, exclude_if=lambda words: words is None)


class TextWarning(ContextMessage):
    """The text is spoken, but probably not as its writer wants it."""

    type: Literal["warning"] = "warning"
    message: str


class FlushDone(ContextMessage):
    """All that came before a flush has been sent."""

    type: Literal["flushed"] = "flushed"


class Stats(BaseModel):
    ttfb_ms: float | None  # None: no audio
    audio_ms: float
    rtf: float | None
    speech_tokens: int
    characters: int
    # Behind which characters the words that had come were spoken because the writer paused.
    pauses: list[int] = Field([], exclude_if=lambda pauses: not pauses)
    # How the times of words were found, where they were asked for.
    word_times: WordTimes | None = Field(None, exclude_if=lambda times: times is None)
    first_byte: dict[str, float | str]  # milliseconds by stage, `speaker_cache`, and `rtf` of the first chunk


NOTHING_SPOKEN = Stats(
    ttfb_ms=None,
    audio_ms=0.0,
    rtf=None,
    speech_tokens=0,
    characters=0,
    pauses=[],
    word_times=None,
    first_byte={},
)
"""The figures of a `flush` or an `end` for a context that was never begun."""


class Done(ContextMessage):
    type: Literal["done"] = "done"
    stats: Stats


class Cancelled(ContextMessage):
    type: Literal["cancelled"] = "cancelled"
    audio_ms_sent: float
    spoken_text: str
    remaining_text: str  # the rest of what came


class Sender(Protocol):
    """Where a context's messages go: a WebSocket's queue, or a gRPC call."""

    async def post(self, message: Message) -> Awaitable[None]:
        """Wait only until it is queued; the result is done when the transport has the message."""
        ...

    async def send(
        self, message: Message, frame: bytes = b"", before_write: Callable[[], None] | None = None
    ) -> None: ...
