"""What of an utterance token2wav is given at once."""

from collections.abc import Sequence

import pytest
from torch import Tensor

from firstword.models.token2wav_step import StepInput, StepTimes
from tests.support.pace import until_idle
from tests.support.toy_engine import HOP, LOOKAHEAD, ToyEngine, ToyState, ToyToken2Wav, asked

FIRST = HOP + LOOKAHEAD
IDS = list(range(1, 51))
Chunk = tuple[list[int], bool]
pytestmark = pytest.mark.anyio


class RecordingToken2Wav(ToyToken2Wav):
    """Remembers each chunk: its tokens, and whether it is the last."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[Chunk] = []

    def step(self, batch: Sequence[StepInput[ToyState]], times: StepTimes | None = None) -> list[Tensor]:
        self.chunks += [(list(item.tokens), item.is_last) for item in batch]
        return super().step(batch, times)


async def chunks_of(num_tokens: int, arrivals: Sequence[int]) -> list[Chunk]:
    """Of an utterance whose tokens have come up to each of `arrivals`, then all."""
    token2wav = RecordingToken2Wav()
    ids = IDS[:num_tokens]
    async with ToyEngine(token2wav=token2wav) as toy:
        toy.generator.is_by_hand = True
        async with toy.engine.open(asked("Some text.")) as stream:
            tokens = await toy.generator.coming.get()
            position = 0
            for ready in arrivals:
                toy.generator.say(tokens, ids[position:ready], ends=False)
                position = ready
                await until_idle()
            toy.generator.say(tokens, ids[position:])
            async for _ in stream:
                pass
    return token2wav.chunks


async def test_the_first_chunk_waits_for_its_hop_and_the_lookahead() -> None:
    token2wav = RecordingToken2Wav()
    async with ToyEngine(token2wav=token2wav) as toy:
        toy.generator.is_by_hand = True
        async with toy.engine.open(asked("Some text.")) as stream:
            tokens = await toy.generator.coming.get()
            toy.generator.say(tokens, IDS[: FIRST - 1], ends=False)
            await until_idle()
            assert token2wav.chunks == []
            toy.generator.say(tokens, IDS[FIRST - 1 : FIRST], ends=False)
            await anext(aiter(stream))
            assert token2wav.chunks == [(IDS[:FIRST], False)]


@pytest.mark.parametrize("num_tokens", [1, FIRST - 1, FIRST, FIRST + 1, FIRST + HOP - 1, FIRST + HOP, 50])
async def test_chunks_cover_every_token_once_and_only_the_last_ends(num_tokens: int) -> None:
    chunks = await chunks_of(num_tokens, [])
    assert [token for tokens, _ in chunks for token in tokens] == IDS[:num_tokens]
    assert [is_last for _, is_last in chunks] == [False] * (len(chunks) - 1) + [True]
    assert all(len(tokens) == (HOP if index else FIRST) for index, (tokens, _) in enumerate(chunks[:-1]))


@pytest.mark.parametrize("arrivals", [[1, 2, 3, 20], [FIRST], [4, 6, 21, 22], list(range(1, 30))])
async def test_chunks_do_not_depend_on_how_tokens_came(arrivals: list[int]) -> None:
    assert await chunks_of(30, arrivals) == await chunks_of(30, [])


async def test_an_end_that_comes_after_the_last_token_is_told_by_a_chunk_without_tokens() -> None:
    token2wav = RecordingToken2Wav()
    async with ToyEngine(token2wav=token2wav) as toy:
        toy.generator.is_by_hand = True
        async with toy.engine.open(asked("Some text.")) as stream:
            tokens = await toy.generator.coming.get()
            toy.generator.say(tokens, IDS[: FIRST + HOP], ends=False)
            events = aiter(stream)
            await anext(events)
            await anext(events)
            tokens.end("eos")
            async for _ in events:
                pass
    assert token2wav.chunks == [(IDS[:FIRST], False), (IDS[FIRST : FIRST + HOP], False), ([], True)]
