"""What the language model's side raises reaches a client as an error of the table."""

import pytest

from firstword.app.core.tokens import start, wait_for
from firstword.app.errors import InvalidRequest, Restarting, SynthesisFailed, TextTooLong, TtsError
from firstword.models.lm.tokens import (
    EngineRestarting,
    GenerationFailed,
    InvalidTokens,
    TokenError,
    TokenStream,
    TooManyTokens,
)


@pytest.mark.anyio
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
    raised: type[TokenError], seen: type[TtsError], param: str | None
) -> None:
    tokens = TokenStream()
    tokens.fail(raised("it is so"))
    with pytest.raises(seen, match=r"^it is so$") as caught:
        await wait_for(tokens, 1)
    assert type(caught.value) is seen
    assert getattr(caught.value, "param", None) == param

    class Generator:
        def start(self, request: object) -> TokenStream:
            raise raised("nor here")

    with pytest.raises(seen, match=r"^nor here$"):
        start(Generator(), None)  # type: ignore[arg-type]
