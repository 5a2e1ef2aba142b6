"""vLLM's engine with a reference network, in a thread with an event loop of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from firstword.app.options import VllmOptions
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.tokens import TokenRequest, TokenStream
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from firstword.models.runtimes.vllm.export import write_model
from tests.parity.reference import Case
from tests.support.reference_lm import bistream_plan, ids, load_lm
from tests.vllm.widening import widened

TIMEOUT_S = 240
MAX_MODEL_LEN = 2048
MAX_NUM_SEQS = 8

SEED = 11

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, eq=False)
class VllmEngine:
    """lm: what the engine runs, in torch. The generators share the engine; one takes the most probable id."""

    case: Case
    lm: Qwen2LM
    supervisor: EngineSupervisor
    generator: EngineTokenGenerator
    greedy: EngineTokenGenerator
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """In the engine's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_S)

    async def drawn(self, request: DecodeRequest) -> list[int]:
        return [id async for ids in self.supervisor.engine.run(request) for id in ids]


async def finished(stream: TokenStream) -> list[int]:
    async with asyncio.timeout(TIMEOUT_S):
        await stream.wait_until_ended()
    await stream.wait_for(0)
    return stream.ids


async def spoken(generator: EngineTokenGenerator, utterance: TokenRequest) -> list[int]:
    return await finished(generator.start(utterance))


def whole_utterance(engine: VllmEngine, seed: int = SEED) -> TokenRequest:
    io = engine.case.io
    text, prompt = tuple(ids(io["text"])), tuple(ids(io["prompt_text"]))
    return TokenRequest(text, prompt, tuple(ids(io["prompt_speech_token"])), (), None, seed)


def pushed_utterance(engine: VllmEngine, seed: int = SEED) -> TokenRequest:
    io = engine.case.io
    _, prefix = bistream_plan(engine.case, engine.lm)
    prompt_text = tuple(ids(io["prompt_text"]))[len(prefix) :]
    return TokenRequest(None, prompt_text, tuple(ids(io["prompt_speech_token"])), tuple(prefix), None, seed)


@contextmanager
def open_engine(case: Case, directory: Path) -> Iterator[VllmEngine]:
    lm = load_lm(case)
    assert isinstance(lm, Qwen2LM)
    wide = widened(lm)
    write_model(wide, directory, "float32")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        engine = _run(loop, _build(case, wide, directory, loop))
        yield engine
        _run(loop, engine.generator.aclose())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _build(case: Case, lm: Qwen2LM, directory: Path, loop: asyncio.AbstractEventLoop) -> VllmEngine:
    from firstword.models.runtimes.vllm.engine import VllmProcess, engine_arguments, set_environment

    options = VllmOptions(
        dtype="float32",
        max_num_seqs=MAX_NUM_SEQS,
        max_model_len=MAX_MODEL_LEN,
        memory_share=0.02,
        eager=True,
    )
    set_environment(num_threads=1)
    arguments = engine_arguments(directory, case.name, lm.config, options, "cpu")
    supervisor = EngineSupervisor(lambda: VllmProcess.open(arguments, Vocabulary.of(lm.config)))
    await supervisor.start()
    drawing = EngineTokenGenerator(supervisor, lm.config, MAX_MODEL_LEN)
    greedy = EngineTokenGenerator(supervisor, lm.config, MAX_MODEL_LEN, is_greedy=True)
    return VllmEngine(case, lm, supervisor, drawing, greedy, loop)


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    return asyncio.run_coroutine_threadsafe(work, loop).result(TIMEOUT_S)
