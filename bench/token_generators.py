"""Speech tokens a second and the time to the first one: torch against vLLM, on one checkpoint.

`python -m bench token_generators` runs both in turn, so that a noisy machine hits both alike, and prints
medians; then how much of pushed text's prompts vLLM's cache serves, and what the sampler costs a step.
"""

import argparse
import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from prometheus_client import REGISTRY

from firstword.app.options import BUILTIN_CHECKPOINT, VllmOptions
from firstword.models.checkpoint.open import Checkpoint, open_checkpoint
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.plan import Forbidden, Vocabulary
from firstword.models.lm.token_thread import TorchTokenGenerator
from firstword.models.lm.tokens import TokenGenerator, TokenRequest, TokenStream
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineSupervisor
from firstword.models.runtimes.engines.generator import EngineTokenGenerator
from firstword.models.runtimes.engines.sampling_state import SamplingState
from firstword.models.runtimes.vllm.engine import VllmProcess, engine_arguments, set_environment
from firstword.models.runtimes.vllm.export import export

PROMPT_TEXT, PROMPT_SPEECH_TOKENS = tuple(range(10)), 75  # 3 s
STEPS_TIMED = 100


@dataclass(frozen=True, slots=True)
class Figures:
    tokens_per_s: float
    first_token_ms: float


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench token_generators", description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=BUILTIN_CHECKPOINT)
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--tokens", type=int, default=50, help="of each stream")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--memory-share", type=float, default=0.1)
    parser.add_argument("--speed-only", action="store_true", help="no cache, no sampler")
    parser.add_argument("--out", type=Path, default=Path("/tmp/firstword-vllm"), help="converted weights")
    arguments = parser.parse_args(words)
    torch.set_num_threads(arguments.threads)
    asyncio.run(measure(arguments))


async def measure(arguments: argparse.Namespace) -> None:
    checkpoint = open_checkpoint(arguments.checkpoint)
    config = checkpoint.config.lm
    assert isinstance(config, Qwen2LMConfig), "vLLM runs the language models of CosyVoice 2 and 3"
    keepers = await _keepers(arguments, checkpoint, config)
    generators: dict[str, TokenGenerator] = {
        "torch": TorchTokenGenerator(checkpoint.load_lm(), config),
        "vllm": EngineTokenGenerator(keepers[True], config, max_model_len=2048),
    }
    await _compare(generators, arguments)
    if not arguments.speed_only:
        await _measure_cache(generators["vllm"])
        await _time_sampler(keepers, Vocabulary.of(config), arguments)
        await keepers[False].aclose()
    for generator in generators.values():
        await generator.aclose()


async def _keepers(
    arguments: argparse.Namespace, checkpoint: Checkpoint, config: Qwen2LMConfig
) -> dict[bool, EngineSupervisor]:
    """An engine without the sampler and one with it; vLLM's metrics are those of the last that started."""
    export(arguments.checkpoint, arguments.out)
    options = VllmOptions(
        dtype="float32",
        max_num_seqs=max(arguments.concurrency),
        max_model_len=2048,
        memory_share=arguments.memory_share,
        eager=True,
    )
    set_environment(arguments.threads)
    keepers = {}
    for has_sampler in (True,) if arguments.speed_only else (False, True):
        name = "sampled" if has_sampler else "plain"
        given = engine_arguments(arguments.out, name, config, options, "cpu")
        if not has_sampler:
            given["logits_processors"] = []
        keepers[has_sampler] = await _started(given, Vocabulary.of(config))
    return keepers


async def _started(given: dict[str, object], vocabulary: Vocabulary) -> EngineSupervisor:
    supervisor = EngineSupervisor(lambda: VllmProcess.open(given, vocabulary))
    await supervisor.start()
    return supervisor


async def _compare(generators: dict[str, TokenGenerator], arguments: argparse.Namespace) -> None:
    found: dict[tuple[int, str], list[Figures]] = defaultdict(list)
    for seed in range(arguments.rounds + 1):
        for count in arguments.concurrency:
            for name, generator in generators.items():
                figures = await _timed(generator, count, arguments.tokens, seed)
                if seed > 0:  # the first round warms up
                    found[count, name].append(figures)
    print(f"{'streams':>8} {'':8} {'tokens/s':>10} {'first token, ms':>16}")
    for (count, name), values in found.items():
        speed = statistics.median(one.tokens_per_s for one in values)
        first = statistics.median(one.first_token_ms for one in values)
        print(f"{count:8} {name:8} {speed:10.1f} {first:16.1f}")


