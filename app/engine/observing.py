"""What the engine's parts tell the metrics."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version

from firstword.app.core.phrase_cache import PhraseCache
from firstword.app.core.request import EngineInfo
from firstword.app.engine.loading import LoadedNetworks, choose_num_readers
from firstword.app.engine.unloading import LoadOnDemandThreads, Unloading
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


def registry_hooks(metrics: Metrics, loaded: LoadedNetworks, unloading: Unloading | None) -> RegistryHooks:
    hooks = RegistryHooks(
        metrics.speaker_cache_hits.inc,
        metrics.speaker_cache_misses.inc,
        num_readers=choose_num_readers(loaded.device),
    )
    return hooks if unloading is None else replace(hooks, threads=partial(LoadOnDemandThreads, unloading))


def phrase_cache(metrics: Metrics, max_bytes: int) -> PhraseCache:
    return PhraseCache(max_bytes, metrics.phrase_cache_hits.inc, metrics.phrase_cache_misses.inc)


def batch_observer(metrics: Metrics) -> Callable[[int, StepTimes], None]:
    """Return what the pool calls with the size of each batch of flow and vocoder, and its time."""

    def observe(size: int, times: StepTimes) -> None:
        for stage, seconds in (("flow", times.flow_s), ("vocoder", times.vocoder_s)):
            metrics.stage_seconds.labels(stage=stage).observe(seconds)
            metrics.batch_size.labels(stage=stage).observe(size)

    return observe
