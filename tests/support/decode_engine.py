"""A decode engine that the test controls: the torch decoder's ids, a chosen number at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

import torch

from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.sampling import class_masks, sample
from firstword.models.runtimes.engines.decode_engine import DecodeRequest, EngineDied
from tests.support.small_lm import GrowingContext


async def until(condition: Callable[[], bool]) -> None:
    """Lets the others go on until it is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


class ToyDecodeEngine:
    """Runs every request from its beginning. It dies when the test says so."""

    def __init__(self, lm: Qwen2LM, ids_at_a_time: int = 1) -> None:
        self.lm, self.ids_at_a_time = lm, ids_at_a_time
        self.requests: list[DecodeRequest] = []
        self.num_running = 0
        self.is_closed = False
        self.goes_on = asyncio.Event()  # cleared, requests wait before their next piece
        self.goes_on.set()
        self._dead = asyncio.Event()

    def die(self) -> None:
        self._dead.set()
        self.goes_on.set()

    async def run(self, request: DecodeRequest) -> AsyncGenerator[Sequence[int], None]:
        self.requests.append(request)
        self.num_running += 1
        try:
            ids = self._ids(request)
            for start in range(0, len(ids), self.ids_at_a_time):
                await asyncio.sleep(0)
                await self.goes_on.wait()
                if self._dead.is_set():
                    raise EngineDied
                yield ids[start : start + self.ids_at_a_time]
        finally:
            self.num_running -= 1

    async def wait_until_dead(self) -> None:
        await self._dead.wait()

    async def aclose(self) -> None:
        self.is_closed = True

    @torch.inference_mode()
    def _ids(self, request: DecodeRequest) -> list[int]:
        draws, sampling = request.sampling, self.lm.config.sampling
        masks = class_masks(self.lm.vocabulary)
        generator = torch.Generator().manual_seed(draws.seed)
        torch.rand(draws.num_drawn, generator=generator, dtype=torch.float64)
        context, history = list(request.prompt_ids), list(draws.history)
        growing = GrowingContext(self.lm)
        while len(context) < len(request.prompt_ids) + request.max_ids:
            hidden = growing.hidden_behind(context)
            num_done = len(context) - len(request.prompt_ids)
            rule = draws.first_rule if num_done < draws.num_first else draws.later_rule
            window = history[-sampling.win_size :]
            drawn = sample(
                self.lm.logits(hidden),
                forbidden=masks[rule][None],
                history=torch.tensor([[-1] * (sampling.win_size - len(window)) + window]),
                uniforms=torch.rand(1, generator=generator, dtype=torch.float64),
                is_greedy=torch.tensor([draws.is_greedy]),
                config=sampling,
            ).item()
            context.append(int(drawn))
            history.append(int(drawn))
            if drawn >= self.lm.vocabulary.num_speech_ids:
                break
        return context[len(request.prompt_ids) :]
