"""One WebSocket connection at `/tts/stream`: its contexts, limits and close."""

import asyncio
import logging
from collections import deque
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.websockets import WebSocket, WebSocketDisconnect

from firstword.app.clients import Client
from firstword.app.errors import CancelReason, InvalidRequest, Overloaded, UpgradeRequired
from firstword.app.http.connection_limits import caller_of
from firstword.app.http.context import CANCEL_AFTER_DONE_S, Context, Peer
from firstword.app.http.context_messages import NOTHING_SPOKEN, Done, Start
from firstword.app.http.errors import INTERNAL, count_rejection, error_response, row_of
from firstword.app.http.routes import Guard
from firstword.app.http.schemas import ERROR_ANSWERS
from firstword.app.http.service import Service, service_of
from firstword.app.http.streaming import SYNTHETIC
from firstword.app.http.surface import HttpSurface
from firstword.app.speakers.interface import SentRecording
from firstword.app.surfaces.websocket.asyncapi import describe_websocket
from firstword.app.surfaces.websocket.messages import (
    Cancel,
    ClientMessage,
    Close,
    End,
    ErrorMessage,
    Flush,
    Ping,
    Pong,
    SendQueue,
    Text,
    parse_message,
    peek_type_and_context,
)

GOING_AWAY = 1001  # close codes, RFC 6455 and its registry
TOO_BIG = 1009
RESTARTING = 1012
CLOSE_TIMEOUT_S = 5.0  # for the last messages to go out
MAX_ENDED_CONTEXTS = 64  # remembered, as messages for them may be under way

logger = logging.getLogger(__name__)
router = APIRouter()


@router.websocket("/tts/stream")
@Guard("speak", in_address="key")
async def stream(websocket: WebSocket) -> None:
    """A client without a key has been refused at the upgrade, before this."""
    service = service_of(websocket)
    address = websocket.client
    caller = caller_of(websocket.state.client.name, "" if address is None else address.host)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(service.bounds.sockets.place_now(caller, "WebSockets"))
        except Overloaded as error:
            count_rejection(service.metrics, error)
            refuse = error_response(error, websocket.scope)
            await refuse(websocket.scope, websocket.receive, websocket.send)
            return
        await websocket.accept(headers=[(SYNTHETIC.lower().encode(), b"true")])
        stack.enter_context(service.metrics.ws_connections.track_inprogress())
        await WebSocketSession(websocket, service, websocket.state.client, caller).run()


@router.get("/tts/stream", include_in_schema=False)
@Guard("any key")
async def stream_without_upgrade() -> None:
    raise UpgradeRequired("this path is a WebSocket; connect with ws:// or wss://, or POST the text to /tts")


@router.get("/asyncapi.json", tags=["operations"], responses=ERROR_ANSWERS)
@Guard("any key")
async def asyncapi(request: Request) -> dict[str, Any]:
    """Describe the WebSocket `/tts/stream` as an AsyncAPI 3.0 document."""
    return describe_websocket(request.app.version)


surface = HttpSurface("websocket", router.routes)


class UnexpectedMessage(InvalidRequest):
    """A message that does not fit the state of its context, which goes on as if it had not come."""


class _StopTasks(Exception):
    """Raised inside the TaskGroup of a socket to cancel its other tasks."""


@dataclass(frozen=True, slots=True)
class _End:
    """Why a socket ends. close None: the client is gone, or does not read."""

    reason: CancelReason
    close: Close | None = None


