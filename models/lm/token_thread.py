"""Speech tokens from a language model in this process: one thread, every running utterance in every step."""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from firstword.models.config import LMConfig
from firstword.models.cuda import own_stream
from firstword.models.lm.decoder import (
    Emitted,
    Row,
    RowRequest,
    SpeechLM,
    Waiting,
    new_decoder,
)
from firstword.models.lm.plan import BistreamPlan, Plan, TokenDetail
from firstword.models.lm.silence import silent_ids
from firstword.models.lm.tokens import (
    EndReason,
    GenerationFailed,
    TokenRequest,
    TokenStream,
    plan_of,
    sampling_of,
)

_log = logging.getLogger(__name__)


class _TorchStream(TokenStream):
    """An utterance of this generator, with its plan and, once it has joined the decoder, its row."""

    def __init__(self, plan: Plan, silent_ids: frozenset[int]) -> None:
        super().__init__(silent_ids)
        self.plan = plan
        self.row: Row | None = None  # used by the decoder's thread alone


@dataclass(frozen=True, slots=True)
class _Progress:
    """What one step did for one stream, on its way to the event loop."""

    stream: _TorchStream
    ids: tuple[int, ...] = ()
    details: tuple[TokenDetail, ...] = ()
    compute_s: float = 0.0
    reason: EndReason | None = None
    failure: str = ""


_Command = RowRequest | Callable[[], None]  # for the decoder's thread: a row to add, or what to run there


class TorchTokenGenerator:
    """Utterances join and leave between steps. The thread sleeps while none can go on."""

    unready_reason = ""

    def __init__(
        self,
        model: SpeechLM,
        config: LMConfig,
        on_step: Callable[[int, float], None] = lambda num_rows, seconds: None,
    ) -> None:
        """on_step: called in the thread with the rows that a step advanced and the seconds it took."""
        self._model = model
        self._config = config
        self._silent_ids = silent_ids(config)
        self._on_step = on_step
        self._loop = asyncio.get_running_loop()
        self._decoder = new_decoder(model, config.sampling)  # used by the thread alone
        self._running: set[_TorchStream] = set()  # used by the event loop alone
        self._commands: deque[tuple[_TorchStream, _Command]] = deque()
        self._wake = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="speech tokens", daemon=True)
        self._thread.start()

    def start(self, request: TokenRequest) -> TokenStream:
        plan = plan_of(request, self._model.vocabulary, self._config)
        stream = _TorchStream(plan, self._silent_ids)
        if self._is_closing:
            stream.fail(GenerationFailed("the server is stopping"))
            return stream
        self._running.add(stream)
        row = RowRequest(
            plan,
            request.seed,
            speaker=request.speaker,
            sampling=sampling_of(request, self._config.sampling),
            owner=stream,
            wants_logprobs=request.wants_logprobs,
            wants_attention=request.wants_attention,
        )
        self._command(stream, row)
        return stream

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        if stream in self._running:
            stream, plan = _bistream(stream)
            self._command(stream, lambda: plan.push_text(ids))

    def finish_text(self, stream: TokenStream) -> None:
        if stream in self._running:
            stream, plan = _bistream(stream)
            self._command(stream, plan.finish_text)

    def stop(self, stream: TokenStream) -> None:
        assert isinstance(stream, _TorchStream), "a stream of another generator"
        stream.end("stopped")
        if stream in self._running:
            self._running.discard(stream)
            self._command(stream, lambda: self._remove(stream))

    async def aclose(self) -> None:
        for stream in list(self._running):
            stream.fail(GenerationFailed("the server stopped before the speech was finished"))
            self.stop(stream)
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        await asyncio.to_thread(self._thread.join)

    def _command(self, stream: _TorchStream, command: _Command) -> None:
        with self._wake:
            self._commands.append((stream, command))
            self._wake.notify()

    def _run(self) -> None:
        with own_stream(self._decoder.device, is_urgent=True):
            self._run_in_stream()

    def _run_in_stream(self) -> None:
        is_idle = True
        while True:
            with self._wake:
                while is_idle and not self._commands and not self._is_closing:
                    self._wake.wait()
                if self._is_closing:
                    return
            while self._commands:
                stream, command = self._commands.popleft()
                try:
                    if isinstance(command, RowRequest):
                        stream.row = self._decoder.add(command)
                    else:
                        command()
                except Exception:  # it must not end the others
                    _log.exception("an utterance could not be started or changed")
                    self._fail(stream)
            is_idle = not self._decoder.rows or self._step()

    def _step(self) -> bool:
        """Advance every row by a token. -> whether all of them wait for text."""
        began = time.perf_counter()
        try:
            events = self._decoder.step()
        except Exception:  # whatever it was, it must not end the others
            _log.exception("a step of the language model failed; the newest utterance is given up")
            self._fail(_stream_of(max(self._decoder.rows, key=lambda row: row.arrival)))
            return False
        took = time.perf_counter() - began
        advanced = [event for event in events if not isinstance(event, Waiting)]
        num_rows = len({event.row.arrival for event in advanced})
        share = took / max(1, num_rows)
        progress: list[_Progress] = []
        for event in advanced:
            stream = _stream_of(event.row)
            if isinstance(event, Emitted):
                progress.append(_Progress(stream, (event.speech_id,), (event.detail,), share))
                continue
            stream.row = None
            if event.reason == "not_finite":
                failure = "the language model's answer was not finite"
                progress.append(_Progress(stream, failure=failure))
            else:
                progress.append(_Progress(stream, compute_s=share, reason=event.reason))
        if num_rows:
            self._on_step(num_rows, took)
            self._loop.call_soon_threadsafe(self._deliver, progress)
        return len(events) - len(advanced) == len(self._decoder.rows)

    def _fail(self, stream: _TorchStream) -> None:
        self._remove(stream)
        failed = _Progress(stream, failure="the language model failed on this text")
        self._loop.call_soon_threadsafe(self._deliver, [failed])

    def _remove(self, stream: _TorchStream) -> None:
        if stream.row is not None:
            self._decoder.remove(stream.row)
            stream.row = None

    def _deliver(self, progress: list[_Progress]) -> None:
        for one in progress:
            one.stream.deliver(one.ids, one.compute_s, one.details)
            if one.failure:
                one.stream.fail(GenerationFailed(one.failure))
            elif one.reason is not None:
                one.stream.end(one.reason)
            if one.stream.has_ended:
                self.stop(one.stream)


def _bistream(stream: TokenStream) -> tuple[_TorchStream, BistreamPlan]:
    assert isinstance(stream, _TorchStream), "a stream of another generator"
    assert isinstance(stream.plan, BistreamPlan), "text pushed to an utterance that has all its text"
    return stream, stream.plan


def _stream_of(row: Row) -> _TorchStream:
    stream = row.request.owner
    assert isinstance(stream, _TorchStream), stream
    return stream
