"""A small language model of random weights, a generator of its speech tokens, and requests for it."""

import asyncio
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.token_thread import TorchTokenGenerator
from firstword.models.lm.tokens import TokenRequest, TokenStream
from tests.support.checkpoints import small_checkpoint

TEXT = (3, 1, 4, 1, 5, 9, 2, 6)


@cache
def small_lm() -> Qwen2LM:
    lm = open_checkpoint(small_checkpoint("cosyvoice2")).load_lm()
    assert isinstance(lm, Qwen2LM)
    return lm


class GrowingContext:
    """Runs a language model over ids that become more, each of them once."""

    def __init__(self, lm: Qwen2LM) -> None:
        self._lm, self._cache, self._num_run = lm, lm.new_cache(), 0
        self._cache.add_row()

    @torch.inference_mode()
    def hidden_behind(self, ids: Sequence[int]) -> Tensor:
        """ids: of the joint vocabulary, those of the last call first. -> (1, C)."""
        new = ids[self._num_run :]
        memory = self._cache.open_pass(range(1), [len(new)])
        hidden = self._lm(self._lm.prompt_embeddings(new), memory)[:, -1]
        memory.commit()
        self._num_run = len(ids)
        return hidden


def new_generator() -> TorchTokenGenerator:
    return TorchTokenGenerator(small_lm(), small_lm().config)


def utterance(text: tuple[int, ...] | None = TEXT, seed: int = 1) -> TokenRequest:
    return TokenRequest(text, (7, 8), (10, 11, 12), (), None, seed)


async def finished(stream: TokenStream) -> list[int]:
    async with asyncio.timeout(60):
        await stream.wait_until_ended()
    await stream.wait_for(0)
    return stream.ids
