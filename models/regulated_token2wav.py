"""Speech tokens to samples, streaming, for CosyVoice 1.

Its flow sees everything it is given, so a chunk is solved with the prompt and the overlap before it:
the overlap's noise and mean are kept, its mel is faded. Work a chunk is constant; nothing before the
overlap is solved again. `models.token2wav` does the same for CosyVoice 2 and 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch
from torch import Tensor

from models.config import NUM_MELS
from models.crossfade import crossfaded
from models.flow.regulated_flow import CACHED_FRAMES, OVERLAP_TOKENS, RegulatedFlow
from models.frontend.speaker import Speaker
from models.hift.hift import Generate, HiFT
from models.hift.stream import Sound, vocode
from models.hift.windowed import WindowedVocoder, WindowState
from models.token2wav import StepInput, StepTimes, check_batch, check_tokens

DEFAULT_HOP_TOKENS = 50  # one second


@dataclass(frozen=True, slots=True, eq=False)
class RegulatedPrompt:
    """A speaker on the networks' device: read-only, shared by its streams."""

    tokens: Tensor  # (1, P)
    mel: Tensor  # (1, F, M)
    embedding: Tensor  # (1, 192)

    @property
    def state_bytes(self) -> int:
        return self.tokens.nbytes + self.mel.nbytes + self.embedding.nbytes


@dataclass(slots=True, eq=False)
class RegulatedState:
    """Everything one stream has."""

    prompt: RegulatedPrompt
    sound: Sound[WindowState]
    generator: torch.Generator  # of the flow's noise, on the CPU
    cache: Tensor  # (1, M, F + 34, 2), or no frames at the start
    mel_tail: Tensor | None = None  # (M, 34): withheld, to fade into the next chunk
    pending_tokens: list[int] = field(default_factory=list)
    has_all_tokens: bool = False
    is_finished: bool = False

    @property
    def state_bytes(self) -> int:
        tail = 0 if self.mel_tail is None else self.mel_tail.nbytes
        return self.cache.nbytes + tail + self.sound.num_bytes


class RegulatedToken2Wav:
    """Holds the weights. Threads may share it, as long as no two have the same state.

    hop_tokens: how many new tokens a chunk takes; it is solved with the overlap behind them, once it is
    known that there is more. Raises ValueError where it is not positive. generate: runs instead of the
    HiFT's own generator.
    """

    def __init__(
        self,
        flow: RegulatedFlow,
        hift: HiFT,
        hop_tokens: int = DEFAULT_HOP_TOKENS,
        generate: Generate | None = None,
    ):
        if hop_tokens < 1:
            raise ValueError(f"hop_tokens is {hop_tokens}, expected at least 1")
        self._flow = flow
        self._vocoder = WindowedVocoder(hift, generate)
        self._hop_tokens = hop_tokens
        self.lookahead_tokens = OVERLAP_TOKENS
        self.sample_rate_hz = hift.config.sample_rate_hz

    def prepare(self, speaker: Speaker) -> RegulatedPrompt:
        """Raises ValueError for a token that the flow does not know."""
        check_tokens(speaker.prompt_tokens.tolist(), self._flow.config.vocab_size)
        device = self._flow.projection.weight.device
        return RegulatedPrompt(
            speaker.prompt_tokens[None].to(device),
            speaker.prompt_mel[None].to(device, torch.float32),
            speaker.embedding[None].to(device),
        )

    def start(self, prompt: RegulatedPrompt, seed: int = 0) -> RegulatedState:
        """A new stream; `seed` draws the noise of flow and vocoder."""
        generator = torch.Generator().manual_seed(seed)
        sound = Sound(self._vocoder.start(seed))
        return RegulatedState(prompt, sound, generator, self._flow.empty_cache())

    def tokens_wanted(self, state: RegulatedState) -> int:
        """How many tokens more, overlap included, until a step of this stream gives the next audio."""
        return max(0, self._chunk_tokens + 1 - len(state.pending_tokens))

    @property
    def _chunk_tokens(self) -> int:
        return self._hop_tokens + OVERLAP_TOKENS

    @torch.inference_mode()
    def step(
        self, batch: Sequence[StepInput[RegulatedState]], times: StepTimes | None = None
    ) -> list[Tensor]:
        """-> new samples (N,) float32 of each stream, in order, on the networks' device; fills `times`.

        Raises:
            RefusedStep: a finished stream, a stream twice in the batch, or a token the flow does not know;
                nothing has changed then. After any other error the tokens are kept: step again with none.
        """
        check_batch(batch, self._flow.config.vocab_size)
        for item in batch:
            item.state.pending_tokens.extend(item.tokens)
            item.state.has_all_tokens |= item.is_last
        states = [item.state for item in batch]
        began = perf_counter()
        for state in states:
            while count := self._next_chunk(state):
                self._solve(state, count)
        solved = perf_counter()
        vocode(self._vocoder, [state.sound for state in states])
        if times is not None:
            times.flow_s, times.vocoder_s = solved - began, perf_counter() - solved
        for state in states:
            state.is_finished = state.has_all_tokens
        return [state.sound.take().to(self._flow.projection.weight.device) for state in states]

    def _next_chunk(self, state: RegulatedState) -> int:
        """How many of the pending tokens to solve now; 0: none.

        Whole chunks, then what is left: a stream sounds the same however its tokens came.
        """
        ready = len(state.pending_tokens)
        if ready > self._chunk_tokens:
            return self._chunk_tokens
        return ready if state.has_all_tokens else 0

    def _solve(self, state: RegulatedState, count: int) -> None:
        """Solves the first `count` pending tokens; all but the overlap at their end is done with then."""
        prompt = state.prompt
        tokens = torch.tensor([state.pending_tokens[:count]], device=prompt.tokens.device)
        generator = state.generator.clone_state()
        num_frames = prompt.mel.shape[1] + self._flow.num_frames(count)
        noise = torch.randn(1, NUM_MELS, num_frames, generator=generator).to(tokens.device)
        mel, cache = self._flow(tokens, prompt.tokens, prompt.mel, prompt.embedding, noise, state.cache)
        mel = crossfaded(mel[0], state.mel_tail)
        is_end = state.has_all_tokens and count == len(state.pending_tokens)
        if is_end:
            state.pending_tokens, state.mel_tail = [], None
        else:
            del state.pending_tokens[: count - OVERLAP_TOKENS]
            mel, state.mel_tail = mel[:, :-CACHED_FRAMES], mel[:, -CACHED_FRAMES:].clone()
        state.cache, state.generator = cache, generator
        state.sound.pending.append((mel, is_end))
