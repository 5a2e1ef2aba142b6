"""Where the parts of the service meet: settings in, a server that speaks out."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from firstword.app.api.app import DrainingServer, build_app, metrics_server, server_config
from firstword.app.api.dependencies import Services
from firstword.app.api.limits import Limits, Quotas
from firstword.app.api.middleware import KeyRing
from firstword.app.engine.backend import vllm_build
from firstword.app.engine.engine import SpeechEngine
from firstword.app.engine.interface import EngineInfo, Mode
from firstword.app.engine.startup import (
    PUBLISHED_LANGUAGES,
    EnginePlan,
    Networks,
    chosen_workers,
    found_device,
    load_networks,
    running_engine,
    set_threads,
)
from firstword.app.engine.stream import FeedFactory, TextFeed
from firstword.app.engine.tokens.vllm_options import VllmOptions
from firstword.app.settings import BUILTIN_CHECKPOINT, InvalidSettings, Settings
from firstword.app.speakers.enrolment import Enroller
from firstword.app.speakers.interface import max_bundle_bytes
from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.speakers.store import SpeakerStore
from firstword.app.telemetry.metrics import Metrics
from firstword.app.text import language
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import FamilyRules, Segmenter, SegmentLimits
from firstword.app.text.stream import SentenceFeed, WholeFeed, WordFeed
from firstword.models.vllm.export import Dtype

SPEAKERS_FILE = "speakers.sqlite3"
VLLM_DIRECTORY = "vllm"  # of the language models as vLLM reads them
FIRST_SEGMENT_TOKENS = 20  # a short first sentence is spoken by itself, so that it is read sooner
VLLM_SEQUENCES = 64  # in one step, where the number of streams is only measured later
BUILTIN_LIMITS = SegmentLimits(max_length=40, min_length=30, merge_length=10)  # its tokens are half a word
_MIB = 1 << 20


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[Services]:
    """The whole service but its sockets: loaded, warmed up and ready; closed at the end.

    Raises InvalidSettings, BackendError, CheckpointError and SpeakerStoreError: what is wrong, in one line.
    """
    metrics, clock = Metrics(), time.perf_counter
    networks = await asyncio.to_thread(loaded, settings)
    tokenizer = networks.prompt_builder.tokenizer
    enroller = await asyncio.to_thread(Enroller, networks.checkpoint, tokenizer, networks.prepare, 1)
    settings.data_dir.mkdir(parents=True, exist_ok=True)
    store = SpeakerStore(settings.data_dir / SPEAKERS_FILE)
    registry = SpeakerRegistry(
        store,
        enroller,
        max_cache_bytes=settings.speaker_cache_mb * _MIB,
        default_speaker=settings.default_speaker,
        max_bundle_bytes=max_bundle_bytes(settings.max_upload_bytes),
        on_hit=metrics.speaker_cache_hits.inc,
        on_miss=metrics.speaker_cache_misses.inc,
    )
    async with registry:
        info = _info(settings, networks, registry)
        feeds = await asyncio.to_thread(text_feeds, settings, networks)
        plan = _plan(settings)
        async with running_engine(plan, info, networks, registry.prepared, feeds, metrics, clock) as engine:
            _describe(metrics, info, networks, registry)
            yield _services(settings, engine, registry, metrics, clock)


async def serve(settings: Settings, announce: Callable[[str], None]) -> None:
    """Runs until SIGTERM or SIGINT, then lets the streams finish; a second signal ends at once.

    announce: told in one line, once it listens, where and with what it speaks.
    """
    async with running(settings) as services:
        app = build_app(
            services,
            cors_origins=settings.cors_origins,
            metrics_on_main_port=settings.metrics_port is None,
        )
        config = server_config(app, settings.host, settings.port, settings.max_message_bytes)
        server = DrainingServer(
            config,
            drain=lambda: services.engine.drain(settings.drain_timeout_s),
            unread_timeout_s=settings.slow_listener_timeout_s,
            on_listening=lambda port: announce(_greeting(settings, services, port)),
        )
        async with metrics_server(settings.metrics_port, settings.host, services.metrics):
            await server.serve()


def _greeting(settings: Settings, services: Services, port: int) -> str:
    info = services.engine.info
    host = "127.0.0.1" if settings.host == "0.0.0.0" else settings.host
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    key = "" if services.keys.is_open else " -H 'Authorization: Bearer YOUR_KEY'"
    return (
        f"{address} speaks with {info.checkpoint} ({info.backend}). Hear it: "
        f'curl{key} {address}/tts --json \'{{"text":"Hello, world."}}\' -o hello.wav'
    )


def loaded(settings: Settings) -> Networks:
    """Sets the threads of the process first. Raises InvalidSettings and CheckpointError."""
    state_bytes = None if settings.max_state_mb is None else settings.max_state_mb * _MIB
    try:
        set_threads(settings.num_threads, _num_workers(settings))
        return load_networks(
            settings.checkpoint,
            settings.device,
            settings.precision,
            settings.window_s or None,
            state_bytes,
            settings.first_hop_tokens,
            settings.backend,
        )
    except ValueError as error:
        raise InvalidSettings(str(error)) from error


def _num_workers(settings: Settings) -> int:
    """Raises ValueError for a device that is not there."""
    return chosen_workers(settings.num_workers, found_device(settings.device))


def _vllm_dtype(settings: Settings) -> Dtype:
    return "bfloat16" if settings.precision == "bfloat16" else "float32"


def text_feeds(settings: Settings, networks: Networks) -> FeedFactory:
    """How the text of a stream becomes segments, the languages' rules loaded."""
    normalizer = Normalizer()
    normalizer.warm_up()
    language.warm_up()
    tokenizer = networks.prompt_builder.tokenizer
    segmenter = Segmenter(
        normalizer,
        length=lambda text: len(tokenizer.encode(text)),
        limits=BUILTIN_LIMITS if _is_builtin(settings) else SegmentLimits(),
        first_max_length=FIRST_SEGMENT_TOKENS,
        family_rules=FamilyRules(stops_cuts=_is_builtin(settings)),
    )

    def feed(mode: Mode, given: str | None, normalize: bool) -> TextFeed:
        match mode:
            case "whole":
                return WholeFeed(segmenter, given, normalize)
            case "segments":
                return SentenceFeed(segmenter, given, normalize)
            case "continuous":
                return WordFeed(normalizer, given, normalize)

    return feed


