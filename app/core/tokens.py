"""The language model's speech tokens within a stream: its failures as errors that a client can see."""

from collections.abc import Iterator
from contextlib import contextmanager

from firstword.app.errors import InvalidRequest, Restarting, SynthesisFailed, TextTooLong
from firstword.models.lm.tokens import (
    EngineRestarting,
    InvalidTokens,
    TokenError,
    TokenGenerator,
    TokenRequest,
    TokenStream,
    TooManyTokens,
)


def start(generator: TokenGenerator, request: TokenRequest) -> TokenStream:
    """Start an utterance. Raises InvalidRequest for ids that the model does not have."""
    with _translated():
        return generator.start(request)


async def wait_for(tokens: TokenStream, num_tokens: int) -> None:
    """Wait for so many tokens, or the last. Raises TtsError if the stream failed."""
    with _translated():
        await tokens.wait_for(num_tokens)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except InvalidTokens as error:
        raise InvalidRequest(str(error), "text") from error
    except TooManyTokens as error:
        raise TextTooLong(str(error), "text") from error
    except EngineRestarting as error:
        raise Restarting(str(error)) from error
    except TokenError as error:
        raise SynthesisFailed(str(error)) from error
