"""Speech tokens from vLLM: decode requests to an engine process, and the supervisor that restarts it."""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from firstword.app.engine.tokens.interface import TokenRequest, TokenStream
from firstword.app.engine.tokens.prompt import plan_of, sampling_of
from firstword.app.errors import Restarting, SynthesisFailed, TextTooLong, TtsError
from firstword.models.config import Qwen2LMConfig, SamplingConfig
from firstword.models.lm.alignment_reader import AlignmentReader, AlignmentStream
from firstword.models.lm.plan import (
    BistreamPlan,
    ForceFill,
    Plan,
    Run,
    Stop,
    TokenDetail,
    Vocabulary,
    WaitForText,
)
from firstword.models.lm.silence import silent_ids
from firstword.models.vllm.sampling_state import SamplingState


class EngineDied(Exception):
    """The engine's process is gone, and all that ran in it."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """Prefill `prompt_ids`, then decode up to `max_ids` ids, up to the first of the stop set.

    The ids of an utterance's earlier requests are a prefix of these, which the engine's cache still has.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingState
    max_ids: int


class DecodeEngine(Protocol):
    """Used within one event loop."""

    def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        """Yield the ids as they are drawn, one or several at a time. Closed early, it frees its memory.

        Raises EngineDied.
        """
        ...

    async def wait_until_dead(self) -> None:
        """Return when its process is gone, for whatever reason."""
        ...

    async def aclose(self) -> None: ...


FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
MAX_UNREAD = 25  # tokens that wait for their second pass
STABLE_AFTER_S = 300.0  # a death after that is taken for a new trouble: the delay starts anew
_log = logging.getLogger(__name__)


class EngineSupervisor:
    """Supervises the engine process: restarts it when it dies, with exponential back-off.

    Used within one event loop. `unready_reason` says in one line why there is no engine.
    """

    def __init__(
        self,
        open_engine: Callable[[], Awaitable[DecodeEngine]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        on_restart: Callable[[], None] = lambda: None,
    ) -> None:
        """on_restart: called when an engine runs in place of one that died."""
        self._open_engine, self._sleep, self._clock = open_engine, sleep, clock
        self._on_restart = on_restart
        self._engine: DecodeEngine | None = None
        self._task: asyncio.Task[None] | None = None
        self.unready_reason = "the language model's engine starts"

    async def start(self) -> None:
        """Raises what `open_engine` raises: a first start is not tried again."""
        self._engine = await self._open_engine()
        self.unready_reason = ""
        self._task = asyncio.create_task(self._watch(self._engine), name="engine supervisor")

    @property
    def engine(self) -> DecodeEngine:
        """Raises Restarting while there is none."""
        if self._engine is None:
            raise Restarting(self.unready_reason)
        return self._engine

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.aclose()

    async def _watch(self, engine: DecodeEngine) -> None:
        num_deaths = 0
        while True:
            began = self._clock()
            await engine.wait_until_dead()
            lived_s = self._clock() - began
            num_deaths = 1 if lived_s > STABLE_AFTER_S else num_deaths + 1
            self._engine = None
            self.unready_reason = "the language model's engine died; it is started again"
            _log.error("the language model's engine died after %.0f s; it is started again", lived_s)
            try:
                await engine.aclose()
            except Exception:  # it is dead: nothing of it may keep the next one from starting
                _log.exception("what was left of the language model's engine could not be closed")
            while self._engine is None:
                await self._sleep(min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (num_deaths - 1)))
                try:
                    self._engine = engine = await self._open_engine()
                except Exception as error:  # whatever it was may pass; until then /readyz tells it
                    num_deaths += 1
                    why = " ".join(str(error).split())
                    self.unready_reason = f"the language model's engine died, and did not start again: {why}"
                    _log.exception("the language model's engine did not start (attempt %d)", num_deaths)
            self.unready_reason = ""
            self._on_restart()
            _log.warning("the language model's engine runs again")


