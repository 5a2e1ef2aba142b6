"""One WebSocket connection: its contexts, limits and close.

`WS /tts/stream`: text in while audio comes out, many contexts on one socket.
"""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.types import Message as AsgiMessage
from starlette.websockets import WebSocket, WebSocketDisconnect

from firstword.app.api.dependencies import Services, services_of
from firstword.app.api.errors import INTERNAL, row_of
from firstword.app.api.ws.context import Context
from firstword.app.api.ws.messages import (
    Cancel,
    ClientMessage,
    Closing,
    End,
    Failed,
    Flush,
    Outbox,
    Ping,
    Pong,
    Start,
    Text,
    addressee,
    parsed,
)
from firstword.app.errors import CancelReason, InvalidRequest

GOING_AWAY, RESTARTING = 1001, 1012  # close codes, RFC 6455 and its registry
CLOSE_TIMEOUT_S = 5.0  # for the last messages to go out

logger = logging.getLogger(__name__)
router = APIRouter()


@router.websocket("/tts/stream")
async def stream(websocket: WebSocket) -> None:
    """Who has no key has been refused at the upgrade, before this."""
    services = services_of(websocket)
    await websocket.accept()
    with services.metrics.ws_connections.track_inprogress():
        await Session(websocket, services, websocket.state.key_owner).run()


class OutOfTurn(InvalidRequest):
    """A message that does not fit where its context stands; the context goes on as if it had not come."""


class Over(Exception):
    """Ends the tasks of a socket."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a socket ends. closing None: the client is gone, or does not read."""

    reason: CancelReason
    closing: Closing | None = None