async def _timed(generator: TokenGenerator, count: int, num_tokens: int, seed: int) -> Figures:
    """`count` streams that start at once; the prompts differ, so that no cache knows them."""
    began = time.perf_counter()
    streams = [generator.start(_utterance(num_tokens, seed * 1000 + number)) for number in range(count)]
    firsts = await asyncio.gather(*(_time_of(stream, 1) for stream in streams))
    await asyncio.gather(*(_time_of(stream, num_tokens) for stream in streams))
    took = time.perf_counter() - began
    for stream in streams:
        generator.stop(stream)
    return Figures(count * num_tokens / took, 1000 * (statistics.median(firsts) - began))


async def _time_of(stream: TokenStream, num_tokens: int) -> float:
    await stream.wait_for(num_tokens)
    return time.perf_counter()


def _utterance(num_tokens: int, seed: int) -> TokenRequest:
    """Its text is so long that speech cannot end before `num_tokens`."""
    numbers = torch.Generator().manual_seed(seed)
    text = torch.randint(0, 600, (num_tokens,), generator=numbers).tolist()
    speech = torch.randint(0, 6561, (PROMPT_SPEECH_TOKENS,), generator=numbers).tolist()
    return TokenRequest(tuple(text), PROMPT_TEXT, tuple(speech), (), None, seed)


async def _time_sampler(
    keepers: dict[bool, EngineSupervisor], vocabulary: Vocabulary, arguments: argparse.Namespace
) -> None:
    """A step with the sampler against one where vLLM takes the largest logit, each at its quietest."""
    print(f"{'streams':>8} {'step, ms':>10} {'without the sampler':>20}")
    for count in arguments.concurrency:
        steps_ms: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(arguments.rounds + 1):
            for has_sampler, supervisor in keepers.items():
                steps_ms[has_sampler].append(await _step_ms(supervisor, vocabulary, count))
        best = {has_sampler: min(values) for has_sampler, values in steps_ms.items()}
        print(f"{count:8} {best[True]:10.2f} {best[False]:20.2f}")


async def _step_ms(supervisor: EngineSupervisor, vocabulary: Vocabulary, count: int) -> float:
    rule = int(Forbidden.STOPS)
    prompt = vocabulary.sos, *vocabulary.text(range(100)), vocabulary.task
    draws = SamplingState(0, 0, (), rule, STEPS_TIMED, rule)
    requests = [DecodeRequest(prompt, replace(draws, seed=seed), STEPS_TIMED) for seed in range(count)]
    began = time.perf_counter()
    numbers = await asyncio.gather(*(_count(supervisor, request) for request in requests))
    return 1000 * (time.perf_counter() - began) / max(numbers)


async def _count(supervisor: EngineSupervisor, request: DecodeRequest) -> int:
    return sum([len(ids) async for ids in supervisor.engine.run(request)])


async def _measure_cache(generator: TokenGenerator) -> None:
    """One long utterance whose text comes five tokens at a time, each when the last were spoken."""
    before = _cache_counts()
    whole = _utterance(60, 77)
    assert whole.text_ids is not None
    stream = generator.start(replace(whole, text_ids=None))
    num_first = PROMPT_SPEECH_TOKENS // 3  # with less, the prompt's speech is not laid yet
    generator.push_text(stream, whole.text_ids[:num_first])
    for start in range(num_first, len(whole.text_ids), 5):
        await stream.wait_for(len(stream.ids) + 5)
        generator.push_text(stream, whole.text_ids[start : start + 5])
    generator.finish_text(stream)
    await stream.wait_until_ended()
    queries, hits = (after - earlier for after, earlier in zip(_cache_counts(), before, strict=True))
    print(f"pushed text: {hits:.0f} of {queries:.0f} prompt tokens from the cache, {hits / queries:.0%}")


def _cache_counts() -> Sequence[float]:
    """Prompt tokens asked for and found, of all engines."""
    names = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
    samples = [sample for family in REGISTRY.collect() for sample in family.samples]
    return [sum(sample.value for sample in samples if sample.name == name) for name in names]


if __name__ == "__main__":
    main()
