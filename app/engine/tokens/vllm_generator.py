"""Speech tokens from vLLM.

An utterance in pieces that an engine in another process can run by itself.

Keeps an engine in another process alive: when it dies it is started again, later each time.

Speech tokens from vLLM: each utterance is a task that runs it request by request.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

from firstword.app.engine.tokens.interface import TokenRequest, TokenStream
from firstword.app.engine.tokens.prompt import plan_of
from firstword.app.errors import Restarting, SynthesisFailed, TextTooLong, TtsError
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import BistreamPlan, ForceFill, Plan, Run, Stop, Vocabulary, WaitForText
from firstword.models.vllm.sampler import SamplingState


class EngineDied(Exception):
    """The engine's process is gone, and all that ran in it."""


@dataclass(frozen=True, slots=True)
class DecodeRequest:
    """Run `prompt_ids`, then draw up to `max_ids` ids, running each, up to the first of the stop set.

    What an earlier leg of the utterance has run is a prefix of these, which the engine's cache still has.
    """

    prompt_ids: tuple[int, ...]
    sampling: SamplingState
    max_ids: int


class DecodeEngine(Protocol):
    """Used within one event loop."""

    def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        """The ids as they are drawn, one or several at a time; closed early, it stops and frees its memory.

        Raises EngineDied.
        """
        ...

    async def wait_until_dead(self) -> None:
        """Returns when its process is gone, however it went."""
        ...

    async def aclose(self) -> None: ...


FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
STABLE_AFTER_S = 300.0  # an engine that lived so long dies for another reason than the last one
_log = logging.getLogger(__name__)