class _VllmStream(TokenStream):
    """An utterance of this generator, with its plan and the task that runs it."""

    def __init__(
        self, plan: Plan, seed: int, silent_ids: frozenset[int], sampling: SamplingConfig | None
    ) -> None:
        super().__init__(silent_ids)
        self.plan = plan
        self.seed = seed
        self.sampling = sampling  # None: that of the checkpoint
        self.context: list[int] = []  # every id that has run, in order
        self.num_drawn = 0
        self.text_came = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.alignment: AlignmentStream | None = None  # where word times are wanted and can be had


class VllmTokenGenerator:
    """A decode request ends where the plan asks for anything but running the id that was drawn."""

    def __init__(
        self,
        supervisor: EngineSupervisor,
        config: Qwen2LMConfig,
        max_model_len: int,
        is_greedy: bool = False,
        alignment: AlignmentReader | None = None,
    ) -> None:
        """supervisor: started; it is closed with the generator. max_model_len: ids of one utterance.

        is_greedy: take the most probable id instead of a draw, for comparisons. alignment: what text a token
        is about, which vLLM does not say; None: the model has no alignment heads.
        """
        self._supervisor = supervisor
        self._vocabulary = Vocabulary.of(config)
        self._silent_ids = silent_ids(config)
        self._config = config
        self._max_model_len = max_model_len
        self._is_greedy = is_greedy
        self._alignment = alignment
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="alignment")
        self._running: set[_VllmStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()  # until they are done; stopped ones too
        self._num_requests = 0  # that the engine runs
        self._is_closing = False

    @property
    def unready_reason(self) -> str:
        return self._supervisor.unready_reason

    def start(self, request: TokenRequest) -> TokenStream:
        plan = plan_of(request, self._vocabulary, self._config)
        sampling = sampling_of(request, self._config.sampling)
        stream = _VllmStream(plan, request.seed, self._silent_ids, sampling)
        if request.wants_attention and self._alignment is not None:
            stream.alignment = self._alignment.open()
        if self._is_closing:
            stream.fail(SynthesisFailed("the server is stopping"))
            return stream
        stream.task = asyncio.create_task(self._run(stream), name="speech tokens")
        self._running.add(stream)
        self._tasks.add(stream.task)
        stream.task.add_done_callback(self._tasks.discard)
        return stream

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        if stream in self._running:
            stream, plan = _bistream(stream)
            plan.push_text(ids)
            stream.text_came.set()

    def finish_text(self, stream: TokenStream) -> None:
        if stream in self._running:
            stream, plan = _bistream(stream)
            plan.finish_text()
            stream.text_came.set()

    def stop(self, stream: TokenStream) -> None:
        assert isinstance(stream, _VllmStream), "a stream of another generator"
        stream.end("stopped")
        if stream in self._running:
            self._running.discard(stream)
            assert stream.task is not None
            stream.task.cancel()

    async def aclose(self) -> None:
        self._is_closing = True
        for stream in list(self._running):
            stream.fail(SynthesisFailed("the server stopped before the speech was finished"))
            self.stop(stream)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.to_thread(self._reading.shutdown, cancel_futures=True)
        await self._supervisor.aclose()

    async def _run(self, stream: _VllmStream) -> None:
        try:
            while not stream.has_ended:
                match stream.plan.next_action():
                    case Stop(reason):
                        stream.end(reason)
                    case WaitForText():
                        await stream.text_came.wait()
                        stream.text_came.clear()
                    case ForceFill():
                        assert self._vocabulary.fill is not None, "a fill in a model without one"
                        stream.plan.accept(self._vocabulary.fill)
                    case Run(ids):
                        await self._decode(stream, ids)
                    case action:
                        raise AssertionError(action)
        except TtsError as error:
            stream.fail(error)
        except EngineDied:
            why = "the language model's engine died while this was spoken; try again in a moment"
            stream.fail(Restarting(why))
        except Exception:  # it must not end the others
            _log.exception("an utterance failed")
            stream.fail(SynthesisFailed("the language model failed on this text"))
        finally:
            self._running.discard(stream)

    async def _decode(self, stream: _VllmStream, new_ids: tuple[int, ...]) -> None:
        """Run the new ids and draw behind them. Compute time is divided among the requests that run.

        Where word times are wanted, tokens are delivered once as many are there as somebody waits for.
        """
        span = stream.plan.sampling_span
        history = tuple(stream.plan.history[-(stream.sampling or self._config.sampling).win_size :])
        stream.context += new_ids
        stream.plan.mark_run()
        num_free = self._max_model_len - len(stream.context)
        if num_free <= 0:
            raise self._too_long()
        sampling = SamplingState.of(
            span, stream.seed, stream.num_drawn, history, self._is_greedy, stream.sampling
        )
        request = DecodeRequest(tuple(stream.context), sampling, min(span.num_ids, num_free))
        self._num_requests += 1
        came_s = time.perf_counter()
        drawn: list[int] = []  # speech tokens that are not delivered yet
        positions: list[int] = []
        compute_s = 0.0
        text_positions = tuple(stream.plan.text_positions)
        try:
            async with aclosing(self._supervisor.engine.run(request)) as pieces:
                async for ids in pieces:
                    now_s = time.perf_counter()
                    compute_s += (now_s - came_s) / self._num_requests
                    came_s = now_s
                    speech_ids, came_in, is_over = self._accepted(stream, ids)
                    drawn += speech_ids
                    positions += came_in
                    is_due = is_over or len(drawn) >= MAX_UNREAD or stream.wakes_with(len(drawn))
                    if stream.alignment is not None and not is_due:
                        continue  # a second pass over many tokens costs little more than over one
                    details = await self._details(stream, positions, text_positions)
                    stream.deliver(drawn, compute_s, details)
                    drawn, positions, compute_s = [], [], 0.0
                    if is_over or stream.has_ended:
                        return
        finally:
            self._num_requests -= 1
        raise self._too_long()

    async def _details(
        self, stream: _VllmStream, positions: Sequence[int], text_positions: Sequence[int]
    ) -> Sequence[TokenDetail]:
        """What the alignment heads look for at the positions where speech tokens were drawn."""
        if stream.alignment is None or not positions:
            return ()
        unread = stream.context[stream.alignment.num_read : positions[-1] + 1]
        read = partial(stream.alignment.read, unread, positions, text_positions)
        queries = await asyncio.get_running_loop().run_in_executor(self._reading, read)
        return [TokenDetail(query=query) for query in queries]

    def _accepted(self, stream: _VllmStream, ids: Sequence[int]) -> tuple[list[int], list[int], bool]:
        """-> the speech tokens among ids, the positions that each was drawn in, whether the request is over.

        Ids behind its end are dropped.
        """
        speech_ids: list[int] = []
        positions: list[int] = []
        for id in ids:
            if id >= self._vocabulary.num_classes:
                raise SynthesisFailed("the language model's answer was not finite")
            stream.num_drawn += 1
            stream.plan.accept(id)
            if id < self._vocabulary.num_speech_ids:
                speech_ids.append(id)
                positions.append(len(stream.context) - 1)
            if stream.plan.next_action() != Run((id,)):
                return speech_ids, positions, True
            stream.context.append(id)  # the engine runs it by itself
            stream.plan.mark_run()
        return speech_ids, positions, False

    def _too_long(self) -> TextTooLong:
        return TextTooLong(
            f"text and speech are longer than the {self._max_model_len} tokens that can be spoken in one go; "
            "send less text at once, or flush in between",
            "text",
        )


def _bistream(stream: TokenStream) -> tuple[_VllmStream, BistreamPlan]:
    assert isinstance(stream, _VllmStream), "a stream of another generator"
    assert isinstance(stream.plan, BistreamPlan), "text pushed to an utterance that has all its text"
    return stream, stream.plan
