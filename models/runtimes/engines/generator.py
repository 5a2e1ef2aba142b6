"""Speech tokens from an engine in a process of its own, vLLM's or TensorRT-LLM's, by decode requests."""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from functools import partial

import torch

from firstword.models.checkpoint.open import Checkpoint
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
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.silence import silent_ids
from firstword.models.lm.tokens import (
    EngineRestarting,
    GenerationFailed,
    TokenError,
    TokenRequest,
    TokenStream,
    TooManyTokens,
    plan_of,
    sampling_of,
)
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineDied, EngineSupervisor
from firstword.models.runtimes.engines.sampling_state import SamplingState
from firstword.models.runtimes.interface import Device

MAX_UNREAD = 25  # tokens that wait for their second pass
_log = logging.getLogger(__name__)


class _EngineStream(TokenStream):
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


class EngineTokenGenerator:
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
        is about, which the engine does not say; None: the model has no alignment heads.
        """
        self._supervisor = supervisor
        self._vocabulary = Vocabulary.of(config)
        self._silent_ids = silent_ids(config)
        self._config = config
        self._max_model_len = max_model_len
        self._is_greedy = is_greedy
        self._alignment = alignment
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="alignment")
        self._running: set[_EngineStream] = set()
        self._tasks: set[asyncio.Task[None]] = set()  # until they are done; stopped ones too
        self._num_requests = 0  # that the engine runs
        self._is_closing = False

    @property
    def unready_reason(self) -> str:
        return self._supervisor.unready_reason

    def start(self, request: TokenRequest) -> TokenStream:
        plan = plan_of(request, self._vocabulary, self._config)
        sampling = sampling_of(request, self._config.sampling)
        stream = _EngineStream(plan, request.seed, self._silent_ids, sampling)
        if request.wants_attention and self._alignment is not None:
            stream.alignment = self._alignment.open()
        if self._is_closing:
            stream.fail(GenerationFailed("the server is stopping"))
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
        assert isinstance(stream, _EngineStream), "a stream of another generator"
        stream.end("stopped")
        if stream in self._running:
            self._running.discard(stream)
            assert stream.task is not None
            stream.task.cancel()

    async def aclose(self) -> None:
        self._is_closing = True
        for stream in list(self._running):
            stream.fail(GenerationFailed("the server stopped before the speech was finished"))
            self.stop(stream)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.to_thread(self._reading.shutdown, cancel_futures=True)
        await self._supervisor.aclose()

    async def _run(self, stream: _EngineStream) -> None:
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
        except TokenError as error:
            stream.fail(error)
        except EngineDied:
            why = "the language model's engine died while this was spoken; try again in a moment"
            stream.fail(EngineRestarting(why))
        except Exception:  # it must not end the others
            _log.exception("an utterance failed")
            stream.fail(GenerationFailed("the language model failed on this text"))
        finally:
            self._running.discard(stream)

    async def _decode(self, stream: _EngineStream, new_ids: tuple[int, ...]) -> None:
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
        self, stream: _EngineStream, positions: Sequence[int], text_positions: Sequence[int]
    ) -> Sequence[TokenDetail]:
        """What the alignment heads look for at the positions where speech tokens were drawn."""
        if stream.alignment is None or not positions:
            return ()
        unread = stream.context[stream.alignment.num_read : positions[-1] + 1]
        read = partial(stream.alignment.read, unread, positions, text_positions)
        queries = await asyncio.get_running_loop().run_in_executor(self._reading, read)
        return [TokenDetail(query=query) for query in queries]

    def _accepted(self, stream: _EngineStream, ids: Sequence[int]) -> tuple[list[int], list[int], bool]:
        """-> the speech tokens among ids, the positions that each was drawn in, whether the request is over.

        Ids behind its end are dropped.
        """
        speech_ids: list[int] = []
        positions: list[int] = []
        for id in ids:
            if id >= self._vocabulary.num_classes:
                raise GenerationFailed("the language model's answer was not finite")
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

    def _too_long(self) -> TooManyTokens:
        return TooManyTokens(
            f"text and speech are longer than the {self._max_model_len} tokens that can be spoken in one go; "
            "send less text at once, or flush in between"
        )


def alignment_reader(checkpoint: Checkpoint, device: Device) -> AlignmentReader | None:
    """Load the layers that find word times, which the engine does not run; None: the model has no such heads.

    device: of the other networks. Raises CheckpointError.
    """
    config = checkpoint.config.lm
    if not isinstance(config, Qwen2LMConfig) or not config.alignment_heads:
        return None
    lm = checkpoint.load_lm(torch.float32 if device == "cpu" else torch.bfloat16, device)
    assert isinstance(lm, Qwen2LM), lm
    return AlignmentReader(lm)


def _bistream(stream: TokenStream) -> tuple[_EngineStream, BistreamPlan]:
    assert isinstance(stream, _EngineStream), "a stream of another generator"
    assert isinstance(stream.plan, BistreamPlan), "text pushed to an utterance that has all its text"
    return stream, stream.plan
