"""The door of gRPC: who comes in is asked before a message is read, and what is read has bounds."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from firstword.app.errors import InvalidRequest, StreamTimeout
from firstword.app.http import connection_limits as limits
from firstword.app.http.connection_limits import Places, Readers
from firstword.app.http.errors import rejections_counted
from firstword.app.http.routes import Guard
from firstword.app.http.rpc.call import Call, abort
from firstword.app.http.rpc.fields import LARGE_MESSAGE_BYTES, MAX_FIELDS, has_too_many_fields
from firstword.app.http.rpc.messages import POOL, handler_of, message
from firstword.app.http.service import Service
from firstword.app.http.surface import RpcMethod, RpcServices

Sent = AsyncIterator[bytes]
"""The messages of a call, each received when it is asked for."""


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of calls that end with their answer, of those that go on, and of messages being received.

    A client has a part of each, so that others come in.
    """

    calls: Places
    streams: Places
    readers: Readers


class Door:
    """All methods of a server, and the limits that their calls share."""

    def __init__(self, service: Service, services: RpcServices) -> None:
        self.guards: Mapping[str, Guard] = {
            f"/{name}/{method}": declared.guard
            for name, methods in services.items()
            for method, declared in methods.items()
        }
        """What each method declares, by its path."""
        given = service.limits
        self.max_message_bytes = max(guard.body(given).max_bytes for guard in self.guards.values())
        self._service = service
        self._services = services
        num_readers = limits.num_quick_readers(given.max_bodies_bytes, self.max_message_bytes)
        num_streams = limits.max_stream_calls(service.engine.max_streams)
        self._known = _Places(
            Places(limits.MAX_CALLS, limits.PART_OF_CALLS),
            Places(num_streams, limits.PART_OF_CALLS),
            Readers(num_readers, service.bounds.held, self.max_message_bytes),
        )
        self._strangers = _Places(
            Places(limits.MAX_PUBLIC_CALLS, limits.PART_OF_PUBLIC_CALLS),
            Places(limits.MAX_PUBLIC_CALLS, limits.PART_OF_PUBLIC_CALLS),
            Readers(limits.NUM_PUBLIC_READERS, None, self.max_message_bytes, service.bounds.freed.note),
        )

    def handlers(self) -> tuple[grpc.GenericRpcHandler, ...]:
        """Return what the server is given for each service."""
        handlers = []
        for service, methods in self._services.items():
            described = POOL.FindServiceByName(service).methods_by_name
            entries = {name: self._entry(method, described[name]).enter for name, method in methods.items()}
            handlers.append(handler_of(service, entries))
        return tuple(handlers)

    def _entry(self, method: RpcMethod, described: Any) -> "_Entry":
        is_public = method.guard.scope == "public"
        return _Entry(self._service, method, described, self._strangers if is_public else self._known)


class _Entry:
    """How calls of one method come in."""

    def __init__(self, service: Service, method: RpcMethod, described: Any, places: _Places) -> None:
        """described: the method's descriptor."""
        self._service = service
        self._method = method
        self._is_public = method.guard.scope == "public"
        self._takes_many = described.client_streaming
        # A health watch is answered as long as it is open; speech ends, and has the engine's slots.
        self._goes_on = self._takes_many or (self._is_public and described.server_streaming)
        self._message = message(described.input_type.full_name)
        self._limit = method.guard.body(service.limits)
        self._places = places

    async def enter(self, sent: Sent, context: Any) -> Any:
        """Handle one call. What is raised becomes its status."""
        try:
            call = Call(self._service, context)
            async with AsyncExitStack() as stack:
                with rejections_counted(self._service.metrics):
                    await call.authenticate(self._method.guard)
                    await stack.enter_async_context(self._place(call))
                stack.enter_context(call.until_answered)
                await stack.enter_async_context(call.within_deadline())
                if not self._takes_many:
                    return await self._method.handler(await self._only(sent, call), call)
                messages = await stack.enter_async_context(aclosing(self._each(sent, call)))
                return await self._method.handler(messages, call)
        except Exception as error:
            await abort(context, error)

    def _place(self, call: Call) -> Any:
        if self._goes_on:
            return self._places.streams.place_now(call.caller, "streaming calls")
        return self._places.calls.place_now(call.caller, "calls")

    async def _only(self, sent: Sent, call: Call) -> Any:
        """Return the one message. Raise StreamTimeout, InvalidRequest, Overloaded, the limit's error."""
        timeout_s = self._service.limits.body_timeout_s  # with the wait for its turn
        message_timeout_s = limits.PUBLIC_MESSAGE_TIMEOUT_S if self._is_public else timeout_s
        try:
            async with asyncio.timeout(timeout_s) as timer:
                data = await self._places.readers.receive(lambda: _next(sent, message_timeout_s), call.caller)
        except TimeoutError:
            if not timer.expired():
                raise
            raise StreamTimeout(
                f"the message took longer than {timeout_s:g} s with the wait for its turn; send it faster, "
                "and fewer at once"
            ) from None
        if data is None:
            raise InvalidRequest("the call ended without a message; send one")
        with rejections_counted(self._service.metrics):
            call.until_answered.enter_context(self._service.bounds.held.held(call.caller, len(data)))
            return self._decoded(data)

    async def _each(self, sent: Sent, call: Call) -> AsyncGenerator[Any]:
        """Yield one message after the other, for as long as the key of the call is good.

        Raise InvalidApiKey, StreamTimeout where nothing is sent or spoken, and what `_only` raises.
        """
        timeout_s = self._service.limits.idle_timeout_s
        rest = aiter(sent)
        while True:
            try:
                async with asyncio.timeout(timeout_s) as timer:
                    call.idle_timer = timer
                    data = await anext(rest, None)
            except TimeoutError:
                if not timer.expired():
                    raise
                raise StreamTimeout(f"nothing came or was spoken for {timeout_s:g} s; end the call") from None
            finally:
                call.idle_timer = None
            if data is None:
                return
            held = self._service.bounds.held.held(call.caller, len(data))
            with rejections_counted(self._service.metrics), held:
                if not self._is_public:
                    await call.check_key()
                decoded = self._decoded(data)
                del data
                yield decoded

    def _decoded(self, data: bytes) -> Any:
        if len(data) > self._limit.max_bytes:
            raise self._limit.error()
        if len(data) > LARGE_MESSAGE_BYTES and has_too_many_fields(data, self._message.DESCRIPTOR):
            raise InvalidRequest(f"the message has more than {MAX_FIELDS} fields; send fewer")
        try:
            return self._message.FromString(data)
        except DecodeError:
            name = self._message.DESCRIPTOR.full_name
            raise InvalidRequest(f"{len(data)} bytes came that are no {name}; send one") from None


async def _next(sent: Sent, timeout_s: float) -> bytes | None:
    """Return the next message; None: there is no more. Raise StreamTimeout."""
    coming = asyncio.ensure_future(anext(aiter(sent), None))
    try:
        # A loop that stood still runs its timers before what has come reaches who waits for it.
        for seconds in (timeout_s, limits.READ_WITHIN_S):
            if (await asyncio.wait((coming,), timeout=seconds))[0]:
                return await coming
        raise StreamTimeout(f"the message took longer than {timeout_s:g} s; send it faster")
    finally:
        coming.cancel()
