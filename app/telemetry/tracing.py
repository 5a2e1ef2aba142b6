"""Traces of streams by OpenTelemetry: one trace a stream, a span for each of its stages.

A trace subscribes to the events of its stream. Nothing runs and nothing is imported where tracing is off.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from firstword.app.events import Event, Stage, StageName

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

Attribute = str | int | float | None
SPANS: frozenset[StageName] = frozenset(
    {"speaker", "queue", "text", "prefill", "decode", "flow", "vocoder", "encode", "send"}
)


class StreamTrace:
    """The trace of one stream; this one records nothing. Times are seconds of the service's clock."""

    @property
    def exemplar(self) -> dict[str, str] | None:
        """The labels that lead from a metric to the trace."""
        return None

    def on_event(self, event: Event) -> None:
        """Record a stage that was passed; a subscriber of the stream's events."""

    def end(self, end_s: float, is_error: bool, **attributes: Attribute) -> None:
        """Called once. An attribute that is None is left out."""


NO_TRACE = StreamTrace()


class Tracing:
    """Where traces go; this one makes none."""

    is_on = False

    def start_stream(self, headers: Mapping[str, str], start_s: float) -> StreamTrace:
        """headers: of the request, whose W3C `traceparent` makes the stream a part of its client's trace."""
        return NO_TRACE

    def close(self) -> None:
        """Send what still waits; it may take seconds."""


NO_TRACING = Tracing()


class OpenTelemetryTracing(Tracing):
    """Sends spans in the background, in batches; what does not fit its queue is dropped.

    OpenTelemetry's own variables say where and how: OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME,
    OTEL_TRACES_SAMPLER and others.
    """

    is_on = True

    def __init__(self, exporter: "SpanExporter | None" = None) -> None:
        """exporter None: OTLP over HTTP. Raises ImportError where the extra `otel` is not installed."""
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create()
        if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
            resource = resource.merge(Resource({SERVICE_NAME: "firstword"}))
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        else:
            self._provider.add_span_processor(SimpleSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("firstword")
        self._propagator = TraceContextTextMapPropagator()

    def start_stream(self, headers: Mapping[str, str], start_s: float) -> StreamTrace:
        from opentelemetry.trace import SpanKind

        carrier = {name: headers[name] for name in self._propagator.fields if name in headers}
        offset_ns = time.time_ns() - time.perf_counter_ns()
        span = self._tracer.start_span(
            "speech",
            context=self._propagator.extract(carrier),
            kind=SpanKind.SERVER,
            start_time=round(1e9 * start_s) + offset_ns,
        )
        return RecordedTrace(self._tracer, span, offset_ns) if span.is_recording() else NO_TRACE

    def close(self) -> None:
        self._provider.shutdown()


class RecordedTrace(StreamTrace):
    """The clock must be `time.perf_counter`, as the service's is."""

    def __init__(self, tracer: Any, span: Any, offset_ns: int) -> None:
        """span: the stream's own. offset_ns: from the clock to the time since 1970."""
        from opentelemetry.trace import set_span_in_context

        self._tracer = tracer
        self._span = span
        self._offset_ns = offset_ns
        self._context = set_span_in_context(span)

    @property
    def exemplar(self) -> dict[str, str] | None:
        return {"trace_id": f"{self._span.get_span_context().trace_id:032x}"}

    def on_event(self, event: Event) -> None:
        if not isinstance(event, Stage) or event.name not in SPANS:
            return
        span = self._tracer.start_span(
            event.name,
            context=self._context,
            start_time=self._ns(event.start_s),
            attributes=dict(event.counts),
        )
        span.end(self._ns(event.end_s))

    def end(self, end_s: float, is_error: bool, **attributes: Attribute) -> None:
        from opentelemetry.trace import StatusCode

        for name, value in attributes.items():
            if value is not None:
                self._span.set_attribute(f"tts.{name}", value)
        if is_error:
            self._span.set_status(StatusCode.ERROR)
        self._span.end(self._ns(end_s))

    def _ns(self, at_s: float) -> int:
        return round(1e9 * at_s) + self._offset_ns
