import logging

import pytest

from firstword.app.errors import CancelReason, Wire
from firstword.app.events import StreamEvents
from firstword.app.telemetry.metrics import Metrics, Outcome, RejectReason
from firstword.app.telemetry.stream_record import StreamRecord
from firstword.app.telemetry.stream_stats import FirstChunk, StreamStats
from tests.support.clock import Clock
from tests.support.readings import samples, value

RATE_HZ = 24000
STATS = StreamStats(
    characters=42, speech_tokens=50, audio_samples=2 * RATE_HZ, queue_wait_s=0.02, compute_s=0.5
)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def record(metrics: Metrics, clock: Clock) -> StreamRecord:
    return StreamRecord(metrics, StreamEvents(clock, metrics.on_event), "http")


def speak(record: StreamRecord, clock: Clock, waits_s: list[float]) -> None:
    """A chunk of half a second after each wait."""
    for wait_s in waits_s:
        clock.pass_s(wait_s)
        record.audio_went(RATE_HZ // 2, RATE_HZ)


def counted(metrics: Metrics) -> set[str]:
    """Names of counters and counts that are no longer 0."""
    tallies = (name for (name, _), value in samples(metrics).items() if value and name.startswith("tts_"))
    return {name for name in tallies if name.endswith(("_total", "_count"))}


def test_completed_stream_is_counted_in_every_family_it_touches(
    metrics: Metrics, clock: Clock, record: StreamRecord
) -> None:
    assert value(metrics, "tts_requests_in_flight") == 1
    speak(record, clock, [0.25, 0.4, 0.5, 0.5])
    record.encoded(0.004)
    record.end("ok", stats=STATS)

    assert value(metrics, "tts_requests_in_flight") == 0
    assert value(metrics, "tts_requests_total", protocol="http", outcome="ok") == 1
    assert value(metrics, "tts_time_to_first_byte_seconds_sum", protocol="http") == pytest.approx(0.25)
    assert value(metrics, "tts_time_to_first_byte_seconds_count", protocol="http") == 1
    assert value(metrics, "tts_chunk_interval_seconds_sum") == pytest.approx(1.4)
    assert value(metrics, "tts_chunk_interval_seconds_count") == 3
    assert value(metrics, "tts_stage_seconds_sum", stage="encode") == pytest.approx(0.004)
    assert value(metrics, "tts_audio_seconds_total") == pytest.approx(2)
    assert value(metrics, "tts_real_time_factor_sum") == pytest.approx(0.25)
    assert value(metrics, "tts_real_time_factor_count") == 1
    assert value(metrics, "tts_input_characters_total") == 42
    assert value(metrics, "tts_speech_tokens_total") == 50
    assert value(metrics, "tts_underrun_seconds_count") == 1
    assert value(metrics, "tts_first_text_to_first_byte_seconds_count") == 0


@pytest.mark.parametrize(
    ("waits_s", "underrun_s", "is_ok_at_0", "is_ok_at_100"),
    [([0.3, 0.4], 0, 1, 1), ([0.3, 0.55], 0.05, 0, 1), ([0.3, 0.75], 0.25, 0, 0)],
)
def test_underrun_counts_against_the_thresholds_it_passes(
    metrics: Metrics,
    clock: Clock,
    record: StreamRecord,
    waits_s: list[float],
    underrun_s: float,
    is_ok_at_0: int,
    is_ok_at_100: int,
) -> None:
    speak(record, clock, waits_s)
    record.end("ok", stats=STATS)
    assert value(metrics, "tts_underrun_seconds_sum") == pytest.approx(underrun_s)
    assert value(metrics, "tts_continuity_ok_total", threshold_ms="0") == is_ok_at_0
    assert value(metrics, "tts_continuity_ok_total", threshold_ms="100") == is_ok_at_100


def test_what_nobody_plays_while_it_comes_says_nothing_of_waits(metrics: Metrics, clock: Clock) -> None:
    """As an item of a batch, which pauses while others take every slot."""
    record = StreamRecord(metrics, StreamEvents(clock, metrics.on_event), "batch", is_played=False)
    speak(record, clock, [0.3, 60.0])
    record.end("ok", stats=STATS)
    assert counted(metrics) == {
        "tts_requests_total",
        "tts_audio_seconds_total",
        "tts_real_time_factor_count",
        "tts_input_characters_total",
        "tts_speech_tokens_total",
    }


def test_second_end_does_nothing(
    metrics: Metrics, clock: Clock, record: StreamRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    speak(record, clock, [0.1])
    record.end("cancelled", "disconnect", STATS)
    before = samples(metrics)
    record.end("ok", stats=STATS)
    record.end("failed")
    tts = {key for key in before if key[0].startswith("tts_")}
    after = samples(metrics)
    assert {key: after[key] for key in tts} == {key: before[key] for key in tts}
    assert len(caplog.records) == 1


@pytest.mark.parametrize("reason", ["queue_full", "rate_limit", "auth", "draining", "too_long"])
def test_rejected_before_audio_counts_its_reason_and_no_time(
    metrics: Metrics, record: StreamRecord, reason: RejectReason
) -> None:
    record.end("rejected", reason)
    assert value(metrics, "tts_requests_in_flight") == 0
    assert value(metrics, "tts_requests_total", protocol="http", outcome="rejected") == 1
    assert value(metrics, "tts_rejected_total", reason=reason) == 1
    assert counted(metrics) == {"tts_requests_total", "tts_rejected_total"}


def test_rejected_for_a_bad_value_counts_no_reason(metrics: Metrics, record: StreamRecord) -> None:
    record.end("rejected")
    assert counted(metrics) == {"tts_requests_total"}


@pytest.mark.parametrize("reason", ["client_cancel", "disconnect", "timeout", "slow_listener", "shutdown"])
def test_cancelled_midway_counts_its_work_but_no_continuity(
    metrics: Metrics, clock: Clock, record: StreamRecord, reason: CancelReason
) -> None:
    speak(record, clock, [0.1, 2.0])
    record.end("cancelled", reason, STATS)
    assert value(metrics, "tts_requests_total", protocol="http", outcome="cancelled") == 1
    assert value(metrics, "tts_cancelled_total", reason=reason) == 1
    assert value(metrics, "tts_audio_seconds_total") == pytest.approx(1)
    assert counted(metrics) == {
        "tts_requests_total",
        "tts_cancelled_total",
        "tts_time_to_first_byte_seconds_count",
        "tts_chunk_interval_seconds_count",
        "tts_audio_seconds_total",
        "tts_input_characters_total",
        "tts_speech_tokens_total",
    }


@pytest.mark.parametrize(
    ("outcome", "reason"), [("cancelled", None), ("cancelled", "auth"), ("rejected", "disconnect")]
)
def test_reason_of_another_outcome_is_a_bug_that_leaves_nothing_in_flight(
    metrics: Metrics, record: StreamRecord, outcome: Outcome, reason: RejectReason | CancelReason | None
) -> None:
    with pytest.raises(AssertionError):
        record.end(outcome, reason)
    assert value(metrics, "tts_requests_in_flight") == 0


def test_failed_without_audio_has_no_continuity_and_no_real_time_factor(
    metrics: Metrics, record: StreamRecord
) -> None:
    record.end("failed", stats=StreamStats(characters=3))
    assert value(metrics, "tts_requests_total", protocol="http", outcome="failed") == 1
    assert counted(metrics) == {"tts_requests_total", "tts_input_characters_total"}


def test_websockets_first_text_starts_a_time_of_its_own(metrics: Metrics, clock: Clock) -> None:
    record = StreamRecord(metrics, StreamEvents(clock), "websocket")
    clock.pass_s(3.0)
    record.text_came()
    clock.pass_s(0.1)
    record.text_came()
    speak(record, clock, [0.1, 0.1])
    assert value(metrics, "tts_first_text_to_first_byte_seconds_sum") == pytest.approx(0.2)
    assert value(metrics, "tts_first_text_to_first_byte_seconds_count") == 1
    assert value(metrics, "tts_time_to_first_byte_seconds_sum", protocol="websocket") == pytest.approx(3.2)


def test_time_counts_from_when_the_request_came(metrics: Metrics, clock: Clock) -> None:
    record = StreamRecord(metrics, StreamEvents(clock), "openai", received_s=clock() - 0.5)
    speak(record, clock, [0.25])
    assert record.ttfb_ms == pytest.approx(750)


def test_payload_without_samples_is_no_first_byte(
    metrics: Metrics, clock: Clock, record: StreamRecord
) -> None:
    record.audio_went(0, RATE_HZ)
    assert record.ttfb_ms is None
    assert value(metrics, "tts_time_to_first_byte_seconds_count", protocol="http") == 0
    speak(record, clock, [0.2])
    assert record.ttfb_ms == pytest.approx(200)
    assert value(metrics, "tts_chunk_interval_seconds_count") == 0


def test_server_timing_tells_the_wait_and_the_time_to_the_first_byte(
    clock: Clock, record: StreamRecord
) -> None:
    clock.pass_s(0.125)
    assert record.server_timing() == "queue;dur=0.0, ttfb;dur=125.0"
    record.audio_went(10, RATE_HZ)
    clock.pass_s(1.0)
    assert record.server_timing(STATS) == "queue;dur=20.0, ttfb;dur=125.0"


def test_first_byte_is_explained_in_the_header_and_in_the_log(
    clock: Clock, record: StreamRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    first = FirstChunk(0.001, False, 0.002, 0.01, 0.02, 0.03, 0.04, audio_s=0.4)
    stats = StreamStats(queue_wait_s=0.005, first=first)
    record.encoded(0.1)
    clock.pass_s(0.3)
    assert record.server_timing(stats) == (
        "queue;dur=5.0, speaker;dur=1.0, text;dur=2.0, prefill;dur=10.0, first_hop;dur=20.0, flow;dur=30.0, "
        'vocoder;dur=40.0, encode;dur=100.0, speaker_cache;desc="miss", rtf;desc="0.5", ttfb;dur=300.0'
    )
    record.audio_went(10, RATE_HZ)
    record.encoded(0.1)  # of a later chunk
    record.end("ok", stats=stats)
    [line] = caplog.records
    told = {name: getattr(line, name) for name in ("queue_ms", "encode_ms", "speaker_cache", "first_rtf")}
    assert told == {"queue_ms": 5.0, "encode_ms": 100.0, "speaker_cache": "miss", "first_rtf": 0.5}


def test_real_time_factor_is_unknown_before_the_first_audio(clock: Clock, record: StreamRecord) -> None:
    assert (record.rtf(STATS), record.audio_s) == (None, 0.0)
    speak(record, clock, [0.1, 0.1])
    assert (record.rtf(STATS), record.audio_s) == (0.5, 1.0)


@pytest.mark.parametrize("wire", ["http", "openai", "websocket", "grpc", "kserve", "cli"])
def test_every_wire_has_its_label(metrics: Metrics, clock: Clock, wire: Wire) -> None:
    StreamRecord(metrics, StreamEvents(clock), wire).end("ok")
    assert value(metrics, "tts_requests_total", protocol=wire, outcome="ok") == 1


def logged(caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    [line] = caplog.records
    keys = ("id", "speaker", "characters", "audio_ms", "ttfb_ms", "rtf", "outcome", "reason")
    return {key: getattr(line, key) for key in keys}


def test_line_tells_the_stream_from_its_id_to_its_outcome(
    clock: Clock, record: StreamRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    record.named("r-1", "lena")
    speak(record, clock, [0.12345, 0.1])
    record.end("cancelled", "client_cancel", STATS)
    assert logged(caplog) == {
        "id": "r-1",
        "speaker": "lena",
        "characters": 42,
        "audio_ms": 1000,
        "ttfb_ms": 123.5,
        "rtf": 0.5,
        "outcome": "cancelled",
        "reason": "client_cancel",
    }


def test_line_of_a_request_refused_before_it_had_a_name(
    record: StreamRecord, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    record.end("rejected", "auth")
    unknown = ("id", "speaker", "characters", "ttfb_ms", "rtf")
    assert logged(caplog) == {
        **dict.fromkeys(unknown),
        "audio_ms": 0,
        "outcome": "rejected",
        "reason": "auth",
    }
