"""The exact incremental flow: chunk by chunk, nothing solved twice; or a whole utterance as one chunk.

A chunk is 25 tokens of the grid the flow was trained on, counted from the start of the prompt. Its
mel equals the one of a chunk-causal solve over everything, up to rounding, as long as all of the
past is within the window.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.encoder import pack_tokens
from firstword.models.flow.flow import Flow
from firstword.models.flow.kv_cache import CacheWindow, ChunkKVCache, ChunkRing, PromptCache
from firstword.models.flow.solver import noise_between, solve
from firstword.models.flow.state import estimator_layout, front_layouts
from firstword.models.state import StateLayout


@dataclass(frozen=True, slots=True)
class FlowPrompt:
    """Everything a stream needs of its speaker: a pure function of prompt tokens, prompt mel and embedding.

    The prompt's whole chunks are solved; its last tokens join the first generated chunk.
    """

    token_cache: PromptCache
    frame_cache: PromptCache
    estimator_cache: PromptCache
    spks: Tensor  # (1, M)
    pending_tokens: tuple[int, ...]
    pending_mel: Tensor  # (M, 2 * pending)
    pinned_chunks: int  # of a stream's own: they hold the prompt's rest, and so never leave its view

    @property
    def num_bytes(self) -> int:
        caches = (self.token_cache, self.frame_cache, self.estimator_cache)
        return sum(cache.num_bytes for cache in caches) + self.spks.nbytes + self.pending_mel.nbytes


@dataclass(slots=True)
class FlowState:
    """One stream's flow: its caches, and the tokens that no finished chunk holds yet."""

    prompt: FlowPrompt
    tokens: ChunkRing
    frames: ChunkRing
    estimator: ChunkRing
    pending_tokens: list[int]
    num_solved_frames: int = 0  # each counted once; the ten steps and the guidance not

    @property
    def num_bytes(self) -> int:
        return self.tokens.num_bytes + self.frames.num_bytes + self.estimator.num_bytes

    @property
    def prompt_mel(self) -> Tensor:
        """What of the prompt's mel lies at or after the start of the current chunk: (M, frames)."""
        return self.prompt.pending_mel[:, self.estimator.num_chunks * self.estimator.chunk_frames :]


@dataclass(frozen=True, slots=True)
class FlowChunk:
    """The next chunk of one stream: `tokens` to solve, then up to three of `lookahead`."""

    state: FlowState
    tokens: list[int]
    lookahead: list[int]


class Estimator(Protocol):
    """The flow's velocity network, with the cache that it needs of each stream."""

    @property
    def cache_class(self) -> type[ChunkKVCache]: ...

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        ...


class Front(Protocol):
    """Speech tokens to `mu`, with the cache that it needs of each stream."""

    @property
    def cache_class(self) -> type[ChunkKVCache]: ...

    def __call__(self, tokens: Tensor, token_context: BatchedCache, frame_context: BatchedCache) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        ...


