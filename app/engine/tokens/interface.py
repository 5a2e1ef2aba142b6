"""What a token generator is asked, and the tokens of one utterance as they come."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from firstword.app.errors import TtsError

MAX_REPEATS = 25  # one token so many times in a row is a loop: a second of the same sound

EndReason = Literal["eos", "max_tokens", "token_loop", "stopped"]


@dataclass(frozen=True, slots=True, eq=False)
class TokenRequest:
    """What the language model reads: ids without the special ones, which each generator lays itself.

    text_ids: the whole text; None: it is pushed while speech is made. prefix_text_ids: CosyVoice 3's
    instruction. speaker: the embedding (192,) where the language model takes one.
    """

    text_ids: tuple[int, ...] | None
    prompt_text_ids: tuple[int, ...]
    prompt_speech_ids: tuple[int, ...]
    prefix_text_ids: tuple[int, ...]
    speaker: torch.Tensor | None
    seed: int


class TokenStream:
    """The speech tokens of one utterance. Lives in the event loop; one task waits for tokens."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.reason: EndReason | None = None
        self.compute_s = 0.0
        self._error: TtsError | None = None
        self._num_repeats = 0
        self._wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self.reason is not None or self._error is not None

    async def wait_for(self, num_tokens: int) -> None:
        """Returns once there are so many tokens, or no more will come. Raises TtsError where it failed."""
        while len(self.ids) < num_tokens and not self.has_ended:
            assert self._waiter is None, "a second task waits for the tokens"
            self._wanted, self._waiter = num_tokens, asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._error is not None:
            raise self._error

    async def wait_until_ended(self) -> None:
        """Well or not; any number of tasks may."""
        await self._ended.wait()

    def deliver(self, ids: Sequence[int], compute_s: float) -> None:
        """compute_s: this utterance's share of the step. A loop ends the stream without its repeats."""
        self.compute_s += compute_s
        for id in ids:
            if self.has_ended:
                return
            self._num_repeats = self._num_repeats + 1 if self.ids[-1:] == [id] else 1
            self.ids.append(id)
            if self._num_repeats >= MAX_REPEATS:
                del self.ids[1 - MAX_REPEATS :]
                self.end("token_loop")
        if len(self.ids) >= self._wanted:
            self._wake()

    def end(self, reason: EndReason) -> None:
        """The first end counts."""
        if not self.has_ended:
            self.reason = reason
            self._ended.set()
            self._wake()

    def fail(self, error: TtsError) -> None:
        if not self.has_ended:
            self._error = error
            self._ended.set()
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class TokenGenerator(Protocol):
    """Every method is called from the event loop and returns at once."""

    @property
    def unready_reason(self) -> str:
        """In one line why no utterance can be started now; empty while one can."""
        ...

    def start(self, utterance: TokenRequest) -> TokenStream:
        """Raises InvalidRequest for ids that the model does not have."""
        ...

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None: ...

    def finish_text(self, stream: TokenStream) -> None:
        """Raises ValueError if no text was ever pushed."""
        ...

    def stop(self, stream: TokenStream) -> None:
        """Ends the stream ("stopped") and frees its place at once; nothing happens to an ended one."""
        ...

    async def aclose(self) -> None:
        """Fails what still runs."""
        ...
