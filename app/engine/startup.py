"""Start the engine: load the networks, assemble the parts around them, warm up, measure capacity."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from firstword.app.engine.capacity import capacity_file, open_admission
from firstword.app.engine.engine import SpeechEngine
from firstword.app.engine.loading import NetworksLoading, load_in_thread
from firstword.app.engine.observing import (
    batch_observer,
    describe,
    phrase_cache,
    registry_hooks,
    token_events,
)
from firstword.app.engine.speaker_parts import OpenStore, open_speakers
from firstword.app.engine.stages import NetworkStages
from firstword.app.engine.unloading import open_unloading
from firstword.app.engine.voice_parts import checked_watermark, load_front_ends, start_parts
from firstword.app.options import StartOptions
from firstword.app.speakers.registry import SpeakerRegistry
from firstword.app.telemetry.metrics import Metrics

QUIET_S = 0.5  # without a stream, before a speaker that nobody has asked for yet is prepared


@dataclass(frozen=True, slots=True, eq=False)
class RunningEngine:
    """The engine with what the service asks beside it, ready to speak."""

    engine: SpeechEngine
    speakers: SpeakerRegistry
    stages: NetworkStages


@asynccontextmanager
async def running_engine(
    options: StartOptions,
    metrics: Metrics,
    *,
    loading: NetworksLoading | None = None,
    open_store: OpenStore | None = None,
) -> AsyncIterator[RunningEngine]:
    """Load, assemble and warm up; at the end all streams are ended and all threads and processes gone.

    loading: the networks' future, if loading has begun. open_store: opens the store of speakers that servers
    share; None: a file.

    Raises InvalidOptions, BackendError, CheckpointError and DatabaseError.
    """
    engine_options, data_dir = options.engine, options.speakers.data_dir
    loading = loading or load_in_thread(options.networks, engine_options, options.lm_engines, data_dir)
    loaded = await asyncio.wrap_future(loading)
    text, speaker_networks = await load_front_ends(loaded, engine_options)
    unloading = open_unloading(
        engine_options.unload_after_s, loaded, speaker_networks, options.networks, options.lm_engines
    )
    hooks = registry_hooks(metrics, loaded, unloading)
    async with open_speakers(loaded, speaker_networks, options.speakers, hooks, open_store) as speaker_parts:
        speakers = speaker_parts.registry
        info = loaded.info(
            speakers.default_speaker,
            options.speakers.default_speaker is not None,
            options.work,
            speaker_networks.has_sft,
        )
        parts = await start_parts(
            loaded,
            info,
            text,
            speakers,
            engine_options,
            token_events(metrics, loaded, engine_options.max_streams),
            batch_observer(metrics),
        )
        file = capacity_file(
            data_dir,
            speaker_networks.fingerprint,
            options.networks,
            options.lm_engines,
            loaded.backend.name,
        )
        admission, capacity = open_admission(engine_options, file, parts.clock, unloading)
        loudness = speaker_parts.loudness
        parts = replace(
            parts,
            on_event=metrics.on_event,
            admission=admission,
            post_processing=replace(
                parts.post_processing,
                gain_of=None if loudness is None else loudness.gain_of,
                watermark=checked_watermark(options.watermark, info.sample_rate_hz),
            ),
            phrases=phrase_cache(metrics, engine_options.phrase_cache_mb << 20),
        )
        engine = SpeechEngine(parts, metrics, loudness, unloading)
        try:
            describe(metrics, info, loaded, speakers)
            await engine.warm_up(capacity)
            speakers.prepare_builtin(lambda: admission.wait_until_quiet(QUIET_S))
            stages = NetworkStages(
                loaded.checkpoint.config.family,
                loaded.checkpoint.config.flow.vocab_size,
                loaded.token2wav,
                speakers,
                speaker_networks,
                parts.pool,
                admission,
                parts.post_processing.watermark,
            )
            yield RunningEngine(engine, speakers, stages)
        finally:
            await asyncio.shield(engine.aclose())
