from concurrent.futures import ThreadPoolExecutor
from itertools import product

import pytest
from prometheus_client.parser import text_string_to_metric_families

from firstword.app.telemetry.metrics import Metrics
from tests.support.readings import samples, value

PROTOCOLS = ["http", "openai", "websocket", "grpc", "kserve", "batch", "cli"]
STAGES = ["normalize", "speaker", "llm_first_token", "llm_first_hop", "flow", "vocoder", "encode"]

# Written out by hand: the dashboard and the alerts ask for these.
COUNTERS = {
    "tts_requests": {"protocol": PROTOCOLS, "outcome": ["ok", "rejected", "failed", "cancelled"]},
    "tts_continuity_ok": {"threshold_ms": ["0", "100"]},
    "tts_audio_seconds": {},
    "tts_speech_tokens": {},
    "tts_input_characters": {},
    "tts_key_requests": {"key": []},
    "tts_key_characters": {"key": []},
    "tts_key_audio_seconds": {"key": []},
    "tts_rejected": {"reason": ["queue_full", "rate_limit", "auth", "draining", "restarting", "too_long"]},
    "tts_cancelled": {"reason": ["client_cancel", "disconnect", "timeout", "slow_listener", "shutdown"]},
    "tts_engine_restarts": {},
    "tts_generation_anomalies": {"kind": ["token_loop", "empty", "max_tokens", "silence"]},
    "tts_speaker_cache_hits": {},
    "tts_speaker_cache_misses": {},
    "tts_phrase_cache_hits": {},
    "tts_phrase_cache_misses": {},
    "tts_batch_items": {"outcome": ["done", "failed"]},
    "tts_worker_failures": {"worker": ["batches", "capacity", "loudness", "unloading"]},
}
GAUGES = [
    "tts_requests_in_flight",
    "tts_max_streams",
    "tts_measured_streams",
    "tts_queue_depth",
    "tts_file_queue_depth",
    "tts_ws_connections",
    "tts_ws_contexts",
    "tts_event_loop_tasks",
    "tts_speakers",
    "tts_device_memory_bytes",
    "tts_batch_items_waiting",
    "tts_ready",
    "tts_networks_unloaded",
]
TTFB = ".03 .05 .075 .1 .125 .15 .2 .25 .3 .4 .5 .75 1 1.5 2 3 5 10"
STAGE = ".002 .005 .01 .02 .03 .05 .075 .1 .15 .2 .3 .5 1 2 5"
GAPS = "0 .005 .01 .02 .04 .06 .1 .15 .2 .3 .5 1 2 5"
HISTOGRAMS = {
    "tts_queue_wait_seconds": ({}, GAPS),
    "tts_file_queue_wait_seconds": ({}, "0 .1 .5 1 2 5 10 20 30 45 60 120"),
    "tts_time_to_first_byte_seconds": ({"protocol": PROTOCOLS}, TTFB),
    "tts_first_text_to_first_byte_seconds": ({}, TTFB),
    "tts_stage_seconds": ({"stage": STAGES}, STAGE),
    "tts_chunk_interval_seconds": ({}, GAPS),
    "tts_underrun_seconds": ({}, GAPS),
    "tts_real_time_factor": ({}, ".05 .1 .15 .2 .3 .4 .5 .6 .7 .8 .9 1 1.25 1.5 2 5"),
    "tts_cancel_to_stop_seconds": ({}, STAGE),
    "tts_batch_size": ({"stage": ["llm", "flow", "vocoder"]}, "1 2 4 8 16 32 64"),
}


def label_sets(labels: dict[str, list[str]]) -> list[frozenset[tuple[str, str]]]:
    return [frozenset(zip(labels, values, strict=True)) for values in product(*labels.values())]


def families(metrics: Metrics) -> dict[str, str]:
    """Type by name."""
    body, _ = metrics.exposition()
    return {family.name: family.type for family in text_string_to_metric_families(body.decode())}


def test_families_are_those_of_the_design_and_no_others() -> None:
    ours = {name: kind for name, kind in families(Metrics()).items() if name.startswith("tts_")}
    assert ours == {
        **dict.fromkeys(COUNTERS, "counter"),
        **dict.fromkeys(GAUGES, "gauge"),
        **dict.fromkeys(HISTOGRAMS, "histogram"),
        "tts_build_info": "gauge",
    }


@pytest.mark.parametrize("name", COUNTERS)
def test_counter_starts_at_0_with_all_its_label_sets(name: str) -> None:
    found = {labels: v for (sample, labels), v in samples(Metrics()).items() if sample == f"{name}_total"}
    assert found == dict.fromkeys(label_sets(COUNTERS[name]), 0)


@pytest.mark.parametrize("name", GAUGES)
def test_gauge_starts_at_0(name: str) -> None:
    assert value(Metrics(), name) == 0


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histogram_starts_at_0_with_all_its_label_sets_and_the_designs_buckets(name: str) -> None:
    labels, bounds = HISTOGRAMS[name]
    found = {key: v for key, v in samples(Metrics()).items() if key[0] == f"{name}_bucket"}
    les = [("le", str(float(bound))) for bound in bounds.split()] + [("le", "+Inf")]
    expected = [(f"{name}_bucket", labels | {le}) for labels in label_sets(labels) for le in les]
    assert found == dict.fromkeys(expected, 0)


@pytest.mark.parametrize("name", [*COUNTERS, *GAUGES, *HISTOGRAMS])
def test_attribute_is_the_family_without_its_prefix(name: str) -> None:
    [family] = getattr(Metrics(), name.removeprefix("tts_")).collect()
    assert family.name == name


def test_build_info_says_what_was_told() -> None:
    metrics = Metrics()
    metrics.build_info.info({"version": "1.2", "checkpoint": "builtin"})
    assert value(metrics, "tts_build_info", version="1.2", checkpoint="builtin") == 1


def test_two_in_one_process_do_not_share_a_value() -> None:
    one, other = Metrics(), Metrics()
    one.audio_seconds.inc(3)
    assert value(one, "tts_audio_seconds_total") == 3
    assert value(other, "tts_audio_seconds_total") == 0


def test_exposition_has_no_times_of_creation() -> None:
    metrics = Metrics()
    metrics.show_families_of("python_gc")  # counters of the default registry
    body = metrics.exposition()[0].decode()
    assert "python_gc_objects_collected_total" in body
    assert "_created" not in body


def test_exposition_has_the_process_and_the_platform_and_the_text_formats_type() -> None:
    metrics = Metrics()
    assert metrics.exposition()[1].startswith("text/plain; version=")
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_info"} <= set(families(metrics))


@pytest.mark.parametrize("accept", ["application/openmetrics-text;version=x", "text/plain;version=1.a"])
def test_a_version_that_is_none_gets_the_text_format(accept: str) -> None:
    assert Metrics().exposition(accept)[1] == Metrics().exposition()[1]


def test_sixteen_threads_lose_no_count_while_scraped() -> None:
    metrics = Metrics()

    def work(_: int) -> None:
        for _ in range(200):
            metrics.stage_seconds.labels("flow").observe(0.01)
            metrics.speech_tokens.inc()
        metrics.exposition()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert value(metrics, "tts_stage_seconds_count", stage="flow") == 3200
    assert value(metrics, "tts_speech_tokens_total") == 3200
