"""The contract of a token generator: a `TokenRequest` goes in, a `TokenStream` comes out."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from firstword.models.config import LMConfig, Qwen2LMConfig, SamplingConfig
from firstword.models.lm.plan import (
    DEFAULT_RATIOS,
    BistreamPlan,
    LengthRatios,
    OfflinePlan,
    Plan,
    TokenDetail,
    Vocabulary,
)
from firstword.models.lm.silence import SilentTokenFilter

MAX_REPEATS = 25  # one token so many times in a row is a loop: a second of the same sound

EndReason = Literal["eos", "max_tokens", "token_loop", "stopped"]


class TokenError(Exception):
    """An utterance has no speech tokens, or no more of them; the message may be shown to a client."""


class InvalidTokens(TokenError):
    """A request with ids that the model does not have."""


class TooManyTokens(TokenError):
    """Text and speech are longer than the model can take."""


class EngineRestarting(TokenError):
    """The engine that runs the language model is gone, and is being started again."""


class GenerationFailed(TokenError):
    """The language model failed, or is being stopped."""


class SamplingChanges(Protocol):
    """How an utterance's tokens are drawn otherwise than the checkpoint says; None changes nothing.

    ras_window, ras_threshold: of repetition-aware sampling, the tokens looked at and the share of them from
    which on a token repeats. min_token_ratio, max_token_ratio: speech tokens per text token.
    """

    @property
    def temperature(self) -> float | None: ...
    @property
    def top_p(self) -> float | None: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def ras_window(self) -> int | None: ...
    @property
    def ras_threshold(self) -> float | None: ...
    @property
    def min_token_ratio(self) -> float | None: ...
    @property
    def max_token_ratio(self) -> float | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class TokenRequest:
    """What the language model reads for one utterance, without special ids: each generator adds its own.

    text_ids: the whole text; None: it is pushed while speech is generated. prefix_text_ids: CosyVoice 3's
    instruction, in front of the prompt's text. speaker: the embedding (192,) where the language model
    takes one. sampling: what differs from the checkpoint's.
    """

    text_ids: tuple[int, ...] | None
    prompt_text_ids: tuple[int, ...]
    prompt_speech_ids: tuple[int, ...]
    prefix_text_ids: tuple[int, ...]
    speaker: torch.Tensor | None
    seed: int
    ratios: LengthRatios = DEFAULT_RATIOS
    wants_logprobs: bool = False
    wants_attention: bool = False  # where the model has alignment heads
    sampling: SamplingChanges | None = None


class TokenStream:
    """The speech tokens of one utterance as they are generated: `ids` only grows.

    `details` grows with it. Lives in the event loop; one task waits for tokens.
    """

    def __init__(self, silent_ids: frozenset[int] = frozenset()) -> None:
        """silent_ids: tokens of which at most a few in a row are handed on."""
        self.ids: list[int] = []
        self.details: list[TokenDetail] = []
        self.reason: EndReason | None = None
        self.compute_s = 0.0
        self._silence = SilentTokenFilter(silent_ids)
        self._error: Exception | None = None
        self._last_id: int | None = None
        self._held: list[tuple[int, TokenDetail]] = []  # repeats of the last id, not in `ids` yet
        self._num_wanted = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = asyncio.Event()

    @property
    def has_ended(self) -> bool:
        return self.reason is not None or self._error is not None

    async def wait_for(self, num_tokens: int) -> None:
        """Return once there are so many tokens, or no more will come. Raises what it failed with."""
        while len(self.ids) < num_tokens and not self.has_ended:
            assert self._waiter is None, "a second task waits for the tokens"
            self._num_wanted = num_tokens
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._error is not None:
            raise self._error

    def wakes_with(self, num_more: int) -> bool:
        """Whether a task waits that so many more tokens are enough for."""
        return self._waiter is not None and len(self.ids) + num_more >= self._num_wanted

    async def wait_until_ended(self) -> None:
        """Return when it has ended or failed; any number of tasks may wait."""
        await self._ended.wait()

    def deliver(self, ids: Sequence[int], compute_s: float, details: Sequence[TokenDetail] = ()) -> None:
        """Add generated tokens. compute_s: this utterance's share of the step. details: () for none.

        Repeats of a token are held back until another one follows. MAX_REPEATS of one token in a row end
        the stream as "token_loop", without the repeats: no token is taken back.
        """
        self.compute_s += compute_s
        for token in zip(ids, details or [TokenDetail()] * len(ids), strict=True):
            if self.has_ended:
                return
            if token[0] != self._last_id:
                self._add([*self._held, token])
                self._last_id = token[0]
            elif len(self._held) < MAX_REPEATS - 2:
                self._held.append(token)
            else:
                self._held.clear()
                self.end("token_loop")
        if len(self.ids) >= self._num_wanted:
            self._wake()

    def end(self, reason: EndReason) -> None:
        """The first end counts."""
        if not self.has_ended:
            self._add(self._held)
            self.reason = reason
            self._ended.set()
            self._wake()

    def fail(self, error: Exception) -> None:
        """`wait_for` raises the error; a generator gives a TokenError."""
        if not self.has_ended:
            self._error = error
            self._ended.set()
            self._wake()

    def _add(self, tokens: Sequence[tuple[int, TokenDetail]]) -> None:
        for id, detail in tokens:
            if self._silence.lets_through(id):
                self.ids.append(id)
                self.details.append(detail)
        self._held.clear()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class TokenGenerator(Protocol):
    """Every method is called from the event loop and returns at once.

    The streams that are handed to it are those of its own `start`.
    """

    @property
    def unready_reason(self) -> str:
        """Why no utterance can be started now, in one line; empty while one can."""
        ...

    def start(self, request: TokenRequest) -> TokenStream:
        """Raises InvalidTokens."""
        ...

    def push_text(self, stream: TokenStream, ids: Sequence[int]) -> None:
        """More text for a request without `text_ids`; ignored once the stream has ended."""
        ...

    def finish_text(self, stream: TokenStream) -> None:
        """No more text follows. Raises ValueError if none was ever pushed."""
        ...

    def stop(self, stream: TokenStream) -> None:
        """End the stream ("stopped") and free what it holds at once; does nothing to an ended one."""
        ...

    async def aclose(self) -> None:
        """Fail the streams that still run, and free everything."""
        ...


def sampling_of(request: TokenRequest, config: SamplingConfig) -> SamplingConfig | None:
    """Return the checkpoint's sampling with what a request changes of it; None: nothing."""
    given = request.sampling
    if given is None:
        return None
    return SamplingConfig(
        top_p=config.top_p if given.top_p is None else given.top_p,
        top_k=config.top_k if given.top_k is None else given.top_k,
        win_size=config.win_size if given.ras_window is None else given.ras_window,
        tau_r=config.tau_r if given.ras_threshold is None else given.ras_threshold,
        temperature=config.temperature if given.temperature is None else given.temperature,
    )


def plan_of(request: TokenRequest, vocabulary: Vocabulary, config: LMConfig) -> Plan:
    """Return the decoding plan. Raises InvalidTokens."""
    prompt_text, prompt_speech = request.prompt_text_ids, request.prompt_speech_ids
    ratios, given = request.ratios, request.sampling
    if given is not None:
        maximum = ratios.maximum if given.max_token_ratio is None else given.max_token_ratio
        minimum = ratios.minimum if given.min_token_ratio is None else given.min_token_ratio
        ratios = LengthRatios(min(minimum, maximum), maximum)
    try:
        if request.text_ids is not None:
            text = request.prefix_text_ids + prompt_text
            return OfflinePlan(vocabulary, request.text_ids, text, prompt_speech, ratios)
        assert isinstance(config, Qwen2LMConfig), "text pushed to a model that reads all of it first"
        return BistreamPlan(
            vocabulary,
            prompt_text,
            prompt_speech,
            request.prefix_text_ids,
            mix_ratio=config.mix_ratio,
            prompt_before_blocks=config.prompt_before_blocks,
            ratios=ratios,
        )
    except ValueError as error:
        raise InvalidTokens(str(error)) from error