def _describe(metrics: Metrics, info: EngineInfo, networks: Networks, registry: SpeakerRegistry) -> None:
    metrics.build_info.info(
        {"version": version("firstword"), "checkpoint": info.checkpoint, "backend": info.backend}
    )
    metrics.speakers.set_function(registry.count)
    metrics.device_memory_bytes.set_function(networks.device_memory_bytes)
    loop = asyncio.get_running_loop()
    metrics.event_loop_tasks.set_function(lambda: len(asyncio.all_tasks(loop)))


def _info(settings: Settings, networks: Networks, registry: SpeakerRegistry) -> EngineInfo:
    if registry.default_speaker is None:
        raise InvalidSettings(
            f"{settings.checkpoint} brings no speakers and FIRSTWORD_DEFAULT_SPEAKER names none; name one"
        )
    is_builtin = _is_builtin(settings)
    return EngineInfo(
        checkpoint=settings.checkpoint.resolve().name,
        backend=networks.backend.name,
        sample_rate_hz=networks.token2wav.sample_rate_hz,
        default_speaker=registry.default_speaker,
        can_continue_text=networks.prompt_builder.can_continue_text,
        takes_instruct=not is_builtin,
        languages=("en",) if is_builtin else PUBLISHED_LANGUAGES,
        max_text_chars=settings.max_text_chars,
    )


def _is_builtin(settings: Settings) -> bool:
    """Our own voice has a CosyVoice 2's shape, but not its languages, its instructions or its vocabulary."""
    return settings.checkpoint.resolve() == BUILTIN_CHECKPOINT.resolve()


def _plan(settings: Settings) -> EnginePlan:
    return EnginePlan(
        max_streams=settings.max_streams or None,
        max_queued=settings.max_queued,
        queue_timeout_s=settings.queue_timeout_s,
        listener_buffer_s=settings.listener_buffer_s,
        trims_silence=settings.trim_silence,
        num_workers=_num_workers(settings),
        vllm=VllmOptions(
            directory=settings.data_dir / VLLM_DIRECTORY,
            dtype=_vllm_dtype(settings) if settings.vllm_dtype == "auto" else settings.vllm_dtype,
            quantization=settings.vllm_quantization,
            max_num_seqs=settings.vllm_max_num_seqs or settings.max_streams or VLLM_SEQUENCES,
            max_model_len=settings.vllm_max_model_len,
            memory_share=settings.vllm_memory_share,
            tensor_parallel_size=settings.vllm_tensor_parallel_size,
            is_eager=vllm_build() == "cpu" if settings.vllm_eager is None else settings.vllm_eager,
        ),
    )


def _services(
    settings: Settings,
    engine: SpeechEngine,
    registry: SpeakerRegistry,
    metrics: Metrics,
    clock: Callable[[], float],
) -> Services:
    try:
        keys = KeyRing(settings.plain_keys)
    except ValueError as error:
        raise InvalidSettings(f"FIRSTWORD_API_KEYS: {error}") from error
    limits = Limits(
        max_json_bytes=settings.max_body_bytes,
        max_upload_bytes=settings.max_upload_bytes,
        body_timeout_s=settings.body_timeout_s,
        send_timeout_s=settings.slow_listener_timeout_s,
        requests_per_minute=settings.requests_per_minute or None,
        max_streams_per_key=settings.streams_per_key or None,
        max_contexts=settings.max_contexts,
        max_message_bytes=settings.max_message_bytes,
        idle_timeout_s=settings.idle_timeout_s,
    )
    info = engine.info
    return Services(
        engine=engine,
        speakers=registry,
        metrics=metrics,
        keys=keys,
        limits=limits,
        quotas=Quotas(limits, clock),
        model_id=info.checkpoint,
        voices=settings.voices(info.default_speaker),
        clock=clock,
    )
