"""Prometheus metrics of the server, in a registry of their own, and the playback of a client."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Literal, cast, get_args

from prometheus_client import (
    REGISTRY,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    Metric,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from firstword.app.errors import WIRES, CancelReason
from firstword.app.events import Anomaly, Event, Stage, StageName, Stopped, WentWrong


class ForeignMetrics(Collector):
    """Metrics that a library counts in prometheus_client's default registry, by the prefix of their names."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the families come and go with the library's engine."""
        return []

    def collect(self) -> Iterable[Metric]:
        return [family for family in REGISTRY.collect() if family.name.startswith(self._prefix)]


class WithoutCreationTimes(Collector):
    """A registry without the `_created` series that the client library adds to every counter and histogram.

    Its own switch, `disable_created_metrics`, is of the whole process, which may not be ours.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterable[Metric]:
        for family in self._registry.collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class Playback:
    """Simulates a client that plays one stream from its first audio on, without a pre-buffer.

    worst_deficit_s: how late the latest audio came, measured against playing without a stop. It is the
    pre-buffer that would have avoided every gap, and the sum of the gaps of a client that waits in each.
    """

    def __init__(self, sample_rate_hz: int) -> None:
        assert sample_rate_hz > 0, sample_rate_hz
        self.sample_rate_hz = sample_rate_hz
        self.first_at_s: float | None = None  # None: nothing received
        self.worst_deficit_s = 0.0
        self._num_samples = 0

    @property
    def audio_s(self) -> float:
        return self._num_samples / self.sample_rate_hz

    def received(self, num_samples: int, at_s: float) -> None:
        """Audio of `num_samples` arrived at `at_s`, on any clock that does not run backwards."""
        assert num_samples >= 0, num_samples
        if num_samples == 0:
            return
        if self.first_at_s is None:
            self.first_at_s = at_s
        underrun_at_s = self.first_at_s + self.audio_s
        self.worst_deficit_s = max(self.worst_deficit_s, at_s - underrun_at_s)
        self._num_samples += num_samples


Outcome = Literal["ok", "rejected", "failed", "cancelled"]
RejectReason = Literal["queue_full", "rate_limit", "auth", "draining", "restarting", "too_long"]
MeasuredStage = Literal[
    "normalize", "speaker", "llm_first_token", "llm_first_hop", "flow", "vocoder", "encode"
]
BatchStage = Literal["llm", "flow", "vocoder"]
STAGES_OF_STREAMS: Mapping[StageName, MeasuredStage] = {
    "text": "normalize",
    "speaker": "speaker",
    "prefill": "llm_first_token",
    "first_hop": "llm_first_hop",
    "encode": "encode",
}
"""Flow and vocoder are measured once a batch, whatever streams are in it."""

CONTINUITY_THRESHOLDS_MS = (0, 100)

