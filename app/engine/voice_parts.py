"""A voice that is loaded, assembled and warm: what streams are made with, and nothing that limits them."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch

from firstword.app.audio.watermark import Watermark
from firstword.app.budget import DEFAULT_LIMITS, WorkLimits
from firstword.app.clients import ANYBODY, Client
from firstword.app.core.parts import PostProcessing, StreamParts
from firstword.app.core.request import Delivery, EngineInfo, Mode, SynthesisRequest
from firstword.app.core.stream import SpeechStream
from firstword.app.core.token2wav_pool import Token2WavPool
from firstword.app.engine.loading import LoadedNetworks, load_in_thread
from firstword.app.engine.speaker_parts import load_speaker_networks, open_speakers
from firstword.app.engine.text_frontend import text_frontend
from firstword.app.errors import SpeakerNotFound, SynthesisFailed
from firstword.app.events import Subscriber, ignore
from firstword.app.options import (
    EngineOptions,
    InvalidOptions,
    LMEngineOptions,
    NetworkOptions,
    SpeakerOptions,
)
from firstword.app.speakers.enrolment import SpeakerNetworks, builtin_info, decode_upload
from firstword.app.speakers.interface import KnownSpeaker, PreparedSpeaker, PreparedSpeakers, SentRecording
from firstword.app.text.stream import TextFrontend
from firstword.models.networks import TokenEvents
from firstword.models.token2wav_step import StepTimes

MAX_CHUNKS_IN_BATCH = 8  # on a GPU
_WARM_UP_TEXT = "Good morning to you."


class VoiceSpeakers(PreparedSpeakers, Protocol):
    """`BuiltinSpeakers` and `SpeakerRegistry`."""

    def list(self, client: Client) -> list[KnownSpeaker]: ...


class BuiltinSpeakers:
    """The speakers that a checkpoint brings, computed when they are first wanted and kept."""

    def __init__(self, networks: SpeakerNetworks, default: str | None) -> None:
        """default None: the first."""
        self.default = default or next(iter(networks.builtin), None)
        self._networks = networks
        self._prepared: dict[str, asyncio.Future[PreparedSpeaker]] = {}

    def list(self, client: Client) -> list[KnownSpeaker]:
        return [self.get(name, client) for name in sorted(self._networks.builtin)]

    def get(self, name: str | None, client: Client, takes_alias: bool = False) -> KnownSpeaker:
        known = self._name(name)
        return builtin_info(known, self._networks.builtin[known], known in self._prepared)

    async def prepared(
        self,
        name: str | None,
        client: Client,
        reference: SentRecording | None = None,
        on_miss: Callable[[], None] = lambda: None,
    ) -> PreparedSpeaker:
        if reference is not None:
            return await asyncio.to_thread(self._read, reference)
        known = self._name(name)
        if known not in self._prepared:
            on_miss()
            builtin = self._networks.builtin[known]
            computing = asyncio.to_thread(
                self._networks.with_prompt_state, builtin.features, builtin.transcript
            )
            self._prepared[known] = asyncio.ensure_future(computing)
        return await asyncio.shield(self._prepared[known])

    async def identity(self, name: str | None, client: Client, reference: SentRecording | None = None) -> str:
        assert reference is None, "only what is kept between requests asks for a recording's identity"
        return f"built-in {self._name(name)}"

    async def source_tokens(self, recording: SentRecording, client: Client) -> tuple[int, ...]:
        def read() -> tuple[int, ...]:
            return tuple(self._networks.read_source_tokens(*decode_upload(recording.content)))

        return await asyncio.to_thread(read)

    def _name(self, name: str | None) -> str:
        known = self._networks.builtin_names.get(name or self.default or "")
        if known is None:
            raise SpeakerNotFound(
                f"no speaker is called {(name or '')[:64]!r}; list the speakers to see their names"
            )
        return known

    def _read(self, reference: SentRecording) -> PreparedSpeaker:
        features = self._networks.read_speaker(*decode_upload(reference.content))
        return self._networks.with_prompt_state(features, reference.transcript)


@dataclass(frozen=True, slots=True, eq=False)
class OpenVoice:
    """Opens streams, as many as are asked for."""

    parts: StreamParts
    networks: SpeakerNetworks
    speakers: VoiceSpeakers
    running: set[SpeechStream] = field(default_factory=set)

    @property
    def info(self) -> EngineInfo:
        return self.parts.info

    def open(self, request: SynthesisRequest) -> SpeechStream:
        """Raises as `Engine.open` does."""
        return SpeechStream(request, self.parts, None, self.running)


@asynccontextmanager
async def open_voice(
    networks: NetworkOptions,
    engine: EngineOptions,
    lm_engines: LMEngineOptions,
    *,
    limits: WorkLimits = DEFAULT_LIMITS,
    default_speaker: str | None = None,
    store: SpeakerOptions | None = None,
    on_event: Subscriber = ignore,
) -> AsyncIterator[OpenVoice]:
    """Load, assemble and warm up; at the end all streams are ended and all threads and processes gone.

    store: of registered speakers, with the default one; None: the checkpoint's speakers alone. Raises
    InvalidOptions, BackendError, CheckpointError and, with a store, DatabaseError.
    """
    async with AsyncExitStack() as stack:
        if store is None:
            data_dir = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstword-")))
        else:
            data_dir = store.data_dir
        loaded = await asyncio.wrap_future(load_in_thread(networks, engine, lm_engines, data_dir))
        text, speaker_networks = await load_front_ends(loaded, engine)
        gain_of = None
        speakers: VoiceSpeakers
        if store is None:
            is_asked = default_speaker is not None
            speakers = builtin = BuiltinSpeakers(speaker_networks, default_speaker)
            default_speaker = builtin.default
        else:
            found = await stack.enter_async_context(open_speakers(loaded, speaker_networks, store))
            speakers = found.registry
            is_asked = store.default_speaker is not None
            default_speaker = found.registry.default_speaker
            gain_of = None if found.loudness is None else found.loudness.gain_of
        has_sft = speaker_networks.has_sft
        info = loaded.info(default_speaker, is_asked, limits, has_sft)
        parts = await start_parts(loaded, info, text, speakers, engine, TokenEvents(max_streams=1))
        stack.push_async_callback(parts.aclose)
        parts = replace(
            parts, on_event=on_event, post_processing=replace(parts.post_processing, gain_of=gain_of)
        )
        voice = OpenVoice(parts, speaker_networks, speakers)
        await warm_up(parts)
        try:
            yield voice
        finally:
            for stream in list(voice.running):
                stream.cancel(SynthesisFailed("the voice was closed before the speech was finished"))


async def load_front_ends(
    loaded: LoadedNetworks, options: EngineOptions
) -> tuple[TextFrontend, SpeakerNetworks]:
    """Load what reads texts, and what reads recordings. Raises CheckpointError and InvalidOptions."""
    tokenizer = loaded.prompt_builder.tokenizer
    return await asyncio.gather(
        asyncio.to_thread(
            text_frontend, tokenizer, loaded.checkpoint, options.other_languages, options.lexicon
        ),
        load_speaker_networks(loaded),
    )


async def start_parts(
    loaded: LoadedNetworks,
    info: EngineInfo,
    text: TextFrontend,
    speakers: PreparedSpeakers,
    options: EngineOptions,
    token_events: TokenEvents,
    on_batch: Callable[[int, StepTimes], None] = lambda size, times: None,
) -> StreamParts:
    """Start the threads and processes of the networks, which `StreamParts.aclose` ends.

    on_batch: called from any thread with the size of each batch of flow and vocoder, and its time.
    """
    generator = await loaded.start_tokens(token_events)
    max_batch = 1 if loaded.device == "cpu" else MAX_CHUNKS_IN_BATCH
    return StreamParts(
        info=info,
        speakers=speakers,
        text=text,
        prompt_builder=loaded.prompt_builder,
        generator=generator,
        pool=Token2WavPool(
            loaded.token2wav,
            loaded.machine.num_workers,
            max_batch,
            on_batch,
            torch.device(loaded.device),
        ),
        clock=time.perf_counter,
        pacing=options.pacing,
        post_processing=PostProcessing(options.trim_silence),
    )


async def warm_up(parts: StreamParts, at_once: bool = True) -> None:
    """Speak in every mode, so that every shape has been run once before the first request."""
    modes: list[Mode] = ["whole"]
    if parts.info.can_continue_text:
        modes.append("continuous")
    if not at_once:
        for mode in modes:
            await speak_for_nobody(parts, _WARM_UP_TEXT, mode)
        return
    async with asyncio.TaskGroup() as tasks:
        for mode in modes:
            tasks.create_task(speak_for_nobody(parts, _WARM_UP_TEXT, mode))


async def speak_for_nobody(parts: StreamParts, text: str, mode: Mode = "whole") -> float:
    """Return the seconds of audio."""
    whole = text if mode == "whole" else None
    delivery = Delivery(cache=False)
    request = SynthesisRequest("warm-up", "cli", mode, whole, seed=0, delivery=delivery, client=ANYBODY)
    async with SpeechStream(request, parts) as stream:
        if whole is None:
            stream.push_text(text)
            stream.finish_text()
        async for _ in stream:
            pass
    return stream.stats.audio_samples / stream.sample_rate_hz


def checked_watermark(watermark: Watermark | None, sample_rate_hz: int) -> Watermark | None:
    """Raises InvalidOptions for a checkpoint that the watermark is not made for."""
    if watermark is not None:
        try:
            watermark.marker(sample_rate_hz)
        except ValueError as error:
            raise InvalidOptions(f"FIRSTWORD_PROVENANCE is watermark: {error}") from None
    return watermark
