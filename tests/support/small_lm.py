"""A small language model of random weights, a generator of its speech tokens, and requests for it."""

import asyncio
from functools import cache

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


def new_generator() -> TorchTokenGenerator:
    return TorchTokenGenerator(small_lm(), small_lm().config)


def utterance(text: tuple[int, ...] | None = TEXT, seed: int = 1) -> TokenRequest:
    return TokenRequest(text, (7, 8), (10, 11, 12), (), None, seed)


async def finished(stream: TokenStream) -> list[int]:
    async with asyncio.timeout(60):
        await stream.wait_until_ended()
    await stream.wait_for(0)
    return stream.ids
