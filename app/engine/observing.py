"""What the engine's parts tell the metrics."""

import asyncio
from importlib.metadata import version

from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.request import EngineInfo
from firstword.app.engine.loading import LoadedNetworks
from firstword.app.speakers.registry import RegistryHooks, SpeakerRegistry
from firstword.app.telemetry.metrics import Metrics
from firstword.models.networks import TokenEvents
from firstword.models.token2wav_step import StepTimes


def describe(metrics: Metrics, info: EngineInfo, loaded: LoadedNetworks, speakers: SpeakerRegistry) -> None:
    metrics.build_info.info(
        {"version": version("firstword"), "checkpoint": info.checkpoint, "backend": info.backend}
    )
    metrics.speakers.set_function(speakers.count)
    metrics.device_memory_bytes.set_function(loaded.device_memory_bytes)
    loop = asyncio.get_running_loop()
    metrics.event_loop_tasks.set_function(lambda: len(asyncio.all_tasks(loop)))


def token_events(metrics: Metrics, loaded: LoadedNetworks, max_streams: int) -> TokenEvents:
    """What the token generator reports; a runtime's own metrics are shown beside ours."""
    if prefix := loaded.backend.runtime.metrics:
        metrics.show_families_of(prefix)
    return TokenEvents(
        on_step=lambda num_rows, seconds: metrics.batch_size.labels(stage="llm").observe(num_rows),
        on_restart=metrics.engine_restarts.inc,
        max_streams=max_streams,
    )


def registry_hooks(metrics: Metrics, num_readers: int) -> RegistryHooks:
    cache_misses = metrics.speaker_cache_misses.inc
    return RegistryHooks(metrics.speaker_cache_hits.inc, cache_misses, num_readers=num_readers)


def phrase_cache(metrics: Metrics, max_bytes: int) -> PhraseCache:
    return PhraseCache(max_bytes, metrics.phrase_cache_hits.inc, metrics.phrase_cache_misses.inc)


def observe_batch(metrics: Metrics, size: int, times: StepTimes) -> None:
    for stage, seconds in (("flow", times.flow_s), ("vocoder", times.vocoder_s)):
        metrics.stage_seconds.labels(stage=stage).observe(seconds)
        metrics.batch_size.labels(stage=stage).observe(size)
