"""The service `firstword.v1.Speech`: whole texts, texts in pieces, speakers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

from firstword.app.errors import InvalidRequest, StreamTimeout, TtsError
from firstword.app.http import context_messages as ws
from firstword.app.http.context import CANCEL_AFTER_DONE_S, Context, Peer
from firstword.app.http.errors import rejections_counted
from firstword.app.http.limits import check_upload, upload_body
from firstword.app.http.routes import Guard
from firstword.app.http.rpc.call import Call
from firstword.app.http.rpc.messages import message
from firstword.app.http.schemas import SpeechBody, SpokenWord, validated
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.http.spoken import SpokenAudio
from firstword.app.http.streaming import resolve_output_format
from firstword.app.http.surface import RpcMethod
from firstword.app.speakers.interface import KnownSpeaker, SentRecording

SpeechEvent = message("firstword.v1.SpeechEvent")
Started = message("firstword.v1.Started")
Audio = message("firstword.v1.Audio")
Flushed = message("firstword.v1.Flushed")
Done = message("firstword.v1.Done")
Cancelled = message("firstword.v1.Cancelled")
Speaker = message("firstword.v1.Speaker")
ListSpeakersResponse = message("firstword.v1.ListSpeakersResponse")
DeleteSpeakerResponse = message("firstword.v1.DeleteSpeakerResponse")


class SpeechService:
    """Its methods over the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def methods(self) -> Mapping[str, RpcMethod]:
        any_key, speak, enrol = Guard("any key"), Guard("speak"), Guard("enrol")
        upload = Guard("enrol", body=upload_body(lambda limits: limits.max_upload_bytes))
        return {
            "Synthesize": RpcMethod(speak, self._synthesize),
            "Converse": RpcMethod(speak, self._converse),
            "ListSpeakers": RpcMethod(any_key, self._list),
            "GetSpeaker": RpcMethod(any_key, self._get),
            "RegisterSpeaker": RpcMethod(upload, self._register),
            "DeleteSpeaker": RpcMethod(enrol, self._delete),
        }

    async def _synthesize(self, request: Any, call: Call) -> None:
        service = self._service
        body = validated(SpeechBody, {"text": "", **_set_fields(request)})
        output = resolve_output_format(body.format, body.sample_rate, body.speed, service)
        reference = await body.reference(service.limits.max_reference_bytes)
        delivery = body.delivery(context=body.context)
        synthesis = body.request(call.request_id, "grpc", call.client, reference, delivery)
        session = StreamSession(service, synthesis, call.received_s, call.metadata)
        session.cancel_reason = "disconnect"
        call.session = session
        await call.send_id()
        async with aclosing(_events(SpokenAudio(session, output, body))) as events:
            async for event in events:
                await call.write(event)

    async def _converse(self, requests: Any, call: Call) -> None:
        await call.send_id()
        await Conversation(self._service, call).run(requests)

    async def _list(self, request: Any, call: Call) -> Any:
        return ListSpeakersResponse(
            speakers=[_speaker(info) for info in self._service.speakers.list(call.client)]
        )

    async def _get(self, request: Any, call: Call) -> Any:
        return _speaker(self._service.speakers.get(request.name, call.client))

    async def _register(self, request: Any, call: Call) -> Any:
        service = self._service
        with rejections_counted(service.metrics):
            service.quotas.charge(call.client.name)
            check_upload(request.audio, service.limits.max_upload_bytes)
            info = await service.speakers.enrol(
                request.name, request.audio, request.transcript, request.language or None, client=call.client
            )
        return _speaker(info)

    async def _delete(self, request: Any, call: Call) -> Any:
        await self._service.speakers.delete(request.name, client=call.client)
        return DeleteSpeakerResponse()


