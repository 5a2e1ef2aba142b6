"""Answers with a turn's audio: holds the turn while it is sent, and frees it however that ends."""

import asyncio
from collections.abc import Coroutine
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.api.payloads import AudioForm, Payload, TurnEncoder
from app.api.services import Services
from app.api.turns import Turn
from app.engine.interface import InvalidRequest, SynthesisRequest, SynthesisStream, TextTooLong


class BodyCut(Exception):
    """The audio broke off after it had begun. Nobody answers it, so that the server drops the connection."""


class ListenerTooSlow(Exception):
    """A write waited too long for the listener to read."""


@dataclass(frozen=True, slots=True)
class Speech:
    """What is to be said, and how the listener wants it."""

    text: str
    form: AudioForm
    field: str = "text"  # where the text came


class AudioResponse(Response):
    """Sends audio as it is made. Its status line waits for the first of it.

    What fails before is raised as it is, for the error handlers; what fails after cuts the body off, so that
    it never looks complete. A listener who leaves, be it while we wait for a place, for audio or for the
    socket, ends the turn at once.
    """

    media_type: str | None = None  # None: that of the audio

    def __init__(self, turn: Turn, speech: Speech, send_timeout_s: float) -> None:
        """turn: not yet entered."""
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.turn = turn
        self._speech = speech
        self._send_timeout_s = send_timeout_s
        self._has_started = False
        self._is_complete = False  # the end of the body has been handed over

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._while_connected(receive, self._hold_turn(send))
        except Exception as error:
            if not self._has_started:
                raise
            await self.break_off(error, send)

    async def deliver(self, encoder: TurnEncoder, send: Send) -> None:
        """Sends all that the encoder gives, and the end."""
        async with aclosing(encoder.payloads()) as payloads:
            async for payload in payloads:
                await self.send_audio(send, encoder, payload)
        await self.send_body(send, self.ending(), more_body=False)

    def framed(self, data: bytes) -> bytes:
        """How a payload stands in the body."""
        return data

    def ending(self) -> bytes:
        """What stands behind the last payload."""
        return b""

    async def break_off(self, error: Exception, send: Send) -> None:
        """Shows the listener that the audio is not complete."""
        raise BodyCut("the audio broke off") from error

    async def send_audio(
        self, send: Send, encoder: TurnEncoder, payload: Payload, more_body: bool = True
    ) -> None:
        """The first call sends the status line before the payload."""
        if not self._has_started:
            self._tell_headers(encoder)
            start = {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            self._has_started = True
            await self._send_in_time(send, start)
        await self.send_body(send, self.framed(payload.data), more_body)
        self.turn.record.audio_went(payload.num_samples, self._speech.form.sample_rate_hz)

    async def send_body(self, send: Send, body: bytes, more_body: bool) -> None:
        self._is_complete = not more_body
        await self._send_in_time(send, {"type": "http.response.body", "body": body, "more_body": more_body})

    def _tell_headers(self, encoder: TurnEncoder) -> None:
        self.headers["Content-Type"] = self.media_type or encoder.media_type
        self.headers["X-Sample-Rate"] = str(self._speech.form.sample_rate_hz)
        self.headers["X-Channels"] = "1"
        self.headers["Server-Timing"] = self.turn.record.server_timing(self.turn.stream.stats)

    async def _hold_turn(self, send: Send) -> None:
        async with self.turn as turn:
            self._tell_text(turn.stream)
            await self.deliver(TurnEncoder(turn, self._speech.form), send)

    def _tell_text(self, stream: SynthesisStream) -> None:
        try:
            stream.push_text(self._speech.text)
            stream.finish_text()
        except InvalidRequest as error:
            if error.param == "text":
                error.param = self._speech.field
            raise

    async def _send_in_time(self, send: Send, message: Message) -> None:
        try:
            async with asyncio.timeout(self._send_timeout_s):
                await send(message)
                # A write to somebody who left returns at once; let the one who watches for that run.
                await asyncio.sleep(0)
        except TimeoutError:
            self.turn.cancel("slow_listener")
            raise ListenerTooSlow(f"a write took longer than {self._send_timeout_s:g} s") from None

    async def _while_connected(self, receive: Receive, work: Coroutine[None, None, None]) -> None:
        """Runs `work` to its end, or until the listener leaves. A server may not fail writes to who left."""
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if self._is_complete:  # a server says "disconnect" then, though nobody has left
                await asyncio.wait((working,))
            elif leaving.done():
                self.turn.cancel_reason = "disconnect"
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled():
            working.result()


class CompleteAudioResponse(AudioResponse):
    """Sends all of the audio at once, with its length and with true sizes in its header."""

    async def deliver(self, encoder: TurnEncoder, send: Send) -> None:
        payload = await encoder.whole()
        self.headers["Content-Length"] = str(len(payload.data))
        await self.send_audio(send, encoder, payload, more_body=False)


def answer_with(
    kind: type[AudioResponse],
    http: Request,
    services: Services,
    request: SynthesisRequest,
    speech: Speech,
) -> AudioResponse:
    """What a route returns. Raises TextTooLong here, so that such a text need not wait for a place."""
    turn = Turn(services, request, http.state.key_owner, http.state.received_s)
    try:
        services.engine.info.check_length(len(speech.text), speech.field)
    except TextTooLong as error:
        turn.refuse(error)
        raise
    return kind(turn, speech, services.limits.send_timeout_s)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
