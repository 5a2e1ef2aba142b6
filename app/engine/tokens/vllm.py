"""Speech tokens from vLLM: each utterance is a task that runs it leg by leg."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from app.engine.interface import Restarting, SynthesisFailed, TextTooLong, TtsError
from app.engine.tokens.interface import TokenStream, Utterance
from app.engine.tokens.keeper import EngineKeeper
from app.engine.tokens.legs import EngineDied, Leg
from app.engine.tokens.planning import plan_of
from models.config import Qwen2LMConfig
from models.lm.interleaved_plan import InterleavedPlan
from models.lm.plan import ForceFill, Plan, Run, Stop, WaitForText
from models.lm.vocabulary import Vocabulary
from models.vllm.draws import Draws

_log = logging.getLogger(__name__)


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
    """A leg ends where the plan wants anything else than to run the id that was drawn.

    is_greedy: the most probable id instead of a draw, for comparisons.
    """

    def __init__(
        self, keeper: EngineKeeper, config: Qwen2LMConfig, max_model_len: int, is_greedy: bool = False
    ) -> None:
        """keeper: started, and closed with the generator. max_model_len: of an utterance, in ids."""
        self._keeper, self._vocabulary, self._is_greedy = keeper, Vocabulary.of(config), is_greedy
        self._mix_ratio, self._window = config.mix_ratio, config.sampling.win_size
        self._max_model_len = max_model_len
        self._speeches: dict[TokenStream, tuple[_Speech, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # until they are done; stopped ones too
        self._num_legs = 0
        self._is_closing = False

    @property
    def unready_reason(self) -> str:
        return self._keeper.unready_reason

    def start(self, utterance: Utterance) -> TokenStream:
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
        await self._keeper.aclose()

    def _pushed_plan(self, stream: TokenStream) -> InterleavedPlan:
        plan = self._speeches[stream][0].plan
        assert isinstance(plan, InterleavedPlan), "text pushed to an utterance that has all"
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
                    await self._run_leg(speech, self._leg(speech, ids))
                case action:
                    raise AssertionError(action)

    def _leg(self, speech: _Speech, ids: tuple[int, ...]) -> Leg:
        stretch, history = speech.plan.stretch, tuple(speech.plan.history[-self._window :])
        speech.context += ids
        speech.plan.mark_run()
        num_free = self._max_model_len - len(speech.context)
        if num_free <= 0:
            raise self._too_long()
        draws = Draws.of(stretch, speech.seed, speech.num_drawn, history, self._is_greedy)
        return Leg(tuple(speech.context), draws, min(stretch.num_ids, num_free))

    async def _run_leg(self, speech: _Speech, leg: Leg) -> None:
        """Compute time is shared: it passed once for all legs that ran."""
        self._num_legs += 1
        came_s = time.perf_counter()
        try:
            async with aclosing(self._keeper.engine.run(leg)) as pieces:
                async for ids in pieces:
                    now_s = time.perf_counter()
                    spoken, is_over = self._taken(speech, ids)
                    speech.stream.deliver(spoken, (now_s - came_s) / self._num_legs)
                    came_s = now_s
                    if is_over or speech.stream.has_ended:
                        return
        finally:
            self._num_legs -= 1
        raise self._too_long()

    def _taken(self, speech: _Speech, ids: Sequence[int]) -> tuple[list[int], bool]:
        """-> the speech tokens among ids, and whether the leg is over; what comes behind its end is left."""
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