class WebSocketSession:
    """One socket: a reader that never waits for speech, a writer, and a task for each context.

    A fatal error message ends its context. Where an error closes the socket, the contexts that are still
    speaking end first, and no new one begins.
    """

    def __init__(self, websocket: WebSocket, service: Service, client: Client, caller: str) -> None:
        """caller: the client, or its address, as whose uploads its recordings count."""
        limits = service.limits
        self._websocket = websocket
        self._service = service
        self._limits = limits
        self._client = client
        self._caller = caller
        self._send_queue = SendQueue(websocket, limits.slow_listener_timeout_s, after_write=self._touch)
        self._tasks = asyncio.TaskGroup()
        self._contexts: dict[str, Context] = {}
        # Contexts that ended in an error while their client was still sending: messages under way for them
        # must not begin a new one that speaks with the default voice.
        self._failed: deque[str] = deque(maxlen=limits.max_contexts)
        # A flush or end for them, or a late cancel, crossed their last message and is answered by nothing.
        self._ended: deque[str] = deque(maxlen=MAX_ENDED_CONTEXTS)
        # Contexts that are done, the last ones of a minute: a cancel of them is answered, as all is sent long
        # before it has been played.
        self._done: dict[str, tuple[Context, asyncio.TimerHandle]] = {}
        self._close_when_empty: Close | None = None  # how to close once the contexts have ended
        self._end: asyncio.Future[_End] = asyncio.get_running_loop().create_future()
        self._idle_timer: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Serve until either side leaves. Being cancelled means that the server stops.

        `_StopTasks` is raised in the TaskGroup at the end: it cancels what still runs and waits for it.
        """
        try:
            async with self._tasks as tasks:
                writing = tasks.create_task(self._write())
                reading = tasks.create_task(self._read())
                end = await self._wait_for_end()
                reading.cancel()
                for context in self._contexts.values():
                    context.cancel(end.reason)
                if end.close is not None:
                    await self._send_close(end.close, writing)
                raise _StopTasks
        except* _StopTasks:
            pass
        finally:
            for context_id in list(self._done):
                self._take_done(context_id)

    async def _wait_for_end(self) -> _End:
        idle_timeout_s = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(idle_timeout_s) as self._idle_timer:
                return await self._end
        except TimeoutError:
            return _End("timeout", Close(GOING_AWAY, f"no message for {idle_timeout_s:g} s"))
        finally:
            self._idle_timer = None

    async def _send_close(self, close: Close, writing: asyncio.Task[None]) -> None:
        """Nothing is sent to a client that does not read."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._send_queue.post(close)
                await writing
        except TimeoutError:
            logger.info("a client did not read the last messages of its socket")

    def _end_socket(self, end: _End) -> None:
        """The first call counts."""
        if not self._end.done():
            self._end.set_result(end)

    def _end_if_empty(self) -> None:
        if self._close_when_empty is not None and not self._contexts:
            self._end_socket(_End("disconnect", self._close_when_empty))

    def _touch(self) -> None:
        """Restart the idle timeout."""
        if self._idle_timer is not None and not self._idle_timer.expired():
            self._idle_timer.reschedule(asyncio.get_running_loop().time() + self._limits.idle_timeout_s)

    async def _write(self) -> None:
        try:
            await self._send_queue.run()
        except TimeoutError:
            self._end_socket(_End("slow_listener"))
        except WebSocketDisconnect:
            self._end_socket(_End("disconnect"))

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            self._touch()
            raw: str | None = message.get("text")
            if raw is not None and len(raw) > self._limits.max_message_bytes:
                self._end_socket(_End("client_cancel", Close(TOO_BIG, "the message is too long")))
                return
            try:
                if raw is None:
                    await self._take_recording(message["bytes"])
                else:
                    await self._handle(parse_message(raw))
            except Exception as error:
                await self._refuse(raw, error)
            await asyncio.sleep(0)  # a burst of messages lets others run in between
        is_shutdown = message.get("code") == RESTARTING
        self._end_socket(_End("shutdown" if is_shutdown else "disconnect"))

    async def _take_recording(self, part: bytes) -> None:
        """Give a binary message to the context that waits for it, of which there is one at most."""
        context = next((one for one in self._contexts.values() if one.takes_recording), None)
        if context is None:
            raise InvalidRequest(
                "a binary message came, and no context waits for one; send JSON in a text message, and a "
                "recording only behind a `start` with `reference_bytes`"
            )
        try:
            context.push_recording(part)
        except InvalidRequest as error:
            context.fail(error)
            await self._fail(context.id, error, needs_start=True)

    async def _handle(self, message: ClientMessage) -> None:
        if isinstance(message, Start | Text):
            await self._service.auth.check_again(self._client)
        match message:
            case Ping():
                await self._send_queue.post(Pong())
            case Start(reference_bytes=None):
                reference = await message.reference(self._limits.max_reference_bytes)
                self._start(message, is_explicit=True, reference=reference)
            case Start():
                self._start(message, is_explicit=True)
            case Text():
                self._context_for_text(message.context).push_text(message.text)
            case Cancel():
                await self._cancel(message)
            case Flush() | End() if self._has_ended(message.context):
                if isinstance(message, End):
                    self._clear_failed(message.context)
            case Flush() | End() if message.context not in self._contexts:
                await self._send_queue.post(Done(context=message.context, stats=NOTHING_SPOKEN))
            case Flush():
                self._taking_text(message.context).flush()
            case End():
                self._taking_text(message.context).end_text()

    async def _cancel(self, message: Cancel) -> None:
        if (done := self._take_done(message.context)) is not None:
            await self._send_queue.post(done.cancelled(message.played_ms))
        elif self._has_ended(message.context):
            self._clear_failed(message.context)
        else:
            cancelled = self._get(message.context).cancel("client_cancel", message.played_ms)
            self._remove(message.context)
            await self._send_queue.post(cancelled)
            self._end_if_empty()

    def _start(self, start: Start, is_explicit: bool, reference: SentRecording | None = None) -> Context:
        if start.reference_bytes and start.reference_audio is not None:
            raise InvalidRequest(
                "reference_audio and reference_bytes were both given; give one", "reference_bytes"
            )
        if start.context in self._contexts:
            raise UnexpectedMessage(f"context {start.context!r} is still open; cancel it first", "context")
        if self._close_when_empty is not None:
            raise UnexpectedMessage("this socket closes once its contexts have ended; open another one")
        if len(self._contexts) >= self._limits.max_contexts:
            raise InvalidRequest(
                f"{len(self._contexts)} contexts are open on this socket, which is the limit; "
                "wait for one to end, or cancel one",
                "context",
            )
        if start.reference_bytes and any(one.takes_recording for one in self._contexts.values()):
            raise InvalidRequest(
                "the recording of another context is still to come; send it before the next",
                "reference_bytes",
            )
        peer = Peer(self._client, "websocket", self._websocket.headers, self._caller)
        context = Context(start, self._service, peer, self._send_queue, is_explicit, reference)
        self._clear_failed(context.id)
        self._contexts[context.id] = context
        self._take_done(context.id)
        context.task = self._tasks.create_task(self._run(context))
        return context

    def _context_for_text(self, context_id: str) -> Context:
        """Return the context that a text is for; a new one is begun with the defaults."""
        if context_id in self._contexts:
            return self._taking_text(context_id)
        if context_id in self._failed:
            raise UnexpectedMessage(
                f"context {context_id!r} ended in an error; send `start` for a new one", "context"
            )
        return self._start(Start.model_validate({"context": context_id}), is_explicit=False)

    def _taking_text(self, context_id: str) -> Context:
        context = self._get(context_id)
        if not context.takes_text:
            raise UnexpectedMessage(
                f"`end` was already sent for context {context_id!r}; use another context", "context"
            )
        return context

    def _has_ended(self, context_id: str) -> bool:
        return context_id not in self._contexts and context_id in self._ended

    def _remove(self, context_id: str) -> None:
        if self._contexts.pop(context_id, None) is not None and context_id not in self._ended:
            self._ended.append(context_id)

    def _keep_done(self, context: Context) -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(CANCEL_AFTER_DONE_S, self._take_done, context.id)
        self._done[context.id] = context, timer
        if len(self._done) > self._limits.max_contexts:
            self._take_done(next(iter(self._done)))

    def _take_done(self, context_id: str) -> Context | None:
        """Return a context that is done and forget it; a timer that goes on would keep it alive."""
        if context_id not in self._done:
            return None
        context, timer = self._done.pop(context_id)
        timer.cancel()
        return context

    def _get(self, context_id: str) -> Context:
        context = self._contexts.get(context_id)
        if context is None:
            raise UnexpectedMessage(
                f"context {context_id!r} is not open; send `start` or `text` first", "context"
            )
        return context

    async def _run(self, context: Context) -> None:
        """The task of one context. Whatever happens in it ends no other."""

        def remove() -> None:
            if self._contexts.get(context.id) is context:
                self._remove(context.id)
                self._keep_done(context)
                self._end_if_empty()

        try:
            with self._service.metrics.ws_contexts.track_inprogress():
                await context.run(on_done=remove)
        except Exception as error:
            if self._contexts.get(context.id) is context:
                await self._fail(context.id, error, context.needs_start)

    async def _refuse(self, raw: str | None, error: Exception) -> None:
        """Answer a message that could not be handled, and end the context that it was for."""
        kind, context_id = (None, None) if raw is None else peek_type_and_context(raw)
        if isinstance(error, UnexpectedMessage):
            await self._send_queue.post(ErrorMessage.of(context_id, error, is_fatal=False))
            return
        needs_start = kind == "start"
        if context_id in self._contexts:
            context = self._contexts[context_id]
            context.fail(error)
            needs_start |= context.needs_start
        await self._fail(context_id, error, needs_start)

    async def _fail(self, context_id: str | None, error: Exception, needs_start: bool) -> None:
        """needs_start: the client may have more under way that belongs to the `start` it sent."""
        if context_id is not None:
            self._remove(context_id)
            self._clear_failed(context_id)
            if needs_start:
                self._failed.append(context_id)
                self._ended.append(context_id)
        row = row_of(error)
        if row is INTERNAL:
            logger.error("a context failed", exc_info=error)
        if row.close_code is not None and self._close_when_empty is None:
            self._close_when_empty = Close(row.close_code, row.code)
        await self._send_queue.post(ErrorMessage.of(context_id, error, is_fatal=context_id is not None))
        self._end_if_empty()

    def _clear_failed(self, context_id: str | None) -> None:
        if context_id is not None and context_id in self._failed:
            self._failed.remove(context_id)
