"""The account of one client's stream: quota, trace, metrics and log, whatever surface it came over."""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from firstword.app.core.interface import SynthesisStream
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import CancelReason, Draining
from firstword.app.events import StreamEvents
from firstword.app.http.errors import outcome_of
from firstword.app.http.service import Service
from firstword.app.telemetry.stream_record import StreamRecord
from firstword.app.telemetry.stream_stats import StreamStats
from firstword.app.telemetry.tracing import StreamTrace


class StreamSession:
    """A stream of the engine and its account; it has no state of its own beside theirs.

    `async with` enters the stream, which waits for a slot; however it is left, everything is freed. Entering
    raises what `Engine.open` and its stream's entering raise, and RateLimited.
    """

    def __init__(
        self,
        service: Service,
        request: SynthesisRequest,
        received_s: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """received_s: when the request came, by the service's clock; None: when the session is entered.
        headers: of the request or of the WebSocket's upgrade."""
        self.cancel_reason: CancelReason = "shutdown"  # why, should our task be cancelled
        self.received_s = received_s
        self.provenance = service.provenance
        self._service = service
        self._request = request
        self._headers = headers or {}
        self._first_text_s: float | None = None  # of text that comes in pieces
        self._traced: tuple[StreamTrace, StreamEvents] | None = None  # None: nothing has happened yet
        self._record: StreamRecord | None = None  # None: not entered
        self._stream: SynthesisStream | None = None  # None: not open yet
        self._stats: StreamStats | None = None  # of the stream; None: not admitted
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        service, request = self._service, self._request
        self._record = self._new_record()
        async with AsyncExitStack() as stack:
            stack.enter_context(self._recorded())
            if not request.delivery.is_background:  # a batch was one request, when it came
                stack.enter_context(service.quotas.admitted(request.client.name))
            stream = await stack.enter_async_context(self.stream)
            self._stats = stream.stats
            self._record.named(request.request_id, stream.speaker)
            self._resources = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            self.cancel(self.cancel_reason)
        await self._resources.__aexit__(kind, error, trace)

    @property
    def is_admitted(self) -> bool:
        """True if its stream has, or had, a slot."""
        return self._stats is not None

    @property
    def stream(self) -> SynthesisStream:
        """The engine's stream, opened by the first use, which may be before the session is entered: it takes
        text from then on.

        Raises what `Engine.open` raises.
        """
        if self._stream is None:
            _, events = self._trace()
            self._stream = self._service.engine.open(self._request, events)
        return self._stream

    @property
    def record(self) -> StreamRecord:
        assert self._record is not None, "the session has not been entered"
        return self._record

    def text_came(self) -> None:
        """Note the first text of a stream whose text comes in pieces; the first call counts."""
        if self._first_text_s is None:
            self._first_text_s = self._service.clock()
            if self._record is not None:
                self._record.text_came(self._first_text_s)

    def cancel(self, reason: CancelReason) -> None:
        """Stop the stream at once, which ends its iteration, and record why."""
        if self._stream is not None:
            self._stream.cancel(reason)
        self.record.end("cancelled", reason, self._stats)

    def record_failure(self, error: BaseException) -> None:
        """Record that `error` ended the stream, entered or not; the first cause counts."""
        record = self._new_record() if self._record is None else self._record
        match error:
            case Draining() if self.is_admitted:
                record.end("cancelled", "shutdown", self._stats)
            case Exception():
                record.end(*outcome_of(error), self._stats)
            case _:
                record.end("cancelled", self.cancel_reason, self._stats)

    def _trace(self) -> tuple[StreamTrace, StreamEvents]:
        """Return the trace, begun by the first call, and the events that it subscribes to."""
        if self._traced is None:
            service = self._service
            start_s = service.clock() if self.received_s is None else self.received_s
            trace = service.tracing.start_stream(self._headers, start_s)
            events = StreamEvents(service.clock, service.metrics.on_event, trace.on_event)
            self._traced = trace, events
        return self._traced

    def _new_record(self) -> StreamRecord:
        service, request = self._service, self._request
        trace, events = self._trace()
        record = StreamRecord(
            service.metrics,
            events,
            request.wire,
            self.received_s,
            request.delivery.is_played,
            trace,
            on_used=partial(service.usage.count, request.client.name),
        )
        if self._first_text_s is not None:
            record.text_came(self._first_text_s)
        return record

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.record_failure(error)
            raise
        self.record.end("ok", None, self._stats)
