"""Record one stream from its request to its end: in the metrics and in one line of the log."""

import logging
from collections.abc import Callable
from typing import get_args

from firstword.app.errors import CancelReason, Wire
from firstword.app.events import Stage, StreamEvents
from firstword.app.telemetry.metrics import CONTINUITY_THRESHOLDS_MS, Metrics, Outcome, Playback, RejectReason
from firstword.app.telemetry.stream_stats import StreamStats
from firstword.app.telemetry.tracing import NO_TRACE, StreamTrace

logger = logging.getLogger(__name__)


class StreamRecord:
    """One per stream, used within one event loop. Never sees the text.

    A request is in flight from here on: who creates a record must end it.
    """

    def __init__(
        self,
        metrics: Metrics,
        events: StreamEvents,
        wire: Wire,
        received_s: float | None = None,
        is_played: bool = True,
        trace: StreamTrace = NO_TRACE,
        on_used: Callable[[int, float], None] = lambda characters, audio_s: None,
    ) -> None:
        """events: of the stream; the record tells them what it learns of encoding and sending. received_s:
        when the request came, by their clock; None: now. is_played: while it comes; the times of others say
        nothing of what a listener waits for. on_used: called at the end of a stream that had a slot, with its
        characters and seconds of audio."""
        self._metrics = metrics
        self._events = events
        self._clock = clock = events.clock
        self._wire = wire
        self._on_used = on_used
        self._received_s = clock() if received_s is None else received_s
        self._is_played = is_played
        self._trace = trace
        self._encoded_s = self._received_s  # when the latest chunk was ready to be sent
        self._request_id: str | None = None
        self._speaker: str | None = None
        self._first_text_s: float | None = None
        self._last_audio_s: float | None = None
        self._first_encode_s = 0.0  # until the first audio
        self.ttfb_ms: float | None = None  # None: no audio yet
        self.audio_s = 0.0  # handed to the transport so far
        self._playback: Playback | None = None  # None: no audio yet
        self._has_ended = False
        metrics.requests_in_flight.inc()

    def named(self, request_id: str, speaker: str) -> None:
        """Set the names of the stream in the log."""
        self._request_id = request_id
        self._speaker = speaker

    def text_came(self, at_s: float | None = None) -> None:
        """For a stream whose text comes in pieces; the first call counts. at_s: by the clock; None: now."""
        if self._first_text_s is None:
            self._first_text_s = self._clock() if at_s is None else at_s

    def audio_went(self, num_samples: int, sample_rate_hz: int) -> None:
        """Count encoded audio of `num_samples` handed to the transport; none at all does not count."""
        if num_samples == 0:
            return
        now_s = self._events.passed("send", self._encoded_s, samples=num_samples)
        if self._playback is None:
            self._playback = Playback(sample_rate_hz)
            ttfb_s = now_s - self._received_s
            self.ttfb_ms = 1000 * ttfb_s
            if self._is_played:
                ttfb = self._metrics.time_to_first_byte_seconds.labels(self._wire)
                ttfb.observe(ttfb_s, self._trace.exemplar)
            if self._first_text_s is not None:
                self._metrics.first_text_to_first_byte_seconds.observe(now_s - self._first_text_s)
        assert sample_rate_hz == self._playback.sample_rate_hz, sample_rate_hz
        if self._last_audio_s is not None and self._is_played:
            self._metrics.chunk_interval_seconds.observe(now_s - self._last_audio_s)
        self._last_audio_s = now_s
        self._playback.received(num_samples, now_s)
        self.audio_s = self._playback.audio_s
        self._metrics.audio_seconds.inc(num_samples / sample_rate_hz)

    def encoded(self, seconds: float) -> None:
        """Count the time it took to encode one chunk."""
        if self.ttfb_ms is None:
            self._first_encode_s += seconds
        self._encoded_s = self._clock()
        self._events.emit(Stage("encode", self._encoded_s - seconds, self._encoded_s))

    def rtf(self, stats: StreamStats) -> float | None:
        """Compute time over audio time so far; None before the first audio."""
        return stats.compute_s / self.audio_s if self.audio_s else None

    def server_timing(self, stats: StreamStats | None = None) -> str:
        """Return the value of a Server-Timing header, in ms.

        A header is sent before the first audio: then `ttfb` is the time until now.
        """
        ttfb_ms = self.ttfb_ms
        if ttfb_ms is None:
            ttfb_ms = 1000 * (self._clock() - self._received_s)
        times_ms = self.first_byte(stats or StreamStats())
        entries = [
            f'{name};desc="{time_ms}"' if name in ("speaker_cache", "rtf") else f"{name};dur={time_ms:.1f}"
            for name, time_ms in times_ms.items()
        ]
        return ", ".join([*entries, f"ttfb;dur={ttfb_ms:.1f}"])

    def first_byte(self, stats: StreamStats) -> dict[str, float | str]:
        """Return where the time before the first audio went: milliseconds by stage as far as known.

        And `speaker_cache`, hit or miss, and `rtf`, the real-time factor of the first chunk.
        """
        first = stats.first
        found: dict[str, float | str] = {"queue": round(1000 * stats.queue_wait_s, 1)}
        if first.audio_s is not None:
            first.encode_s = self._first_encode_s
        found |= first.times_ms()
        if first.speaker_s is not None:
            found["speaker_cache"] = "hit" if first.is_speaker_ready else "miss"
        if first.rtf is not None:
            found["rtf"] = round(first.rtf, 3)
        return found

    def end(
        self,
        outcome: Outcome,
        reason: RejectReason | CancelReason | None = None,
        stats: StreamStats | None = None,
    ) -> None:
        """Count the stream and log it; only the first call does.

        reason: required of a cancelled stream. A request may be rejected for another reason than those
        that are counted, a bad value say: then None. stats: None if the engine never opened the stream.
        """
        if self._has_ended:
            return
        self._has_ended = True
        self._metrics.requests_in_flight.dec()
        self._metrics.requests.labels(self._wire, outcome).inc()
        if outcome == "rejected" and reason is not None:
            assert reason in get_args(RejectReason), reason
            self._metrics.rejected.labels(reason).inc()
        elif outcome == "cancelled":
            assert reason in get_args(CancelReason), reason
            self._metrics.cancelled.labels(reason).inc()
        if stats is not None:
            self._metrics.input_characters.inc(stats.characters)
            self._metrics.speech_tokens.inc(stats.speech_tokens)
            self._on_used(stats.characters, self.audio_s)
        if outcome == "ok" and self._playback is not None:
            self._observe_completed(self._playback, stats)
        self._log(outcome, reason, stats)

    def _observe_completed(self, playback: Playback, stats: StreamStats | None) -> None:
        """Not for other streams: their underrun looks better, their real-time factor worse than it is."""
        if self._is_played:
            self._metrics.underrun_seconds.observe(playback.worst_deficit_s)
            for threshold_ms in CONTINUITY_THRESHOLDS_MS:
                if 1000 * playback.worst_deficit_s <= threshold_ms:
                    self._metrics.continuity_ok.labels(threshold_ms).inc()
        rtf = None if stats is None else self.rtf(stats)
        if rtf is not None:
            self._metrics.real_time_factor.observe(rtf)

    def _log(
        self, outcome: Outcome, reason: RejectReason | CancelReason | None, stats: StreamStats | None
    ) -> None:
        rtf = None if stats is None else self.rtf(stats)
        first_byte: dict[str, float | str] = {}
        if stats is not None and self.ttfb_ms is not None:
            names = {"speaker_cache": "speaker_cache", "rtf": "first_rtf"}
            first_byte = {
                names.get(name, f"{name}_ms"): value for name, value in self.first_byte(stats).items()
            }
        fields = {
            "id": self._request_id,
            "speaker": self._speaker if stats is None else stats.speaker or self._speaker,
            "characters": None if stats is None else stats.characters,
            "audio_ms": round(1000 * self.audio_s),
            "ttfb_ms": None if self.ttfb_ms is None else round(self.ttfb_ms, 1),
            "rtf": None if rtf is None else round(rtf, 3),
            **first_byte,
            "outcome": outcome,
            "reason": reason,
        }
        self._trace.end(self._clock(), is_error=outcome == "failed", protocol=self._wire, **fields)
        logger.info("stream ended", extra=fields)