TTFB_BUCKETS = (0.03, 0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10)
STAGE_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5)
RTF_BUCKETS = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 5)
GAP_BUCKETS = (0, 0.005, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5)
FILE_WAIT_BUCKETS = (0, 0.1, 0.5, 1, 2, 5, 10, 20, 30, 45, 60, 120)
BATCH_BUCKETS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """An attribute is a family without its prefix `tts_` and its suffix `_total`.

    Any thread may count. Labels take the values of the types above and of the engine's interface, no
    others; each of their series is there from the start, so that a rate begins at 0. Only `key` is other:
    it takes the names of the keys that were used, a hundred of them.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        counter = partial(Counter, namespace="tts", registry=self.registry)
        gauge = partial(Gauge, namespace="tts", registry=self.registry)
        histogram = partial(Histogram, namespace="tts", registry=self.registry)

        self.requests = counter("requests", "Requests by how they ended", ["protocol", "outcome"])
        self.requests_in_flight = gauge("requests_in_flight", "Requests that have not ended")
        self.rejected = counter("rejected", "Requests refused", ["reason"])
        self.cancelled = counter("cancelled", "Streams stopped before their end", ["reason"])

        self.max_streams = gauge("max_streams", "Streams that may run at once; more of them wait")
        self.measured_streams = gauge(
            "measured_streams", "Streams that run at once as measured; 0: a setting says how many"
        )
        self.queue_depth = gauge("queue_depth", "Requests that wait for a slot")
        self.queue_wait_seconds = histogram(
            "queue_wait_seconds", "Wait for a slot, of requests that got one", buckets=GAP_BUCKETS
        )
        self.file_queue_depth = gauge(
            "file_queue_depth", "Requests for whole files that wait for a slot, in a queue of their own"
        )
        self.file_queue_wait_seconds = histogram(
            "file_queue_wait_seconds",
            "Wait for a slot, of requests for whole files that got one",
            buckets=FILE_WAIT_BUCKETS,
        )
        self.time_to_first_byte_seconds = histogram(
            "time_to_first_byte_seconds",
            "Request received to first audio payload handed to the transport, of all but whole files",
            ["protocol"],
            buckets=TTFB_BUCKETS,
        )
        self.first_text_to_first_byte_seconds = histogram(
            "first_text_to_first_byte_seconds",
            "First text of a WebSocket's context to its first audio payload",
            buckets=TTFB_BUCKETS,
        )
        self.stage_seconds = histogram(
            "stage_seconds", "Time of one pass through a stage", ["stage"], buckets=STAGE_BUCKETS
        )
        self.batch_size = histogram(
            "batch_size", "Streams that went through a stage at once", ["stage"], buckets=BATCH_BUCKETS
        )
        self.chunk_interval_seconds = histogram(
            "chunk_interval_seconds",
            "Time between two audio payloads of a stream, of all but whole files",
            buckets=GAP_BUCKETS,
        )
        self.underrun_seconds = histogram(
            "underrun_seconds",
            "Worst deficit of a client without pre-buffer, of completed streams but whole files",
            buckets=GAP_BUCKETS,
        )
        self.continuity_ok = counter(
            "continuity_ok",
            "Streams of tts_underrun_seconds with no underrun over the threshold; choose one threshold",
            ["threshold_ms"],
        )
        self.real_time_factor = histogram(
            "real_time_factor", "Compute time / audio time, of completed streams", buckets=RTF_BUCKETS
        )
        self.cancel_to_stop_seconds = histogram(
            "cancel_to_stop_seconds", "Cancel to everything freed", buckets=STAGE_BUCKETS
        )

        self.audio_seconds = counter("audio_seconds", "Audio handed to transports")
        self.speech_tokens = counter("speech_tokens", "Speech tokens generated")
        self.input_characters = counter("input_characters", "Characters of text received")
        self.generation_anomalies = counter("generation_anomalies", "Generations that went wrong", ["kind"])

        self.key_requests = counter("key_requests", "Requests spoken for a key", ["key"])
        self.key_characters = counter("key_characters", "Characters of text received from a key", ["key"])
        self.key_audio_seconds = counter("key_audio_seconds", "Audio handed to a key's clients", ["key"])

        self.ws_connections = gauge("ws_connections", "Open WebSockets")
        self.ws_contexts = gauge("ws_contexts", "Open contexts of all WebSockets")
        self.event_loop_tasks = gauge("event_loop_tasks", "Tasks of the event loop that have not ended")

        self.speakers = gauge("speakers", "Speakers that can be requested")
        self.speaker_cache_hits = counter("speaker_cache_hits", "Speakers found ready in memory")
        self.speaker_cache_misses = counter("speaker_cache_misses", "Speakers computed again on demand")

        self.phrase_cache_hits = counter("phrase_cache_hits", "Requests answered with kept audio")
        self.phrase_cache_misses = counter("phrase_cache_misses", "Requests whose audio was to be kept")

        self.batch_items = counter("batch_items", "Items of batches that ended", ["outcome"])
        self.batch_items_waiting = gauge("batch_items_waiting", "Items of batches that are not begun")

        self.worker_failures = counter(
            "worker_failures", "Times that a background worker failed and was started again", ["worker"]
        )
        self.engine_restarts = counter(
            "engine_restarts", "Times that vLLM's engine died and was started again"
        )
        self.device_memory_bytes = gauge("device_memory_bytes", "Memory in use on the device")
        self.ready = gauge("ready", "1: warm and admitting")
        self.networks_unloaded = gauge("networks_unloaded", "1: freed while idle, until the next request")
        self.build_info = Info("build", "What is running", namespace="tts", registry=self.registry)

        self._create_label_sets()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def on_event(self, event: Event) -> None:
        """Count an event of a stream; a subscriber of its events."""
        match event:
            case Stage(name="queue"):
                wait = self.file_queue_wait_seconds if "is_file" in event.counts else self.queue_wait_seconds
                wait.observe(event.duration_s)
            case Stage() if event.name in STAGES_OF_STREAMS:
                self.stage_seconds.labels(STAGES_OF_STREAMS[event.name]).observe(event.duration_s)
            case WentWrong():
                self.generation_anomalies.labels(event.kind).inc()
            case Stopped():
                self.cancel_to_stop_seconds.observe(event.after_s)

    def exposition(self, accept: str = "") -> tuple[bytes, str]:
        """Return the body of a scrape and its content type.

        accept: of the request; OpenMetrics, the one format with exemplars, is given where it is asked for.
        """
        try:
            encode, content_type = choose_encoder(accept)
        except TypeError:  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(cast(CollectorRegistry, WithoutCreationTimes(self.registry))), content_type

    def show_families_of(self, prefix: str) -> None:
        """Show what a library counts in prometheus_client's default registry under such names."""
        self.registry.register(ForeignMetrics(prefix))

    def _create_label_sets(self) -> None:
        wires = WIRES
        label_sets: list[tuple[Counter | Histogram, Sequence[Sequence[object]]]] = [
            (self.requests, [wires, get_args(Outcome)]),
            (self.time_to_first_byte_seconds, [wires]),
            (self.stage_seconds, [get_args(MeasuredStage)]),
            (self.batch_size, [get_args(BatchStage)]),
            (self.continuity_ok, [CONTINUITY_THRESHOLDS_MS]),
            (self.rejected, [get_args(RejectReason)]),
            (self.cancelled, [get_args(CancelReason)]),
            (self.generation_anomalies, [get_args(Anomaly)]),
            (self.batch_items, [("done", "failed")]),
            (self.worker_failures, [("batches", "capacity", "loudness", "unloading")]),
        ]
        for family, values in label_sets:
            for labels in product(*values):
                family.labels(*labels)
