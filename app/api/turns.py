"""One turn of speech as the transports hold it: admitted by its key, opened, recorded, freed."""

from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from app.api.errors import outcome_of
from app.api.services import Services
from app.engine.interface import CancelReason, Draining, SynthesisRequest, SynthesisStream
from app.telemetry.stream_record import StreamRecord


class Turn:
    """`async with` waits for a place, opens the stream and owns it; however it is left, all is freed.

    Entering raises what `Engine.open` raises, and RateLimited.

    request.request_id need not be that of the HTTP request: a WebSocket has many turns. owner: whose key it
    is. received_s: when the request came, by the services' clock; None: when the turn is entered.
    """

    stream: SynthesisStream
    record: StreamRecord

    def __init__(
        self, services: Services, request: SynthesisRequest, owner: str, received_s: float | None = None
    ) -> None:
        self.cancel_reason: CancelReason = "shutdown"  # why, should our task be cancelled
        self._services = services
        self._request = request
        self._owner = owner
        self.received_s = received_s
        self._is_open = False

    async def __aenter__(self) -> Self:
        services = self._services
        self.record = self._new_record()
        async with AsyncExitStack() as stack:
            stack.push(self._end_record)
            stack.enter_context(services.quotas.admitted(self._owner))
            stream = await services.engine.open(self._request)
            self.stream = await stack.enter_async_context(stream)
            self._is_open = True
            self.record.named(self._request.request_id, stream.speaker)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            self.cancel(self.cancel_reason)
        await self._stack.__aexit__(kind, error, trace)

    def refuse(self, error: Exception) -> None:
        """Counts a turn that is refused before it is entered; it never will be."""
        self._new_record().end(*outcome_of(error))

    def cancel(self, reason: CancelReason) -> None:
        """Stops the stream at once; its iteration ends. Says so in the record, whatever follows."""
        self.stream.cancel(reason)
        self.record.end("cancelled", reason, self.stream.stats)

    def _new_record(self) -> StreamRecord:
        services = self._services
        return StreamRecord(services.metrics, services.clock, self._request.wire, self.received_s)

    def _end_record(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stats = self.stream.stats if self._is_open else None
        match error:
            case None:
                self.record.end("ok", None, stats)
            case Draining() if self._is_open:
                self.record.end("cancelled", "shutdown", stats)
            case Exception():
                self.record.end(*outcome_of(error), stats)
            case _:
                self.record.end("cancelled", self.cancel_reason, stats)
