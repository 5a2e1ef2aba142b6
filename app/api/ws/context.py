"""One context of a WebSocket: text in, audio out.

One turn of speech on a WebSocket: what its client says goes in, its messages and frames go out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from uuid import uuid4

from firstword.app.api.dependencies import Services
from firstword.app.api.errors import outcome_of
from firstword.app.api.streaming import Payload, Turn, TurnEncoder, wanted_form
from firstword.app.api.ws.messages import (
    AudioFrame,
    Cancelled,
    Done,
    FlushDone,
    Outbox,
    Start,
    Started,
    Stats,
)
from firstword.app.engine.interface import EngineInfo, SynthesisRequest, SynthesisStream
from firstword.app.errors import CancelReason, InvalidRequest, StreamTimeout

MAX_EARLY_FLUSHES = 64


class Context:
    """`run` is a task of its own. `stop` and `fail` end it from outside; after them it says nothing more.

    What its client sends takes effect at once and never waits. It takes a place of the engine's only when
    there is something to do: from the first text, flush or end on.
    """

    def __init__(
        self, start: Start, services: Services, owner: str, outbox: Outbox, is_explicit: bool
    ) -> None:
        """owner: whose key it is. is_explicit: begun by a `start`. Raises InvalidRequest, SpeakerNotFound."""
        info = services.engine.info
        if start.speaker is not None:
            services.speakers.get(start.speaker)
        request = _request(start, info)
        self.id = start.context
        self.task: asyncio.Task[None] | None = None  # that of `run`, set by who made it
        self.has_all_text = False
        self._is_explicit = is_explicit
        self._request = request
        self._form = wanted_form(start.format, start.sample_rate, start.speed, info.sample_rate_hz)
        self._turn = Turn(services, request, owner)
        self._info = info
        self._clock = services.clock
        self._idle_timeout_s = services.limits.idle_timeout_s
        self._outbox = outbox
        self._stream: SynthesisStream | None = None  # None: not open yet
        self._early = [""]  # the text that came before the stream was open, a flush between each two
        self._num_sent_samples = 0  # of the form's rate
        self._patience: asyncio.Timeout | None = None
        self._is_wanted = asyncio.Event()  # there is something to do
        self._first_text_s: float | None = None
        self._has_begun = False  # from then on the turn has a record

    @property
    def needs_start(self) -> bool:
        """Its client may have more to send that only makes sense behind the `start` it came with."""
        return self._is_explicit and not self.has_all_text

    def push_text(self, text: str) -> None:
        """Raises TextTooLong."""
        self._wait_for_text(self._idle_timeout_s)
        if self._stream is not None:
            self._turn.record.text_came()
            self._stream.push_text(text)
            return
        self._info.check_length(sum(map(len, self._early)) + len(text))
        self._early[-1] += text
        if text:
            self._want_turn()
            if self._first_text_s is None:
                self._first_text_s = self._clock()

    def flush(self) -> None:
        """Raises InvalidRequest for too many before the stream is open."""
        self._want_turn()
        self._wait_for_text(self._idle_timeout_s)
        if self._stream is not None:
            self._stream.flush()
        elif len(self._early) > MAX_EARLY_FLUSHES:
            raise InvalidRequest(f"{MAX_EARLY_FLUSHES} flushes wait for the first audio; send fewer.")
        else:
            self._early.append("")

    def end_text(self) -> None:
        """Raises InvalidRequest if nothing that can be spoken came."""
        self.has_all_text = True
        self._want_turn()
        self._wait_for_text(None)
        if self._stream is not None:
            self._stream.finish_text()

    async def run(self, over: Callable[[], None]) -> None:
        """Speaks to the end. over: called right before `done` is written.

        Raises what the engine raises, and StreamTimeout where its client forgot it.
        """
        await self._outbox.post(self._started())
        async with self._patient():
            await self._is_wanted.wait()
        self._has_begun = True
        async with self._turn as turn:
            await self._speak(turn)
        await self._outbox.send(Done(context=self.id, stats=self._stats()), begun=over)

    def stop(self, reason: CancelReason) -> Cancelled:
        """Frees everything at once; audio that waits to be written is withdrawn."""
        self._halt(reason)
        played_s = self._num_sent_samples / self._form.sample_rate_hz
        num_samples = round(played_s * self._form.speed * self._info.sample_rate_hz)
        return Cancelled(
            context=self.id,
            audio_ms_sent=self._ms(self._num_sent_samples),
            spoken_text="" if self._stream is None else self._stream.spoken_text(num_samples),
        )

    def fail(self, error: Exception) -> None:
        """Ends it because of what its client sent."""
        if self._has_begun:
            stats = None if self._stream is None else self._stream.stats
            self._turn.record.end(*outcome_of(error), stats)
        else:
            self._turn.refuse(error)
        self._halt("client_cancel")

    def _halt(self, reason: CancelReason) -> None:
        self._turn.cancel_reason = reason
        if self._stream is not None:
            self._turn.cancel(reason)
        if self.task is not None:
            self.task.cancel()

    def _want_turn(self) -> None:
        if not self._is_wanted.is_set():
            self._turn.received_s = self._clock()
            self._is_wanted.set()

    async def _speak(self, turn: Turn) -> None:
        async with self._patient():
            self._tell_early(turn)
            await self._send_all(TurnEncoder(turn, self._form))

    @asynccontextmanager
    async def _patient(self) -> AsyncIterator[None]:
        """Raises StreamTimeout where no text comes for too long."""
        patience = asyncio.timeout(self._idle_timeout_s)
        try:
            async with patience:
                self._patience = patience
                yield
        except TimeoutError:
            if not patience.expired():
                raise
            raise StreamTimeout(
                f"No text came for {self._idle_timeout_s:g} s; send `end` behind the last of it."
            ) from None
        finally:
            self._patience = None

    def _tell_early(self, turn: Turn) -> None:
        self._stream = stream = turn.stream
        if self._first_text_s is not None:
            turn.record.text_came(self._first_text_s)
        for place, text in enumerate(self._early):
            if place > 0:
                stream.flush()
            if text:
                stream.push_text(text)
        if self.has_all_text:
            self.end_text()

    async def _send_all(self, encoder: TurnEncoder) -> None:
        async with aclosing(encoder.events()) as events:
            async for event in events:
                if isinstance(event, Payload):
                    await self._send_audio(event)
                else:
                    await self._outbox.send(FlushDone(context=self.id))

    async def _send_audio(self, payload: Payload) -> None:
        frame = AudioFrame(
            context=self.id,
            bytes=len(payload.data),
            start_ms=self._ms(self._num_sent_samples),
            duration_ms=self._ms(payload.num_samples),
        )

        def goes() -> None:
            self._num_sent_samples += payload.num_samples

        await self._outbox.send(frame, payload.data, begun=goes)
        self._turn.record.audio_went(payload.num_samples, self._form.sample_rate_hz)
        if not self.has_all_text:
            self._wait_for_text(self._idle_timeout_s)

    def _wait_for_text(self, patience_s: float | None) -> None:
        """How long from now on it may take until the client says something. None: it has said all."""
        if self._patience is not None and not self._patience.expired():
            now_s = asyncio.get_running_loop().time()
            self._patience.reschedule(None if patience_s is None else now_s + patience_s)

    def _started(self) -> Started:
        return Started(
            context=self.id,
            request_id=self._request.request_id,
            sample_rate=self._form.sample_rate_hz,
            format=self._form.format,
        )

    def _stats(self) -> Stats:
        record, stats = self._turn.record, self._turn.stream.stats
        return Stats(
            ttfb_ms=_rounded(record.ttfb_ms),
            audio_ms=self._ms(self._num_sent_samples),
            rtf=_rounded(record.rtf(stats)),
            speech_tokens=stats.speech_tokens,
            characters=stats.characters,
        )

    def _ms(self, num_samples: int) -> float:
        return round(1000 * num_samples / self._form.sample_rate_hz, 3)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _request(start: Start, info: EngineInfo) -> SynthesisRequest:
    return SynthesisRequest(
        request_id=uuid4().hex,
        wire="websocket",
        mode=start.mode or ("continuous" if info.can_continue_text else "segments"),
        speaker=start.speaker,
        language=start.language,
        instruct=start.instruct,
        seed=start.seed,
    )