class EngineSupervisor:
    """Used within one event loop. `unready_reason` says in one line why there is no engine."""

    def __init__(
        self,
        open_engine: Callable[[], Awaitable[DecodeEngine]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._open_engine, self._sleep, self._clock = open_engine, sleep, clock
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
            await _close_dead(engine)
            engine, num_deaths = await self._restarted(num_deaths)
            self._engine, self.unready_reason = engine, ""
            _log.warning("the language model's engine runs again")

    async def _restarted(self, num_deaths: int) -> tuple[DecodeEngine, int]:
        while True:
            await self._sleep(min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (num_deaths - 1)))
            try:
                return await self._open_engine(), num_deaths
            except Exception as error:  # whatever it was may pass; until then /readyz tells it
                num_deaths += 1
                why = " ".join(str(error).split())
                self.unready_reason = f"the language model's engine died, and did not start again: {why}"
                _log.exception("the language model's engine did not start (attempt %d)", num_deaths)


async def _close_dead(engine: DecodeEngine) -> None:
    try:
        await engine.aclose()
    except Exception:  # it is dead: nothing of it may keep the next one from starting
        _log.exception("what was left of the language model's engine could not be closed")


@dataclass(slots=True, eq=False)
class _Speech:
    """What one utterance needs. context: every id that has run, in order."""

    stream: TokenStream
    plan: Plan
    seed: int
    context: list[int] = field(default_factory=list)
    num_drawn: int = 0
    text_came: asyncio.Event = field(default_factory=asyncio.Event)


class VllmTokenGenerator:
    """A request ends where the plan wants anything else than to run the id that was drawn.

    is_greedy: the most probable id instead of a draw, for comparisons.
    """

    def __init__(
        self, supervisor: EngineSupervisor, config: Qwen2LMConfig, max_model_len: int, is_greedy: bool = False
    ) -> None:
        """supervisor: started, and closed with the generator. max_model_len: of an utterance, in ids."""
        self._supervisor, self._vocabulary, self._is_greedy = supervisor, Vocabulary.of(config), is_greedy
        self._mix_ratio, self._window = config.mix_ratio, config.sampling.win_size
        self._max_model_len = max_model_len
        self._speeches: dict[TokenStream, tuple[_Speech, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # until they are done; stopped ones too
        self._num_running = 0
        self._is_closing = False

    @property
    def unready_reason(self) -> str:
        return self._supervisor.unready_reason

    def start(self, utterance: TokenRequest) -> TokenStream:
        plan = plan_of(utterance, self._vocabulary, self._mix_ratio)
        stream = TokenStream()
        if self._is_closing:
            stream.fail(SynthesisFailed("the server is stopping"))
            return stream
        speech = _Speech(stream, plan, utterance.seed)
        task = asyncio.create_task(self._run(speech), name="speech tokens")
        self._speeches[stream] = speech, task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return stream

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        if stream in self._speeches:
            self._pushed_plan(stream).push_text(ids)
            self._speeches[stream][0].text_came.set()

    def finish_text(self, stream: TokenStream) -> None:
        if stream in self._speeches:
            self._pushed_plan(stream).finish_text()
            self._speeches[stream][0].text_came.set()

    def stop(self, stream: TokenStream) -> None:
        stream.end("stopped")
        if stream in self._speeches:
            _, task = self._speeches.pop(stream)
            task.cancel()

    async def aclose(self) -> None:
        self._is_closing = True
        for stream in list(self._speeches):
            stream.fail(SynthesisFailed("the server stopped before the speech was finished"))
            self.stop(stream)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._supervisor.aclose()

    def _pushed_plan(self, stream: TokenStream) -> BistreamPlan:
        plan = self._speeches[stream][0].plan
        assert isinstance(plan, BistreamPlan), "text pushed to an utterance that has all"
        return plan

    async def _run(self, speech: _Speech) -> None:
        try:
            await self._speak(speech)
        except TtsError as error:
            speech.stream.fail(error)
        except EngineDied:
            why = "the language model's engine died while this was spoken; say it again in a moment"
            speech.stream.fail(Restarting(why))
        except Exception:  # it must not end the others
            _log.exception("an utterance failed")
            speech.stream.fail(SynthesisFailed("the language model failed on this text"))
        finally:
            self._speeches.pop(speech.stream, None)

    async def _speak(self, speech: _Speech) -> None:
        while not speech.stream.has_ended:
            match speech.plan.next_action():
                case Stop(reason):
                    speech.stream.end(reason)
                case WaitForText():
                    await speech.text_came.wait()
                    speech.text_came.clear()
                case ForceFill():
                    assert self._vocabulary.fill is not None, "a fill in a model without one"
                    speech.plan.accept(self._vocabulary.fill)
                case Run(ids):
                    await self._run_request(speech, self._next_request(speech, ids))
                case action:
                    raise AssertionError(action)

    def _next_request(self, speech: _Speech, ids: tuple[int, ...]) -> DecodeRequest:
        stretch, history = speech.plan.stretch, tuple(speech.plan.history[-self._window :])
        speech.context += ids
        speech.plan.mark_run()
        num_free = self._max_model_len - len(speech.context)
        if num_free <= 0:
            raise self._too_long()
        draws = SamplingState.of(stretch, speech.seed, speech.num_drawn, history, self._is_greedy)
        return DecodeRequest(tuple(speech.context), draws, min(stretch.num_ids, num_free))

    async def _run_request(self, speech: _Speech, request: DecodeRequest) -> None:
        """Compute time is shared: it passed once for all requests that ran."""
        self._num_running += 1
        came_s = time.perf_counter()
        try:
            async with aclosing(self._supervisor.engine.run(request)) as pieces:
                async for ids in pieces:
                    now_s = time.perf_counter()
                    spoken, is_over = self._taken(speech, ids)
                    speech.stream.deliver(spoken, (now_s - came_s) / self._num_running)
                    came_s = now_s
                    if is_over or speech.stream.has_ended:
                        return
        finally:
            self._num_running -= 1
        raise self._too_long()

    def _taken(self, speech: _Speech, ids: Sequence[int]) -> tuple[list[int], bool]:
        """-> the speech tokens among ids, and whether the request is over; ids behind its end are dropped."""
        spoken: list[int] = []
        for id in ids:
            if id >= self._vocabulary.num_classes:
                raise SynthesisFailed("the language model's answer was not finite")
            speech.num_drawn += 1
            speech.plan.accept(id)
            if id < self._vocabulary.num_speech_ids:
                spoken.append(id)
            if speech.plan.next_action() != Run((id,)):
                return spoken, True
            speech.context.append(id)  # the engine runs it by itself
            speech.plan.mark_run()
        return spoken, False

    def _too_long(self) -> TextTooLong:
        return TextTooLong(
            f"text and speech are longer than the {self._max_model_len} tokens that can be spoken in one go; "
            "send less text at once, or flush in between",
            "text",
        )
