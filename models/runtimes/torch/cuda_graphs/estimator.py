"""One pass of an estimator over a chunk of each stream at a fixed shape, its caches in fixed buffers."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.flow.batched_cache import BatchedCache, StreamChunk
from firstword.models.flow.dit import DiT
from firstword.models.flow.kv_cache import RingKVCache
from firstword.models.flow.state import ChunkState, estimator_layout
from firstword.models.flow.unet import CausalUNet
from firstword.models.runtimes.torch.cuda_graphs.buckets import BATCHES, LastUsed, bucket
from firstword.models.runtimes.torch.cuda_graphs.capture import Run, captured
from firstword.models.state import NetworkState


class ChunkPlace(NamedTuple):
    """Where the chunk of each row is, in tensors that stay.

    start (B,): position of its first frame in its stream. slot (B,): where in the buffers its keys are
    written. mask (B, frames): what the row sees of them, the chunk included.
    """

    start: Tensor
    slot: Tensor
    mask: Tensor


class FixedChunkContext:
    """`NetworkContext` of a chunk of T frames of each row, over a state that is written in place.

    What is left of a convolution is right for a chunk without padding, the only one that another follows.
    """

    def __init__(self, state: NetworkState, place: ChunkPlace):
        self._state, self._start, self._slot = state, place.start, place.slot
        self._mask = place.mask[:, None, None]  # (B, 1, 1, frames)
        self._rows = torch.arange(len(place.start), device=place.start.device)[:, None]

    def positions(self, length: int, device: torch.device) -> Tensor:
        return self._start[:, None] + torch.arange(length, device=device)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        left = self._state[f"left_{index}"]
        extended = torch.cat([left, x], dim=dim)
        left.copy_(extended.narrow(dim, extended.shape[dim] - frames, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        assert distance_query is None, "relative positions"
        keys, values = self._state[f"keys_{layer}"], self._state[f"values_{layer}"]
        index = self._slot[:, None] + torch.arange(q.shape[2], device=q.device)  # (B, T)
        keys[self._rows, :, index] = k.transpose(1, 2)
        values[self._rows, :, index] = v.transpose(1, 2)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self._mask)


class EstimatorStep(nn.Module):
    """A pass over a state that is its own for good; what changes is in the arguments."""

    def __init__(self, estimator: CausalUNet | DiT, state: NetworkState):
        super().__init__()
        self.estimator = estimator
        self._state = state

    def forward(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, place: ChunkPlace
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> (B, M, T)."""
        return self.estimator(x, mu, t, spks, cond, FixedChunkContext(self._state, place))


BUFFER_CHUNKS = 4  # buffers of keys are padded to a multiple of that


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run, where its inputs are to be written, and its state."""

    run: Run
    inputs: tuple[Tensor, ...]  # x, mu, t, spks, cond
    place: ChunkPlace
    state: NetworkState


class GraphedEstimator:
    """Runs an estimator as CUDA graphs, padded to a number of streams, to whole chunks and in its buffers.

    A stream's state is copied into a graph's memory and what is new in it back. Threads run it one after the
    other: a graph's memory is its own.
    """

    cache_class = RingKVCache

    def __init__(self, estimator: CausalUNet | DiT, num_mels: int, chunk_frames: int, rows_per_stream: int):
        self._estimator, self._frames, self._rows = estimator, chunk_frames, rows_per_stream
        self._num_mels, self._like = num_mels, next(estimator.parameters())
        self._layout = estimator_layout(estimator)
        self._recorded: LastUsed[tuple[int, int], _Recorded] = LastUsed()
        self._lock = threading.Lock()

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        streams, length = context.streams(), x.shape[2]
        num_streams = bucket(BATCHES, len(streams))
        if num_streams is None or length > self._frames:  # an utterance solved at once is longer
            return self._estimator(x, mu, t, spks, cond, context)
        states = [ChunkState(stream, self._layout, self._like) for stream in streams]
        longest = max(state.num_frames for state in states)
        step = BUFFER_CHUNKS * self._frames
        with self._lock:
            sizes = num_streams, -(-longest // step) * step
            one = self._recorded.get(sizes, partial(self._record, *sizes))
            rows = len(x)
            for given, memory in zip((x, mu, t, spks, cond), one.inputs, strict=True):
                memory[:rows].narrow(-1, 0, given.shape[-1]).copy_(given)
            self._copy_in(one, streams, states)
            velocity = one.run()[:rows, :, :length].clone()
            self._copy_out(one, states)
        return velocity

    def _copy_in(self, one: _Recorded, streams: Sequence[StreamChunk], states: Sequence[ChunkState]) -> None:
        start, slot, mask = one.place
        starts, slots = [0] * len(start), [0] * len(start)
        visible = torch.zeros(mask.shape, dtype=torch.bool)
        visible[:, : self._frames] = True  # of rows without a stream: a row has to see something
        for stream, state in zip(streams, states, strict=True):
            rows = state.rows
            starts[rows], slots[rows] = [stream.cache.start] * self._rows, [state.start] * self._rows
            visible[rows] = False
            for begin, end in state.visible:
                visible[rows, begin:end] = True
            for kept in self._layout.tensors:
                given = state.tensors[kept.name]
                frames = given.shape[kept.time_dim]
                one.state[kept.name][rows].narrow(kept.time_dim, 0, frames).copy_(given)
        start.copy_(torch.tensor(starts), non_blocking=True)
        slot.copy_(torch.tensor(slots), non_blocking=True)
        mask.copy_(visible, non_blocking=True)

    def _copy_out(self, one: _Recorded, states: Sequence[ChunkState]) -> None:
        for state in states:
            made = {kept.name: one.state[kept.name][state.rows] for kept in self._layout.tensors}
            for kept in self._layout.tensors:
                if kept.grows:
                    made[kept.name] = made[kept.name].narrow(kept.time_dim, state.start, state.length)
            state.commit(made)

    def _record(self, num_streams: int, buffer_frames: int) -> _Recorded:
        rows, like = num_streams * self._rows, self._like
        state = self._layout.zeros(rows, buffer_frames, like)
        x, mu, cond = (like.new_zeros(rows, self._num_mels, self._frames) for _ in range(3))
        inputs = x, mu, torch.zeros(rows, device=like.device), like.new_zeros(rows, self._num_mels), cond
        start, slot = (torch.zeros(rows, dtype=torch.long, device=like.device) for _ in range(2))
        mask = torch.ones(rows, buffer_frames, dtype=torch.bool, device=like.device)
        place, step = ChunkPlace(start, slot, mask), EstimatorStep(self._estimator, state)
        return _Recorded(captured(lambda: step(*inputs, place), like.device), inputs, place, state)
