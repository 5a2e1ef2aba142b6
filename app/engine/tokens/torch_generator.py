"""Speech tokens from our own torch decoder: every active utterance in every step, in one thread."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firstword.app.engine.tokens.interface import EndReason, TokenRequest, TokenStream
from firstword.app.engine.tokens.prompt import plan_of
from firstword.app.errors import SynthesisFailed
from firstword.models.config import SamplingConfig
from firstword.models.lm.decoder import (
    Emitted,
    Event,
    Row,
    RowRequest,
    SpeechDecoder,
    SpeechLM,
    Stopped,
    Waiting,
)
from firstword.models.lm.plan import BistreamPlan, Plan

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Progress:
    """What one step did for one stream, on its way to the event loop."""

    stream: TokenStream
    ids: tuple[int, ...] = ()
    compute_s: float = 0.0
    reason: EndReason | None = None
    failure: str = ""


class TorchTokenGenerator:
    """Utterances join and leave between steps. The thread sleeps while none can go on.

    on_step: told how many utterances a step advanced and how long it took, from the thread.
    """

    unready_reason = ""

    def __init__(
        self,
        model: SpeechLM,
        sampling: SamplingConfig,
        mix_ratio: tuple[int, int] | None,
        on_step: Callable[[int, float], None] = lambda num_rows, seconds: None,
    ) -> None:
        """mix_ratio: text : speech tokens of a block where text is pushed; None: it cannot be."""
        self._model, self._sampling, self._mix_ratio = model, sampling, mix_ratio
        self._on_step = on_step
        self._loop = asyncio.get_running_loop()
        self._decoder = SpeechDecoder(model, sampling)
        self._plans: dict[TokenStream, Plan] = {}  # the event loop's
        self._rows: dict[TokenStream, Row] = {}  # the thread's, as all below
        self._streams: dict[Row, TokenStream] = {}
        self._commands: deque[tuple[TokenStream, Callable[[], None]]] = deque()
        self._wake = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="speech tokens", daemon=True)
        self._thread.start()

    def start(self, utterance: TokenRequest) -> TokenStream:
        plan = plan_of(utterance, self._model.vocabulary, self._mix_ratio)
        stream = TokenStream()
        if self._is_closing:
            stream.fail(SynthesisFailed("the server is stopping"))
            return stream
        self._plans[stream] = plan
        request = RowRequest(plan, utterance.seed, speaker=utterance.speaker)
        self._command(stream, lambda: self._add(stream, request))
        return stream

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        plan = self._pushed_plan(stream)
        if plan is not None:
            self._command(stream, lambda: plan.push_text(ids))

    def finish_text(self, stream: TokenStream) -> None:
        plan = self._pushed_plan(stream)
        if plan is not None:
            self._command(stream, plan.finish_text)

    def stop(self, stream: TokenStream) -> None:
        stream.end("stopped")
        if self._plans.pop(stream, None) is not None:
            self._command(stream, lambda: self._remove(stream))

    async def aclose(self) -> None:
        for stream in list(self._plans):
            stream.fail(SynthesisFailed("the server stopped before the speech was finished"))
            self.stop(stream)
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _pushed_plan(self, stream: TokenStream) -> BistreamPlan | None:
        """None: the stream has ended, and text for it has no meaning any more."""
        plan = self._plans.get(stream)
        assert plan is None or isinstance(plan, BistreamPlan), "text pushed to an utterance that has all"
        return plan

    def _command(self, stream: TokenStream, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append((stream, command))
            self._wake.notify()

    def _run(self) -> None:
        is_idle = True
        while True:
            with self._wake:
                while is_idle and not self._commands and not self._is_closing:
                    self._wake.wait()
                if self._is_closing:
                    return
            self._obey_all()
            is_idle = not self._rows or self._step()

    def _obey_all(self) -> None:
        while self._commands:
            self._obey(*self._commands.popleft())

    def _obey(self, stream: TokenStream, command: Callable[[], None]) -> None:
        try:
            command()
        except Exception:  # it must not end the others
            _log.exception("an utterance could not be started or changed")
            self._give_up(stream)

    def _step(self) -> bool:
        """True: every row waits for text."""
        began = time.perf_counter()
        try:
            events = self._decoder.step()
        except Exception:  # whatever it was, it must not end the others
            _log.exception("a step of the language model failed; the newest utterance is given up")
            newest = max(self._decoder.rows, key=lambda row: row.arrival)
            self._give_up(self._streams[newest])
            return False
        took = time.perf_counter() - began
        advanced = [event for event in events if not isinstance(event, Waiting)]
        num_rows = len({event.row.arrival for event in advanced})
        if num_rows:
            self._on_step(num_rows, took)
            share = took / num_rows
            self._tell([self._progress(event, share) for event in advanced])
        return bool(self._rows) and len(events) - len(advanced) == len(self._decoder.rows)

    def _progress(self, event: Event, share_s: float) -> _Progress:
        stream = self._streams[event.row]
        if isinstance(event, Emitted):
            return _Progress(stream, (event.speech_id,), share_s)
        assert isinstance(event, Stopped), event
        self._forget(stream)
        if event.reason == "not_finite":
            return _Progress(stream, failure="the language model's answer was not finite")
        return _Progress(stream, compute_s=share_s, reason=event.reason)

    def _give_up(self, stream: TokenStream) -> None:
        self._remove(stream)
        self._tell([_Progress(stream, failure="the language model failed on this text")])

    def _add(self, stream: TokenStream, request: RowRequest) -> None:
        row = self._decoder.add(request)
        self._rows[stream], self._streams[row] = row, stream

    def _remove(self, stream: TokenStream) -> None:
        row = self._rows.get(stream)
        if row is not None:
            self._decoder.remove(row)
            self._forget(stream)

    def _forget(self, stream: TokenStream) -> None:
        del self._streams[self._rows.pop(stream)]

    def _tell(self, progress: list[_Progress]) -> None:
        self._loop.call_soon_threadsafe(self._deliver, progress)

    def _deliver(self, progress: list[_Progress]) -> None:
        for one in progress:
            one.stream.deliver(one.ids, one.compute_s)
            if one.failure:
                one.stream.fail(SynthesisFailed(one.failure))
            elif one.reason is not None:
                one.stream.end(one.reason)
            if one.stream.has_ended:
                self.stop(one.stream)
