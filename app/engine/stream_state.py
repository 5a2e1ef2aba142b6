"""What the tasks of one stream share, and what all streams of an engine share."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from firstword.app.audio.dsp import Samples
from firstword.app.engine.admission import Admission
from firstword.app.engine.audio_queue import AudioQueue
from firstword.app.engine.interface import Audio, EngineInfo, Flushed, SynthesisRequest
from firstword.app.engine.loudness import Loudness
from firstword.app.engine.phrase_cache import PhraseCache
from firstword.app.engine.token2wav_pool import StreamingToken2Wav, Token2WavPool
from firstword.app.engine.tokens.interface import TokenGenerator, TokenStream
from firstword.app.engine.tokens.prompt import PromptBuilder
from firstword.app.engine.transcript import Silence, UtteranceTranscript
from firstword.app.speakers.interface import PreparedSpeaker, PreparedSpeakers
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.stream_record import StreamStats
from firstword.app.text.stream import TextFrontend

MAX_PENDING_COMMANDS = 10_000  # pieces of text and flushes that were not read yet


@dataclass(frozen=True, slots=True, eq=False)
class EngineParts:
    """What all streams of an engine share."""

    info: EngineInfo
    admission: Admission
    speakers: PreparedSpeakers
    text: TextFrontend
    prompt_builder: PromptBuilder
    generator: TokenGenerator
    token2wav: StreamingToken2Wav
    pool: Token2WavPool
    metrics: Metrics
    clock: Callable[[], float]
    listener_buffer_s: float
    trims_silence: bool  # before a stream's first sound
    phrases: PhraseCache
    loudness: Loudness | None  # None: speakers are as loud as the networks make them


class Mark(Enum):
    FLUSH = auto()
    END = auto()


@dataclass(frozen=True, slots=True, eq=False)
class Utterance:
    """One run of the language model: a segment, or in continuous mode all text up to a flush."""

    tokens: TokenStream
    transcript: UtteranceTranscript
    seed: int
    started_s: float
    speaker: PreparedSpeaker
    uses_flow_prompt: bool
    rate: float
    gain: float  # of its samples


@dataclass(slots=True, eq=False)
class StreamState:
    """Everything the tasks of one stream share; deleting it frees all of it."""

    request: SynthesisRequest
    speaker: PreparedSpeaker = field(init=False)  # set before the tasks run
    seed: int
    parts: EngineParts
    stats: StreamStats
    audio: AudioQueue
    commands: asyncio.Queue[str | Mark] = field(
        default_factory=lambda: asyncio.Queue(MAX_PENDING_COMMANDS)
    )  # text that comes in pieces, and its marks
    utterances: asyncio.Queue[Utterance | Silence | Flushed | None] = field(
        default_factory=lambda: asyncio.Queue(1)
    )  # for the audio task; None: there are no more
    transcripts: list[UtteranceTranscript] = field(default_factory=list)
    token_streams: list[TokenStream] = field(default_factory=list)  # of the language model, until they end
    gain: float = 1.0  # of the request's speaker
    phrase_key: str | None = None  # None: its audio is not kept
    pieces: list[Samples] = field(default_factory=list)  # all its audio, where it is kept

    async def gain_of(self, name: str | None, speaker: PreparedSpeaker) -> float:
        """Return what brings the speaker of that name to the wanted loudness, as a factor."""
        if self.parts.loudness is None:
            return 1.0
        identity = await self.parts.speakers.identity(name, self.request.client)
        return self.parts.loudness.gain_of(identity, speaker)

    async def put_samples(self, samples: Samples) -> None:
        """Hand samples (n,) to the listener, and keep them where the whole audio is to be kept."""
        if self.phrase_key is not None:
            self.pieces.append(samples)
        await self.audio.put(Audio(samples))