class Session:
    """One socket: a reader that never waits for speech, a writer, and a task for each context.

    An error message that bears a context ends that context, except one for a message out of turn. Where an
    error closes the socket, the contexts that are still speaking end first, and no new one begins.
    """

    def __init__(self, websocket: WebSocket, services: Services, owner: str) -> None:
        """owner: whose key it is."""
        self._websocket = websocket
        self._services = services
        self._limits = services.limits
        self._owner = owner
        self._outbox = Outbox(websocket, services.limits.send_timeout_s, wrote=self._stir)
        self._contexts: dict[str, Context] = {}
        # Contexts that ended in an error while their client was still sending: what is under way for them
        # must not begin a new one that speaks with the default voice.
        self._failed: deque[str] = deque(maxlen=services.limits.max_contexts)
        self._closing: Closing | None = None  # how, once its contexts have ended
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._patience: asyncio.Timeout | None = None

    async def run(self) -> None:
        """Until either side leaves. Being cancelled means that the server stops."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                writing = tasks.create_task(self._write())
                reading = tasks.create_task(self._read())
                ending = await self._ended()
                reading.cancel()
                for context in self._contexts.values():
                    context.stop(ending.reason)
                if ending.closing is not None:
                    await self._close(ending.closing, writing)
                raise Over
        except* Over:
            pass  # all tasks have been cancelled

    async def _ended(self) -> Ending:
        idle_s = self._limits.idle_timeout_s
        try:
            async with asyncio.timeout(idle_s) as self._patience:
                return await self._ending
        except TimeoutError:
            return Ending("timeout", Closing(GOING_AWAY, f"nothing came or went for {idle_s:g} s"))
        finally:
            self._patience = None

    async def _close(self, closing: Closing, writing: asyncio.Task[None]) -> None:
        """A client that does not read gets no last word."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._outbox.post(closing)
                await writing
        except TimeoutError:
            logger.info("a client did not take the last messages")

    def _end(self, ending: Ending) -> None:
        """The first one counts."""
        if not self._ending.done():
            self._ending.set_result(ending)

    def _stir(self) -> None:
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time() + self._limits.idle_timeout_s)

    async def _write(self) -> None:
        try:
            await self._outbox.run()
        except TimeoutError:
            self._end(Ending("slow_listener"))
        except WebSocketDisconnect:
            self._end(Ending("disconnect"))

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] == "websocket.receive":
            self._stir()
            await self._take(message)
            await asyncio.sleep(0)  # a burst of messages lets others run in between
        is_shutdown = message.get("code") == RESTARTING
        self._end(Ending("shutdown" if is_shutdown else "disconnect"))

    async def _take(self, message: AsgiMessage) -> None:
        raw: str | None = message.get("text")
        try:
            if raw is None:
                raise InvalidRequest("A binary message came; send JSON as a text message.")
            await self._obey(parsed(raw))
        except Exception as error:
            await self._refuse(raw, error)

    async def _obey(self, message: ClientMessage) -> None:
        match message:
            case Ping():
                await self._outbox.post(Pong())
            case Start():
                self._start(message, is_explicit=True)
            case Text():
                self._spoken_to(message.context).push_text(message.text)
            case Flush():
                self._listening(message.context).flush()
            case End():
                self._listening(message.context).end_text()
            case Cancel():
                await self._cancel(message.context)

    def _start(self, start: Start, is_explicit: bool) -> Context:
        if start.context in self._contexts:
            raise OutOfTurn(f"{_named(start.context)} is still open; cancel it first.", "context")
        if self._closing is not None:
            raise OutOfTurn("This socket closes when its contexts have ended; open another one.")
        if len(self._contexts) >= self._limits.max_contexts:
            raise InvalidRequest(
                f"{len(self._contexts)} contexts are open on this socket, which is the limit; "
                "wait for one to end, or cancel one.",
                "context",
            )
        context = Context(start, self._services, self._owner, self._outbox, is_explicit)
        self._forgive(context.id)
        self._contexts[context.id] = context
        context.task = self._tasks.create_task(self._run(context))
        return context

    def _spoken_to(self, context_id: str) -> Context:
        """The context that a text is for, begun with the defaults if it is new."""
        if context_id in self._contexts:
            return self._listening(context_id)
        if context_id in self._failed:
            raise OutOfTurn(f"{_named(context_id)} ended in an error; send `start` for a new one.", "context")
        return self._start(Start.model_validate({"context": context_id}), is_explicit=False)

    async def _cancel(self, context_id: str) -> None:
        cancelled = self._open(context_id).stop("client_cancel")
        del self._contexts[context_id]
        await self._outbox.post(cancelled)
        self._leave_if_silent()

    def _listening(self, context_id: str) -> Context:
        context = self._open(context_id)
        if context.has_all_text:
            raise OutOfTurn(
                f"`end` has come for {_named(context_id)}, which speaks on; use another context.", "context"
            )
        return context

    def _open(self, context_id: str) -> Context:
        context = self._contexts.get(context_id)
        if context is None:
            raise OutOfTurn(f"{_named(context_id)} is not open; send `start` or `text` first.", "context")
        return context

    async def _run(self, context: Context) -> None:
        """The task of one context. Whatever happens in it ends no other."""
        try:
            with self._services.metrics.ws_contexts.track_inprogress():
                await context.run(over=lambda: self._forget(context))
        except Exception as error:
            if self._contexts.get(context.id) is context:
                await self._fail(context.id, error, context.needs_start)

    async def _refuse(self, raw: str | None, error: Exception) -> None:
        """Says that a message could not be obeyed, and ends the context that it was for."""
        kind, context_id = (None, None) if raw is None else addressee(raw)
        if isinstance(error, OutOfTurn):
            if kind in ("end", "cancel"):
                self._forgive(context_id)
            await self._outbox.post(Failed.of(context_id, error))
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
            self._contexts.pop(context_id, None)
            self._forgive(context_id)
            if needs_start:
                self._failed.append(context_id)
        row = row_of(error)
        if row is INTERNAL:
            logger.error("a context failed", exc_info=error)
        if row.close_code is not None and self._closing is None:
            self._closing = Closing(row.close_code, row.code)
        await self._outbox.post(Failed.of(context_id, error))
        self._leave_if_silent()

    def _forget(self, context: Context) -> None:
        if self._contexts.get(context.id) is context:
            del self._contexts[context.id]
            self._leave_if_silent()

    def _forgive(self, context_id: str | None) -> None:
        if context_id is not None and context_id in self._failed:
            self._failed.remove(context_id)

    def _leave_if_silent(self) -> None:
        if self._closing is not None and not self._contexts:
            self._end(Ending("disconnect", self._closing))


def _named(context_id: str) -> str:
    return f"Context {context_id!r}"
