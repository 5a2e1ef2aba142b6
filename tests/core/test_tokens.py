"""What the language model's side raises reaches a client as an error of the table."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from firstword.app.errors import InvalidRequest, Restarting, SynthesisFailed, TextTooLong, TtsError
from firstword.models.lm.tokens import (
    EngineRestarting,
    GenerationFailed,
    InvalidTokens,
    TokenError,
    TooManyTokens,
)
from tests.support.toy_engine import ToyEngine, asked, heard


async def speak(toy: ToyEngine) -> None:
    async with toy.engine.open(asked("Some text.")) as stream:
        await heard(stream)


async def list_tokens(toy: ToyEngine) -> None:
    async for _ in toy.engine.list_tokens(asked("Some text.")):
        pass


@pytest.mark.anyio
@pytest.mark.parametrize("ask", [speak, list_tokens])
@pytest.mark.parametrize(
    ("raised", "seen", "param"),
    [
        (InvalidTokens, InvalidRequest, "text"),
        (TooManyTokens, TextTooLong, "text"),
        (EngineRestarting, Restarting, None),
        (GenerationFailed, SynthesisFailed, None),
    ],
)
async def test_failures_keep_their_words(
    monkeypatch: pytest.MonkeyPatch,
    ask: Callable[[ToyEngine], Awaitable[None]],
    raised: type[TokenError],
    seen: type[TtsError],
    param: str | None,
) -> None:
    async with ToyEngine() as toy:
        toy.generator.is_by_hand = True
        asking = asyncio.ensure_future(ask(toy))
        (await toy.generator.coming.get()).fail(raised("it is so"))
        with pytest.raises(seen, match=r"^it is so$") as caught:
            await asking
        assert type(caught.value) is seen
        assert type(caught.value.__cause__) is raised
        assert getattr(caught.value, "param", None) == param

        def start(request: object) -> None:
            raise raised("nor here")

        monkeypatch.setattr(toy.generator, "start", start)
        with pytest.raises(seen, match=r"^nor here$"):
            await ask(toy)