class WholeChunk(Protocol):
    """Solves chunks from token ids to mel, with the rings that it needs: all three networks in one."""

    @property
    def cache_class(self) -> type[ChunkRing]: ...

    def __call__(
        self, chunks: Sequence[FlowChunk], rings: Sequence[Any], conds: Sequence[Tensor], /
    ) -> list[Tensor]:
        """rings: of the estimators. conds (M, frames): what is prompt -> mel (M, frames) of each chunk."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class FlowNetworks:
    """The two networks of a flow as they are run: torch's own, or a runtime's in their place.

    whole: runs every chunk of the grid instead of both and the solver; an utterance that is solved at once
    runs without it. max_state_bytes: of a stream, where `whole` has so much for it; None: there is no bound.
    """

    front: Front
    estimator: Estimator
    whole: WholeChunk | None = None
    max_state_bytes: int | None = None

    @classmethod
    def of(cls, flow: Flow) -> "FlowNetworks":
        return cls(flow.front, flow.estimator)


class IncrementalFlow:
    """Solves chunks of batches of streams. Holds the weights; a stream's state hangs from its `FlowState`."""

    def __init__(self, flow: Flow, networks: FlowNetworks | None = None):
        """networks: None: the flow's own."""
        self.flow = flow
        networks = networks or FlowNetworks.of(flow)
        self._front, self._front_cache = networks.front, networks.front.cache_class
        self._estimator, self._estimator_cache = networks.estimator, networks.estimator.cache_class
        self._whole = networks.whole
        self._grid_caches: tuple[type[ChunkRing], ...] = self._front_cache, self._estimator_cache
        if networks.whole is not None:
            self._grid_caches = networks.whole.cache_class, networks.whole.cache_class
        self.chunk_tokens = flow.chunk_tokens
        self.lookahead_tokens = flow.config.lookahead_tokens

    @torch.inference_mode()
    def solve_prompt(self, tokens: list[int], mel: Tensor, embedding: Tensor) -> FlowPrompt:
        """Solves the whole chunks of a prompt, once for all streams of its speaker.

        tokens: P ids. mel (2 P, M) float32. embedding (192,). Only chunks whose lookahead lies in the
        prompt are whole: (P - 3) // 25 of them.
        """
        device = self.flow.speaker_projection.weight.device
        prompt = FlowPrompt(
            PromptCache(),
            PromptCache(),
            PromptCache(),
            self.flow.speaker_projection(embedding.to(device)[None]),
            tuple(tokens),
            mel.mT.to(device, torch.float32),
            pinned_chunks=0,  # nothing leaves the view here
        )
        state = self.start(prompt, window_chunks=None)
        while chunk := self.next_chunk(state, is_last=False):
            self.solve_chunks([chunk])
        solved = state.estimator.num_chunks * self.chunk_tokens
        return FlowPrompt(
            state.tokens.copy_prefix(),
            state.frames.copy_prefix(),
            state.estimator.copy_prefix(),
            prompt.spks,
            tuple(tokens[solved:]),
            prompt.pending_mel[:, FRAMES_PER_TOKEN * solved :].clone(),
            pinned_chunks=math.ceil((len(tokens) - solved) / self.chunk_tokens),
        )

    @torch.inference_mode()
    def solve_whole(
        self, prompt_tokens: Sequence[int], prompt_mel: Tensor, spks: Tensor, tokens: Sequence[int]
    ) -> Tensor:
        """Solve a prompt and an utterance at once, every frame seeing all others.

        prompt_mel (2 P, M) float32, spks (1, M) -> mel (M, frames) of the utterance alone. It is one chunk of
        its length, whose steps share their caches: nothing follows that would need them.
        """
        like = self.flow.noise
        prompt = FlowPrompt(
            PromptCache(), PromptCache(), PromptCache(), spks, tuple(prompt_tokens), prompt_mel.mT.to(like), 0
        )
        state = self.start(prompt, window_chunks=0, chunk_tokens=len(prompt_tokens) + len(tokens))
        [mel] = self.solve_chunks([FlowChunk(state, [*prompt_tokens, *tokens], [])], keeps_steps=False)
        return mel

    def start(
        self, prompt: FlowPrompt, window_chunks: int | None, chunk_tokens: int | None = None
    ) -> FlowState:
        """window_chunks: own chunks that stay visible behind the current one; None: all of them.

        chunk_tokens: of the stream's chunks; None: those of the grid.
        """
        like = prompt.spks
        own: tuple[type[ChunkRing], ...] = self._front_cache, self._estimator_cache
        front_cache, estimator_cache = self._grid_caches if chunk_tokens is None else own
        chunk_tokens = chunk_tokens or self.chunk_tokens
        tokens = CacheWindow(chunk_tokens, window_chunks, prompt.pinned_chunks)
        frames = CacheWindow(FRAMES_PER_TOKEN * chunk_tokens, window_chunks, prompt.pinned_chunks)
        return FlowState(
            prompt,
            front_cache(tokens, prompt.token_cache, like),
            front_cache(frames, prompt.frame_cache, like),
            estimator_cache(frames, prompt.estimator_cache, like),
            list(prompt.pending_tokens),
        )

    def next_chunk(self, state: FlowState, is_last: bool) -> FlowChunk | None:
        """The next chunk of the pending tokens, if its lookahead is there too or nothing more comes."""
        ready = len(state.pending_tokens)
        if ready == 0 or (ready < self.chunk_tokens + self.lookahead_tokens and not is_last):
            return None
        tokens = state.pending_tokens[: self.chunk_tokens]
        lookahead = state.pending_tokens[self.chunk_tokens : self.chunk_tokens + self.lookahead_tokens]
        return FlowChunk(state, tokens, lookahead)

    def state_bytes(self) -> tuple[int, int]:
        """Memory of a stream: fixed bytes, and bytes for each chunk pinned, in the window, or current."""
        size = self.flow.front.embedding.weight.element_size()
        cfm = self.flow.config.cfm
        passes = cfm.rows_per_stream * cfm.num_steps
        tokens, frames, estimator = self._layouts
        fixed = tokens.fixed_values + frames.fixed_values + passes * estimator.fixed_values
        of_step = self._grid_caches[1].bytes_of(estimator.values_per_frame, estimator.vectors_per_frame, size)
        frame = passes * of_step + frames.values_per_frame * size
        per_chunk = self.chunk_tokens * (tokens.values_per_frame * size + FRAMES_PER_TOKEN * frame)
        return fixed * size, per_chunk

    @cached_property
    def _layouts(self) -> tuple[StateLayout, StateLayout, StateLayout]:
        """Of the front at both its rates, and of the estimator."""
        tokens, frames = front_layouts(self.flow.front, self.lookahead_tokens)
        return tokens, frames, estimator_layout(self.flow.estimator)

    def copied_bytes(self, prompt: FlowPrompt) -> int:
        """Bytes of the prompt that each stream has a copy of, beside `state_bytes`."""
        front_cache, estimator_cache = self._grid_caches
        caches = [prompt.estimator_cache] if estimator_cache.copies_prompt else []
        caches += [prompt.token_cache, prompt.frame_cache] if front_cache.copies_prompt else []
        return sum(cache.num_bytes for cache in caches)

    @torch.inference_mode()
    def solve_chunks(self, chunks: list[FlowChunk], keeps_steps: bool = True) -> list[Tensor]:
        """Solves one chunk of each stream together; -> mel (M, frames) of each, the prompt's frames cut off.

        keeps_steps: every step of the solver has caches of its own, for the next chunk.

        If it raises, no stream has changed and the call can be repeated.
        """
        mels: Sequence[Tensor] | Tensor
        rings = [chunk.state.estimator for chunk in chunks]
        if self._whole is not None and all(isinstance(ring, self._whole.cache_class) for ring in rings):
            frames = FRAMES_PER_TOKEN * self.chunk_tokens
            mels = self._whole(chunks, rings, [chunk.state.prompt_mel[:, :frames] for chunk in chunks])
        else:
            mels = self._solve_in_parts(chunks, keeps_steps)
        lengths = [FRAMES_PER_TOKEN * len(chunk.tokens) for chunk in chunks]
        prompt_frames = [chunk.state.prompt_mel.shape[1] for chunk in chunks]
        for chunk, length in zip(chunks, lengths, strict=True):
            state = chunk.state
            for cache in (state.tokens, state.frames, state.estimator):
                cache.commit()
            del state.pending_tokens[: len(chunk.tokens)]
            state.num_solved_frames += length
        return [row[:, a:b] for row, a, b in zip(mels, prompt_frames, lengths, strict=True)]

    def _solve_in_parts(self, chunks: list[FlowChunk], keeps_steps: bool) -> Tensor:
        """Run front, estimator and solver one after the other. -> mel (B, M, frames)."""
        widest = max(len(chunk.tokens) for chunk in chunks)
        rows = [chunk.tokens + chunk.lookahead for chunk in chunks]
        ids = pack_tokens(rows, widest + self.lookahead_tokens, self.flow.noise.device)
        num_tokens = [len(chunk.tokens) for chunk in chunks]
        lengths = [FRAMES_PER_TOKEN * count for count in num_tokens]
        token_context = BatchedCache([_keys_of(chunk.state.tokens) for chunk in chunks], num_tokens)
        frame_context = BatchedCache([_keys_of(chunk.state.frames) for chunk in chunks], lengths)
        mu = self._front(ids, token_context, frame_context)  # (B, M, T)

        caches = [_keys_of(chunk.state.estimator) for chunk in chunks]
        starts = [cache.start for cache in caches]
        noise = torch.stack([noise_between(self.flow.noise, a, a + mu.shape[-1]) for a in starts])
        cond = torch.zeros(len(chunks), NUM_MELS, mu.shape[-1], device=noise.device)
        for row, chunk in zip(cond, chunks, strict=True):  # the prompt's mel where the chunk still is prompt
            part = chunk.state.prompt_mel[:, : mu.shape[-1]]
            row[:, : part.shape[1]] = part
        spks = torch.cat([chunk.state.prompt.spks for chunk in chunks])
        cfm = self.flow.config.cfm

        def velocity(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
            context = BatchedCache(caches, lengths, cfm.rows_per_stream, step if keeps_steps else 0)
            return self._estimator(x, mu, t, spks, cond, context)

        return solve(velocity, cfm, noise, mu, spks, cond)


def _keys_of(ring: ChunkRing) -> ChunkKVCache:
    assert isinstance(ring, ChunkKVCache), "state of another way to run the flow"
    return ring
