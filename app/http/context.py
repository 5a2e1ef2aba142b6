"""One context: text in as it is written, audio out; over a WebSocket or a gRPC call."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from typing import Final
from uuid import uuid4

from firstword.app.clients import Client
from firstword.app.core.interface import Flushed
from firstword.app.core.request import SynthesisRequest
from firstword.app.errors import CancelReason, InvalidRequest, StreamTimeout, Wire
from firstword.app.http.context_messages import (
    AudioFrame,
    Cancelled,
    Done,
    FlushDone,
    Sender,
    Start,
    Started,
    Stats,
    TextWarning,
)
from firstword.app.http.encoding import StreamEncoder
from firstword.app.http.held_bytes import MIN_BODY_BYTES, given_up
from firstword.app.http.limits import check_recording
from firstword.app.http.service import Service
from firstword.app.http.session import StreamSession
from firstword.app.http.streaming import resolve_output_format
from firstword.app.speakers.interface import SentRecording, checked_transcript

CANCEL_AFTER_DONE_S: Final = 60.0  # all audio is sent long before it has been played


@dataclass(frozen=True, slots=True)
class Peer:
    """Who opens a context, and over what. request_id: of a call that is one context; None: a new one."""

    client: Client
    wire: Wire
    headers: Mapping[str, str] = field(default_factory=dict)  # of the upgrade, or the metadata of a call
    caller: str = ""  # whose recordings its are, in `HeldBytes`
    request_id: str | None = None


class ContextState(Enum):
    IDLE = auto()
    OPEN = auto()
    DRAINING = auto()
    CLOSED = auto()


class Context:
    """A context takes text by `push_text`, `flush` and `end_text`, and speaks it in `run`, a task of its own.

        IDLE ──text, flush──► OPEN ──end──► DRAINING ──done──► CLOSED
          └────────────end────────────────────▲
        (any) ──cancel, error──► CLOSED

    IDLE: nothing to speak yet; holds no slot of the engine. OPEN: waits for a slot or speaks, and takes text.
    DRAINING: all text has come and is spoken to its end. CLOSED: sends nothing more, holds nothing.

    What the client sends takes effect at once and never waits: the engine's stream takes text before it has
    a slot.
    """

    def __init__(
        self,
        start: Start,
        service: Service,
        peer: Peer,
        send_queue: Sender,
        is_explicit: bool,
        reference: SentRecording | None = None,
    ) -> None:
        """is_explicit: a `start` came. reference: the recording within it.

        Raises InvalidRequest, SpeakerNotFound, UploadTooLarge for the recording that is to follow, and
        Overloaded where clients make the server hold too much.
        """
        info = service.engine.info
        check_recording(start.reference_bytes or 0, service.limits.max_reference_bytes)
        self._reference_text = checked_transcript(start.reference_text, "reference_text")
        self._recording = bytearray()
        self._num_missing = start.reference_bytes or 0  # bytes of the recording that are still to come
        if start.speaker is not None:
            service.speakers.get(start.speaker, peer.client)
        info.language_of(start.language)
        self.id = start.context
        self.task: asyncio.Task[None] | None = None  # that of `run`, set by its creator
        # The client may have more to send that only makes sense after the `start` it sent.
        self.needs_start = is_explicit
        self._state = ContextState.IDLE
        self._output = resolve_output_format(start.format, start.sample_rate, start.speed, service)
        self._request = SynthesisRequest(
            peer.request_id or uuid4().hex,
            peer.wire,
            mode=start.mode or ("continuous" if info.can_continue_text else "segments"),
            pauses=None if start.pauses is None else frozenset(start.pauses),
            voice=start.voice_choice(reference),
            reading=start.reading,
            sampling=start.sampling,
            seed=start.seed,
            delivery=start.delivery(),
            client=peer.client,
        )
        info.check(self._request)
        self._start = start
        self._headers = peer.headers
        self._session = StreamSession(service, self._request, headers=peer.headers)
        self._service = service
        self._send_queue = send_queue
        self._has_left_idle = asyncio.Event()
        self._idle_timer: asyncio.Timeout | None = None
        self._num_sent_samples = 0  # at the output's rate
        self._text: list[str] = []  # all that came
        self._num_warnings = 0  # sent
        num_bytes = self._num_missing if reference is None else len(reference.content)
        self._held = ExitStack()  # its recording, from the `start` that announces it to the first audio
        num_held = max(num_bytes, MIN_BODY_BYTES) if num_bytes else 0
        self._upload = self._held.enter_context(service.bounds.held.held(peer.caller, num_held))
        self._s_per_byte = service.limits.body_timeout_s / max(1, num_bytes)

    @property
    def takes_text(self) -> bool:
        return self._state in (ContextState.IDLE, ContextState.OPEN)

    @property
    def takes_recording(self) -> bool:
        return self._num_missing > 0 and self.takes_text

    def push_recording(self, part: bytes) -> None:
        """Take the next part of the announced recording. Raises InvalidRequest for more than announced."""
        if self._upload.is_given_up:
            return  # `run` says so
        self._restart_idle_timer()
        self._upload.came(len(part))
        if len(part) > self._num_missing:
            raise InvalidRequest(
                f"{len(part)} bytes of a recording came, {self._num_missing} were to come; give the length "
                "of the file in `reference_bytes`",
                "reference_bytes",
            )
        self._recording += part
        self._num_missing -= len(part)
        if not self._num_missing:
            self._upload.has_come()
            reference = SentRecording(bytes(self._recording), self._reference_text)
            self._recording = bytearray()
            voice = replace(self._request.voice, reference=reference)
            self._request = replace(self._request, voice=voice)
            self._session = StreamSession(self._service, self._request, headers=self._headers)

    def _check_recording(self) -> None:
        """Raise InvalidRequest where it has not come, and Overloaded where it was given up."""
        if self._upload.is_given_up:
            raise given_up()
        if self._num_missing:
            raise InvalidRequest(
                f"{self._num_missing} bytes of the reference recording have not come; send them in binary "
                "messages before any text",
                "reference_bytes",
            )

    def push_text(self, text: str) -> None:
        """Raise what `Engine.open` and its stream raise. An empty text has no effect."""
        self._restart_idle_timer()
        if not text:
            return
        self._check_recording()
        self._leave_idle(ContextState.OPEN)
        self._session.text_came()
        self._session.stream.push_text(text)
        self._text.append(text)

    def flush(self) -> None:
        """Raise as `push_text` does."""
        self._check_recording()
        self._leave_idle(ContextState.OPEN)
        self._restart_idle_timer()
        self._session.stream.flush()

    def end_text(self) -> None:
        """Raise as `push_text` does."""
        self._check_recording()
        self.needs_start = False
        self._leave_idle(ContextState.DRAINING)
        self._restart_idle_timer()
        self._session.stream.finish_text()

    async def run(self, on_done: Callable[[], None]) -> None:
        """Speak to the end. on_done: called right before `done` is written.

        Raises what the engine raises, StreamTimeout where no text comes for too long, and Overloaded where
        its recording was given up for those of others.
        """
        with self._held:
            await self._run(on_done)

    async def _run(self, on_done: Callable[[], None]) -> None:
        output = self._output
        await self._send_queue.post(
            Started(
                context=self.id,
                request_id=self._request.request_id,
                sample_rate=output.sample_rate_hz,
                format=output.format,
            )
        )
        async with self._idle_timeout():
            with self._upload.coming(self._give_up, self._s_per_byte):
                if not self._num_missing:
                    self._upload.has_come()
                await self._has_left_idle.wait()
        if self._upload.is_given_up:  # right before the text came
            raise given_up()
        async with self._session, self._idle_timeout():
            self._restart_idle_timer()
            await self._send_audio()

        def close() -> None:
            self._state = ContextState.CLOSED
            on_done()

        record, counts = self._session.record, self._session.stream.stats
        rtf = record.rtf(counts)
        stats = Stats(
            ttfb_ms=None if record.ttfb_ms is None else round(record.ttfb_ms, 3),
            audio_ms=self._ms(self._num_sent_samples),
            rtf=None if rtf is None else round(rtf, 3),
            speech_tokens=counts.speech_tokens,
            characters=counts.characters,
            pauses=counts.pauses,
            word_times=counts.word_times,
            first_byte=record.first_byte(counts),
        )
        await self._send_queue.send(Done(context=self.id, stats=stats), before_write=close)

    def cancel(self, reason: CancelReason, played_ms: float | None = None) -> Cancelled:
        """Free everything at once; audio that waits to be written is withdrawn.

        played_ms: how much of what was sent has been heard; None: all of it.
        """
        self._close(reason)
        return self.cancelled(played_ms)

    def cancelled(self, played_ms: float | None = None) -> Cancelled:
        """Return what was spoken, of a context that has ended too.

        played_ms: as `cancel` takes it.
        """
        spoken_text = ""
        if self._session.is_admitted:
            played_s = self._num_sent_samples / self._output.sample_rate_hz
            if played_ms is not None:
                played_s = min(played_s, played_ms / 1000)
            source_rate_hz = self._service.engine.info.sample_rate_hz
            num_samples = round(played_s * self._output.speed * source_rate_hz)
            spoken_text = self._session.stream.spoken_text(num_samples)
        return Cancelled(
            context=self.id,
            audio_ms_sent=self._ms(self._num_sent_samples),
            spoken_text=spoken_text,
            remaining_text="".join(self._text)[len(spoken_text) :],
        )

    def fail(self, error: Exception) -> None:
        """Free everything at once because of what the client sent."""
        self._session.record_failure(error)
        self._close("client_cancel")

    def _close(self, reason: CancelReason) -> None:
        self._state = ContextState.CLOSED
        self._held.close()
        self._session.cancel_reason = reason
        if self.task is not None:
            self.task.cancel()  # it leaves the session, which stops the stream for that reason

    def _leave_idle(self, state: ContextState) -> None:
        if self._state is ContextState.IDLE:
            self._session.received_s = self._service.clock()
            self._has_left_idle.set()
        self._state = state

    @asynccontextmanager
    async def _idle_timeout(self) -> AsyncIterator[None]:
        """Raise StreamTimeout where no text comes for too long."""
        idle_timeout_s = self._service.limits.idle_timeout_s
        timer = asyncio.timeout(idle_timeout_s)
        try:
            async with timer:
                self._idle_timer = timer
                yield
        except TimeoutError:
            if not timer.expired():
                raise
            if self._upload.is_given_up:
                raise given_up() from None
            raise StreamTimeout(f"no text came for {idle_timeout_s:g} s; send `end` after the last") from None
        finally:
            self._idle_timer = None

    def _give_up(self) -> None:
        """Let `run` end at once: others take the room of its recording."""
        if self._idle_timer is not None and not self._idle_timer.expired():
            self._idle_timer.reschedule(asyncio.get_running_loop().time())

    def _restart_idle_timer(self) -> None:
        """Give the client its idle time from now on, or no limit once it has sent all text."""
        if self._idle_timer is None or self._idle_timer.expired() or self._upload.is_given_up:
            return
        if self.takes_text:
            now_s = asyncio.get_running_loop().time()
            self._idle_timer.reschedule(now_s + self._service.limits.idle_timeout_s)
        else:
            self._idle_timer.reschedule(None)

    async def _send_audio(self) -> None:
        session = self._session
        queue = self._send_queue
        samples_per_s = session.stream.sample_rate_hz * self._output.speed
        with StreamEncoder(session.stream, self._output, session.record.encoded) as encoder:
            async with aclosing(encoder.events()) as events:
                async for event in events:
                    await self._send_warnings()
                    if isinstance(event, Flushed):
                        await queue.send(FlushDone(context=self.id))
                        continue
                    frame = AudioFrame(
                        context=self.id,
                        bytes=len(event.data),
                        start_ms=self._ms(self._num_sent_samples),
                        duration_ms=self._ms(event.num_samples),
                        words=self._start.spoken(event.words, samples_per_s),
                    )
                    count = partial(self._count_sent, event.num_samples)
                    await queue.send(frame, event.data, before_write=count)
                    session.record.audio_went(event.num_samples, self._output.sample_rate_hz)
                    self._restart_idle_timer()

        await self._send_warnings()

    async def _send_warnings(self) -> None:
        """Send those that came up since the last call."""
        for message in self._session.stream.stats.warnings[self._num_warnings :]:
            self._num_warnings += 1
            await self._send_queue.send(TextWarning(context=self.id, message=message))

    def _count_sent(self, num_samples: int) -> None:
        self._held.close()
        self._num_sent_samples += num_samples

    def _ms(self, num_samples: int) -> float:
        return round(1000 * num_samples / self._output.sample_rate_hz, 3)
