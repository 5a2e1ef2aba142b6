"""What all streams of an engine share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.engine.interface import EngineInfo, Mode
from app.engine.token2wav_pool import StreamingToken2Wav, Token2WavPool
from app.engine.tokens.interface import TokenGenerator
from app.engine.tokens.prompting import Prompting
from app.telemetry.metrics import Metrics
from app.text.segments import Segment


class TextFeed(Protocol):
    """Turns text as it comes into segments; used by one thread at a time."""

    def push(self, piece: str) -> Sequence[Segment]: ...

    def flush(self) -> Sequence[Segment]: ...


FeedFactory = Callable[[Mode, str | None, bool], TextFeed]
"""Of a mode, a language (None: found for each segment), and whether to normalise."""


@dataclass(frozen=True, slots=True, eq=False)
class Resources:
    info: EngineInfo
    generator: TokenGenerator
    prompting: Prompting
    token2wav: StreamingToken2Wav
    pool: Token2WavPool
    feed: FeedFactory
    metrics: Metrics
    clock: Callable[[], float]
    listener_buffer_s: float
    trims_silence: bool  # before a stream's first sound