class Conversation:
    """One call of Converse: a context of the WebSocket's kind, whose messages go out as events."""

    def __init__(self, service: Service, call: Call) -> None:
        self._service = service
        self._call = call
        self._context: Context | None = None  # None: nothing has come
        self._speaking: asyncio.Task[None] | None = None  # from `run` on
        self._has_begun = asyncio.Event()
        self._awaits_cancel = False  # behind `done`

    async def run(self, requests: Any) -> None:
        """Read and speak until the speech has ended. Raises what either does."""
        self._speaking = speaking = asyncio.create_task(self._speak())
        reading = asyncio.create_task(self._read(requests))
        try:
            await asyncio.wait((reading, speaking), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await speaking
                if not self._awaits_cancel:
                    return
                await asyncio.wait((reading,), timeout=CANCEL_AFTER_DONE_S)
                if not reading.done() or isinstance(reading.exception(), StreamTimeout):
                    return
            cancelled = await reading  # all has come, it was cancelled, or something wrong came
            await asyncio.wait((speaking,))
            if cancelled is None:
                await speaking
            else:
                await self._call.write(SpeechEvent(cancelled=_event_of(cancelled)))
        except asyncio.CancelledError:
            if self._context is not None:
                self._context.cancel(self._call.cancel_reason)
            raise
        except TtsError as error:
            if self._context is not None:
                self._context.fail(error)
            raise
        finally:
            reading.cancel()
            speaking.cancel()
            await asyncio.gather(reading, speaking, return_exceptions=True)

    async def _read(self, requests: Any) -> ws.Cancelled | None:
        """Return what was spoken where the client cancelled; None at the end of what it sends."""
        async for request in requests:
            kind = request.WhichOneof("event")
            if kind == "cancel":
                return self._opened().cancel("client_cancel", _played_ms_of(request.cancel))
            if kind == "start":
                if self._context is not None:
                    raise InvalidRequest("`start` came twice; it is the first message of a call", "start")
                start = validated(ws.Start, _set_fields(request.start))
                self._open(start, await start.reference(self._service.limits.max_reference_bytes))
                continue
            context = self._opened()
            if kind is None or not context.takes_text:
                raise InvalidRequest("expected start, text, flush, end or cancel, and no text after `end`")
            if kind == "text":
                context.push_text(request.text)
            elif kind == "flush":
                context.flush()
            else:
                self._awaits_cancel = request.end.awaits_cancel
                context.end_text()
        if self._opened().takes_text:
            self._opened().end_text()
        return None

    async def _speak(self) -> None:
        await self._has_begun.wait()
        assert self._context is not None
        await self._context.run(on_done=lambda: None)

    def _opened(self) -> Context:
        return self._open(ws.Start.model_validate({})) if self._context is None else self._context

    def _open(self, start: ws.Start, reference: SentRecording | None = None) -> Context:
        sender = EventSender(self._call)
        call = self._call
        peer = Peer(call.client, "grpc", call.metadata, call.caller, call.request_id)
        context = Context(start, self._service, peer, sender, True, reference)
        context.task = self._speaking  # now: it may be cancelled before its first step
        self._context = context
        self._has_begun.set()
        return context


class EventSender:
    """Writes the messages of a context as events of a call."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def post(
        self,
        message: ws.Message,
        frame: bytes = b"",
        before_write: Callable[[], None] | None = None,
    ) -> Awaitable[None]:
        await self.send(message, frame, before_write)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def send(
        self, message: ws.Message, frame: bytes = b"", before_write: Callable[[], None] | None = None
    ) -> None:
        if before_write is not None:
            before_write()
        match message:
            case ws.AudioFrame():
                event = _audio(frame, message.start_ms, message.duration_ms, message.words)
            case ws.Started():
                event = _started(message.request_id, message.format, message.sample_rate)
            case ws.FlushDone():
                event = SpeechEvent(flushed=Flushed())
            case ws.Done():
                counts = message.stats.model_dump(exclude={"first_byte", "pauses"})
                event = SpeechEvent(done=Done(**counts))
            case ws.TextWarning():
                return
            case _:
                raise AssertionError(message)
        await self._call.write(event)


async def _events(audio: SpokenAudio) -> AsyncGenerator[Any]:
    """Say what the audio will be, then the audio itself, then how it went."""
    session, output = audio.session, audio.output
    num_sent, rate_hz = 0, output.sample_rate_hz
    async with audio.chunks() as chunks:
        async for chunk in chunks:
            if not num_sent:
                yield _started(session.stream.request.request_id, output.format, rate_hz)
            start_ms, duration_ms = (1000 * count / rate_hz for count in (num_sent, chunk.num_samples))
            yield _audio(chunk.data, start_ms, duration_ms, audio.words(chunk))
            num_sent += chunk.num_samples
    record, counts = session.record, session.stream.stats
    done = Done(
        ttfb_ms=record.ttfb_ms,
        audio_ms=1000 * num_sent / rate_hz,
        rtf=record.rtf(counts),
        speech_tokens=counts.speech_tokens,
        characters=counts.characters,
        word_times=counts.word_times,
    )
    yield SpeechEvent(done=done)


def _event_of(cancelled: ws.Cancelled) -> Any:
    return Cancelled(
        audio_ms_sent=cancelled.audio_ms_sent,
        spoken_text=cancelled.spoken_text,
        remaining_text=cancelled.remaining_text,
    )


def _played_ms_of(cancel: Any) -> float | None:
    """Raises InvalidRequest."""
    if not cancel.HasField("played_ms"):
        return None
    played_ms: float = cancel.played_ms
    if not played_ms >= 0:  # NaN among them
        raise InvalidRequest(f"played_ms is {played_ms:g}; expected 0 or more", "played_ms")
    return played_ms


def _started(request_id: str, format: str, sample_rate_hz: int) -> Any:
    started = Started(request_id=request_id, format=format, sample_rate=sample_rate_hz, channels=1)
    return SpeechEvent(started=started)


def _audio(data: bytes, start_ms: float, duration_ms: float, words: list[SpokenWord] | None) -> Any:
    timed = [word.model_dump() for word in words or ()]
    return SpeechEvent(audio=Audio(data=data, start_ms=start_ms, duration_ms=duration_ms, words=timed))


def _set_fields(request: Any) -> dict[str, Any]:
    """What was set of a request and its voice; the rest has the defaults of the other protocols, and of the
    format pcm."""
    fields = {descriptor.name: value for descriptor, value in request.ListFields()}
    fields.pop("voice", None)
    voice = {descriptor.name: value for descriptor, value in request.voice.ListFields()}
    if "lexicon" in voice:
        voice["lexicon"] = dict(voice["lexicon"])
    return {"format": "pcm", **voice, **fields}


def _speaker(info: KnownSpeaker) -> Any:
    return Speaker(
        name=info.name,
        kind=info.kind,
        created_at=info.created_at,
        duration_s=info.prompt.duration_s,
        transcript=info.prompt.transcript,
        language=info.prompt.language,
        warnings=info.quality.warnings if info.quality else (),
        cached=info.cached,
        damaged=info.damaged,
    )
