"""One stream of a client, used by every surface: quota, admission, the engine's stream and its record."""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from firstword.app.core.interface import SynthesisRequest, SynthesisStream
from firstword.app.errors import CancelReason, Draining
from firstword.app.http.errors import outcome_of
from firstword.app.http.service import Service
from firstword.app.telemetry.stream_record import StreamRecord, StreamStats


class StreamSession:
    """One stream of a client: admission, the engine's stream and its record, used by HTTP and WebSocket.

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
        self._service = service
        self._request = request
        self._headers = headers or {}
        self._is_traced = False
        self._first_text_s: float | None = None  # of text that comes in pieces
        self._record: StreamRecord | None = None  # None: not entered
        self._stream: SynthesisStream | None = None  # None: not open yet
        self._stats: StreamStats | None = None  # of the stream; None: not admitted
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        service = self._service
        self._record = self._new_record()
        async with AsyncExitStack() as stack:
            stack.enter_context(self._recorded())
            if not self._request.is_background:  # a batch was one request, when it came
                stack.enter_context(service.quotas.admitted(self._request.client.name))
            stream = await stack.enter_async_context(self.stream)
            self._stats = stream.stats
            self._record.named(self._request.request_id, stream.speaker)
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
        """Whether its stream has, or had, a slot."""
        return self._stats is not None

    @property
    def stream(self) -> SynthesisStream:
        """Opened by the first use, which may be before the session is entered: it takes text from then on.

        Raises what `Engine.open` raises.
        """
        if self._stream is None:
            self._stream = self._service.engine.open(self._traced_request())
        return self._stream

    @property
    def record(self) -> StreamRecord:
        assert self._record is not None, "the session has not been entered"
        return self._record

    def text_came(self) -> None:
        """For a stream whose text comes in pieces; the first call counts."""
        if self._first_text_s is None:
            self._first_text_s = self._service.clock()
            if self._record is not None:
                self._record.text_came(self._first_text_s)

    def cancel(self, reason: CancelReason) -> None:
        """Stop the stream at once, which ends its iteration, and record why."""
        self.stream.cancel(reason)
        self.record.end("cancelled", reason, self.stream.stats)

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

    def _traced_request(self) -> SynthesisRequest:
        """Begin the trace at the first call."""
        service = self._service
        if service.tracing.is_on and not self._is_traced:
            self._is_traced = True
            start_s = service.clock() if self.received_s is None else self.received_s
            trace = service.tracing.start_stream(self._headers, start_s)
            self._request = replace(self._request, trace=trace)
        return self._request

    def _new_record(self) -> StreamRecord:
        service, request = self._service, self._traced_request()
        record = StreamRecord(
            service.metrics,
            service.clock,
            request.wire,
            self.received_s,
            request.is_played,
            request.trace,
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
