"""An engine whose networks are toys in the test's hands: everything else is the real thing."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from firstword.app.audio.dsp import Samples
from firstword.app.audio.watermark import Watermark
from firstword.app.budget import Work, WorkLimits
from firstword.app.clients import STRANGER, Client
from firstword.app.core.admission import Admission
from firstword.app.core.interface import Audio, StreamEvent, SynthesisStream
from firstword.app.core.parts import PostProcessing, StreamParts
from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.request import (
    Delivery,
    EngineInfo,
    Mode,
    SynthesisRequest,
    VoiceChoice,
)
from firstword.app.core.token2wav_pool import Token2WavPool
from firstword.app.engine.engine import SpeechEngine
from firstword.app.engine.unloading import LoadOnDemandAdmission, Unloading
from firstword.app.errors import InvalidRequest, SpeakerNotFound
from firstword.app.options import HopStrategy, PacingOptions, QueueOptions
from firstword.app.speakers.interface import (
    Description,
    KnownSpeaker,
    PreparedSpeaker,
    PromptInfo,
    SentRecording,
)
from firstword.app.telemetry.metrics import Metrics
from firstword.app.text.marks import Reading
from firstword.app.text.normalize import is_speakable
from firstword.app.text.other_languages import JudgedFeed, OtherLanguages, SpokenLanguages
from firstword.app.text.segment import ItemFeed, Segment
from firstword.app.text.stream import Item, TextFrontend
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.lm.tokens import EndReason, TokenRequest, TokenStream
from firstword.models.token2wav_step import StepInput, StepTimes
from tests.support.clock import Clock
from tests.support.sounds import babble

HOP, LOOKAHEAD, SAMPLES_PER_TOKEN, RATE_HZ = 4, 1, 100, 2500


class ToyGenerator:
    """Says the letters of a text, each as one token; by itself, or only when the test says `say`."""

    def __init__(self) -> None:
        self.is_by_hand = False
        self.unready_reason = ""
        self.reason: EndReason = "eos"
        self.started: list[tuple[TokenStream, TokenRequest]] = []
        self.coming: asyncio.Queue[TokenStream] = asyncio.Queue()  # of those, in order
        self.stopped: list[TokenStream] = []
        self._pushed: dict[TokenStream, list[int]] = {}

    def start(self, utterance: TokenRequest) -> TokenStream:
        stream = TokenStream()
        self.started.append((stream, utterance))
        self.coming.put_nowait(stream)
        if utterance.text_ids is None:
            self._pushed[stream] = []
        elif not self.is_by_hand:
            self.say(stream, utterance.text_ids)
        return stream

    def say(self, stream: TokenStream, ids: Sequence[int], ends: bool = True) -> None:
        stream.deliver(ids, 0.5)
        if ends:
            stream.end(self.reason)

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        self._pushed[stream].extend(ids)
        if not self.is_by_hand:
            self.say(stream, ids, ends=False)

    def finish_text(self, stream: TokenStream) -> None:
        if not self.is_by_hand:
            stream.end(self.reason)

    def stop(self, stream: TokenStream) -> None:
        stream.end("stopped")
        self.stopped.append(stream)

    async def aclose(self) -> None:
        for stream, _ in self.started:
            self.stop(stream)


@dataclass(eq=False)
class ToyState:
    pending: list[int] = field(default_factory=list)
    is_first: bool = True


class ToyToken2Wav:
    """SAMPLES_PER_TOKEN samples a token, all of its value ÷ 1000, a hop at a time."""

    sample_rate_hz = RATE_HZ
    lookahead_tokens = LOOKAHEAD
    hop_tokens = HOP

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.uses_prompt: bool | None = None  # of the last one started

    def start(
        self, prompt: Any, seed: int = 0, uses_prompt: bool = True, has_full_context: bool = False
    ) -> ToyState:
        self.uses_prompt = uses_prompt
        return ToyState()

    def tokens_wanted(self, state: ToyState) -> int:
        return max(0, HOP + LOOKAHEAD - len(state.pending))

    def step(self, batch: Sequence[StepInput[ToyState]], times: StepTimes | None = None) -> list[Tensor]:
        if self.failure is not None:
            raise self.failure
        if times is not None:
            times.flow_s = 1.0
        return [self._one(item) for item in batch]

    def _one(self, item: StepInput[ToyState]) -> Tensor:
        pending = item.state.pending
        pending.extend(item.tokens)
        count = len(pending) if item.is_last else max(0, len(pending) - LOOKAHEAD) // HOP * HOP
        said, item.state.pending = pending[:count], pending[count:]
        return torch.tensor(said, dtype=torch.float32).repeat_interleave(SAMPLES_PER_TOKEN) / 1000


class SpeechlikeToken2Wav(ToyToken2Wav):
    """What a watermark can be laid into: 0.1 s of babble a token, at the rate of the real networks."""

    sample_rate_hz = 24_000

    def __init__(self) -> None:
        super().__init__()
        self._sound = torch.from_numpy(babble(8.0))
        self._num_said: dict[int, int] = {}  # by stream

    def _one(self, item: StepInput[ToyState]) -> Tensor:
        num_tokens = len(super()._one(item)) // SAMPLES_PER_TOKEN
        start = self._num_said.get(id(item.state), 0)
        self._num_said[id(item.state)] = start + num_tokens
        return self._sound[2400 * start : 2400 * (start + num_tokens)]


class ToyPromptBuilder:
    def uses_flow_prompt(self, speaker: SpeakerFeatures, voice: VoiceChoice) -> bool:
        return voice.instruct is None

    def utterance(
        self,
        speaker: SpeakerFeatures,
        text_ids: tuple[int, ...] | None,
        voice: VoiceChoice,
        seed: int,
        accent: str = "",
    ) -> TokenRequest:
        if voice.instruct == "refused":
            raise InvalidRequest("no such instruction", "instruct")
        ids = None if text_ids is None else self.in_accent(text_ids, accent)
        return TokenRequest(ids, (), (), (), None, seed)

    def in_accent(self, text_ids: tuple[int, ...], accent: str) -> tuple[int, ...]:
        """Its accent "british" has capital letters."""
        return text_ids if not accent else tuple(ord(chr(id).upper()) for id in text_ids)


class ToySpeakers:
    """Has one speaker, "hum", or more, and notes who asked for them and which were prepared."""

    def __init__(self, others: Iterable[str] = ()) -> None:
        self.names = {"hum", *others}
        self.prepared_names: list[str] = []
        self.clients: list[Client] = []
        self.description: Description | None = None

    def get(self, name: str | None, client: Client, takes_alias: bool = False) -> KnownSpeaker:
        self.clients.append(client)
        name = name or "hum"
        if name not in self.names:
            raise SpeakerNotFound(f"no speaker is named {name!r}")
        return KnownSpeaker(
            name, "builtin", "", PromptInfo(0.0, "", None, 0), None, cached=True, description=self.description
        )

    async def prepared(
        self,
        name: str | None,
        client: Client,
        reference: SentRecording | None = None,
        on_miss: Callable[[], None] = lambda: None,
    ) -> PreparedSpeaker:
        self.prepared_names.append(self.get(name, client).name)
        return PreparedSpeaker("", SpeakerFeatures.without_prompt(torch.zeros(192)), None, 0)

    async def identity(self, name: str | None, client: Client, reference: SentRecording | None = None) -> str:
        return self.get(name, client).name

    async def source_tokens(self, recording: SentRecording, client: Client) -> tuple[int, ...]:
        return tuple(recording.content)


class ToyText:
    """A segment for each sentence that ends in a full stop; in continuous mode each piece as it comes."""

    version = ""

    def __init__(self) -> None:
        self._mode: Mode = "whole"
        self._held = ""

    def open(
        self,
        mode: Mode,
        language: str | None,
        reading: Reading,
        warnings: list[str],
        work: Work,
        finds_words: bool = False,
        refuses: bool = True,
    ) -> ItemFeed:
        feed = type(self)()
        feed._mode = mode
        return JudgedFeed(feed, OtherLanguages(SpokenLanguages("toy", ("en",)), language), warnings, refuses)

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        if self._mode == "continuous":
            return _segments(piece)
        *whole, self._held = (self._held + piece).split(".")
        items = _segments(*(f"{sentence}." for sentence in whole))
        if flushes:
            items += _segments(self._held)
            self._held = ""
        return items


def _segments(*texts: str) -> list[Item]:
    """Tokens are letters."""
    return [
        Segment(text, text, "en", tuple(ord(character) % 1000 for character in text))
        for text in texts
        if is_speakable(text)
    ]


class ToyEngine:
    """Made inside a running event loop; `aclose` at the end."""

    def __init__(
        self,
        max_streams: int = 2,
        max_queued: int = 2,
        listener_buffer_s: float = 60.0,
        hop_strategy: HopStrategy = "fixed",
        writer_pause_s: float = 0.0,
        can_do_all: bool = True,
        trims_silence: bool = False,
        phrase_cache_bytes: int = 0,
        text: TextFrontend | None = None,
        token2wav: ToyToken2Wav | None = None,
        limits: WorkLimits = WorkLimits(max_text_chars=200),  # noqa: B008
        watermark: Watermark | None = None,
        unload_after_s: float = 0.0,
        default_speakers: Mapping[str, str] = {},
    ) -> None:
        self.generator = ToyGenerator()
        self.token2wav = token2wav or ToyToken2Wav()
        self.clock = Clock()
        self.metrics = Metrics()
        self.speakers = ToySpeakers(default_speakers.values())
        self.unloading: Unloading | None = None
        make: Callable[..., Admission] = Admission
        if unload_after_s:
            load = lambda: [type(self.token2wav)()]  # noqa: E731
            self.unloading = Unloading([self.token2wav], load, unload_after_s)
            make = partial(LoadOnDemandAdmission, self.unloading.ensure_loaded)
        self.admission = make(max_streams, QueueOptions(max_queued, 60.0, 20, 60.0), self.clock)
        info = EngineInfo(
            "toy",
            "toy",
            self.token2wav.sample_rate_hz,
            "hum",
            can_do_all,
            ("en", *default_speakers),
            limits,
            voice_modes=("zero_shot", "cross_lingual", "sft", *(("instruct",) if can_do_all else ())),
            accents=("british",),
            default_speakers=default_speakers,
        )
        self.parts = StreamParts(
            info=info,
            speakers=self.speakers,
            text=text or ToyText(),  # type: ignore[arg-type]
            prompt_builder=ToyPromptBuilder(),  # type: ignore[arg-type]
            generator=self.generator,
            pool=Token2WavPool(self.token2wav, num_workers=1, max_batch=4),
            clock=self.clock,
            pacing=PacingOptions(listener_buffer_s, hop_strategy, round(1000 * writer_pause_s)),
            post_processing=PostProcessing(trims_silence, watermark=watermark),
            on_event=self.metrics.on_event,
            admission=self.admission,
            phrases=PhraseCache(phrase_cache_bytes),
        )
        self.engine = SpeechEngine(self.parts, self.metrics, unloading=self.unloading)

    async def __aenter__(self) -> "ToyEngine":
        return self

    async def __aexit__(self, *_: object) -> None:
        async with asyncio.timeout(30):
            await self.engine.aclose()

    def anomalies(self, kind: str) -> float:
        value = self.metrics.registry.get_sample_value("tts_generation_anomalies_total", {"kind": kind})
        assert value is not None, kind
        return value


def asked(text: str, **fields: Any) -> SynthesisRequest:
    """For a whole text; fields: as `asked_for` takes them."""
    return asked_for(mode="whole", text=text, **fields)


def asked_in_pieces(mode: Mode = "segments", **fields: Any) -> SynthesisRequest:
    return asked_for(mode=mode, **fields)


def asked_for(**fields: Any) -> SynthesisRequest:
    """fields: those of a request, of its voice and of its delivery; `voice_mode` is that of the voice."""
    voice_names = {"speaker": "speaker", "reference": "reference", "voice_mode": "mode"}
    voice_names |= {name: name for name in ("instruct", "language")}
    delivery_names = {one.name for one in dataclass_fields(Delivery)}
    voice = {voice_names[name]: fields.pop(name) for name in [*fields] if name in voice_names}
    delivery = {name: fields.pop(name) for name in [*fields] if name in delivery_names}
    own = {"request_id": "test", "wire": "http", "client": STRANGER} | fields
    return SynthesisRequest(**own, voice=VoiceChoice(**voice), delivery=Delivery(**delivery))


async def heard(stream: SynthesisStream) -> list[StreamEvent]:
    async with asyncio.timeout(30):
        return [event async for event in stream]


def samples_of(events: Sequence[StreamEvent]) -> Samples:
    return np.concatenate([event.samples for event in events if isinstance(event, Audio)])
