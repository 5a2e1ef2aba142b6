"""One pass of an estimator over a chunk of each stream at a fixed shape, its caches in fixed buffers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.cuda import to_device
from firstword.models.flow.batched_cache import BatchedCache, StreamChunk
from firstword.models.flow.dit import DiT
from firstword.models.flow.kv_cache import KeyValues, RingKVCache
from firstword.models.flow.unet import CausalUNet
from firstword.models.runtimes.graphs.buckets import BATCHES, LastUsed, bucket
from firstword.models.runtimes.graphs.capture import Run, Turns, captured, recorded_or_eager
from firstword.models.runtimes.graphs.shapes import StateShapes, state_shapes


@dataclass(frozen=True, slots=True, eq=False)
class ChunkBuffers:
    """conv_left (B, ...) by index; keys and values (B, H, frames, D) by layer."""

    conv_left: dict[int, Tensor]
    keys: dict[int, Tensor]
    values: dict[int, Tensor]

    @classmethod
    def empty(cls, shapes: StateShapes, rows: int, frames: int, like: Tensor) -> "ChunkBuffers":
        """All zero, in the dtype and on the device of `like`."""
        sizes = {layer: (rows, heads, frames, size) for layer, (heads, size) in shapes.layers.items()}
        return cls(
            {index: like.new_zeros(rows, *shape) for index, shape in shapes.conv_left.items()},
            {layer: like.new_zeros(size) for layer, size in sizes.items()},
            {layer: like.new_zeros(size) for layer, size in sizes.items()},
        )


class FixedChunkContext:
    """`NetworkContext` of a chunk of T frames of each row, over buffers that are written in place.

    start (B,): position of the chunk's first frame in its stream. slot (B,): where in the buffers its keys
    are written. mask (B, frames): what the row sees of them, the chunk included. What is left of a
    convolution is right for a chunk without padding, the only one that another follows.
    """

    def __init__(self, buffers: ChunkBuffers, start: Tensor, slot: Tensor, mask: Tensor):
        self._buffers, self._start, self._slot = buffers, start, slot
        self._mask = mask[:, None, None]  # (B, 1, 1, frames)
        self._rows = torch.arange(len(start), device=start.device)[:, None]

    def positions(self, length: int, device: torch.device) -> Tensor:
        return self._start[:, None] + torch.arange(length, device=device)

    def extend(self, index: int, x: Tensor, frames: int, dim: int = 2) -> Tensor:
        left = self._buffers.conv_left[index]
        extended = torch.cat([left, x], dim=dim)
        left.copy_(extended.narrow(dim, extended.shape[dim] - frames, frames))
        return extended

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        keys, values = self._buffers.keys[layer], self._buffers.values[layer]
        index = self._slot[:, None] + torch.arange(q.shape[2], device=q.device)  # (B, T)
        keys[self._rows, :, index] = k.transpose(1, 2)
        values[self._rows, :, index] = v.transpose(1, 2)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=self._mask)


class EstimatorStep(nn.Module):
    """A pass over buffers that are its own for good; what changes is in the arguments."""

    def __init__(self, estimator: CausalUNet | DiT, buffers: ChunkBuffers):
        super().__init__()
        self.estimator = estimator
        self._state = buffers

    def forward(
        self,
        x: Tensor,
        mu: Tensor,
        t: Tensor,
        spks: Tensor,
        cond: Tensor,
        start: Tensor,
        slot: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M), start, slot (B,), mask (B, frames) -> (B, M, T)."""
        context = FixedChunkContext(self._state, start, slot, mask)
        return self.estimator(x, mu, t, spks, cond, context)


BUFFER_CHUNKS = 4  # buffers of keys are padded to a multiple of that


@dataclass(frozen=True, slots=True, eq=False)
class _Recorded:
    """A run, where its inputs are to be written, and its buffers."""

    run: Run
    inputs: tuple[Tensor, ...]  # as those of `EstimatorStep`
    buffers: ChunkBuffers


class GraphedEstimator:
    """Runs an estimator as CUDA graphs, padded to a number of streams, to whole chunks and in its buffers.

    A stream's caches are copied into a graph's memory and what is new in them back. Threads run it one after
    the other: a graph's memory is its own.
    """

    cache_class = RingKVCache

    def __init__(self, estimator: CausalUNet | DiT, num_mels: int, chunk_frames: int, rows_per_stream: int):
        self._estimator, self._frames, self._rows = estimator, chunk_frames, rows_per_stream
        self._num_mels, self._like = num_mels, next(estimator.parameters())
        self._shapes = state_shapes(estimator, num_mels)
        self._recorded: LastUsed[tuple[int, int], _Recorded | None] = LastUsed()
        self._turns = Turns()

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        streams, length = context.streams(), x.shape[2]
        num_streams = bucket(BATCHES, len(streams))
        if num_streams is None or length > self._frames:  # an utterance solved at once is longer
            return self._estimator(x, mu, t, spks, cond, context)
        layers = [self._layers(stream) for stream in streams]
        longest = max(one.num_frames for of_stream in layers for one in of_stream.values())
        step = BUFFER_CHUNKS * self._frames
        with self._turns.taken(x.device):
            sizes = num_streams, -(-longest // step) * step
            record, what = partial(self._record, *sizes), f"the flow of {num_streams} streams"
            one = self._recorded.get(sizes, lambda: recorded_or_eager(record, what))
            if one is None:
                return self._estimator(x, mu, t, spks, cond, context)
            rows = len(x)
            for given, memory in zip((x, mu, t, spks, cond), one.inputs, strict=False):
                memory[:rows].narrow(-1, 0, given.shape[-1]).copy_(given)
            self._copy_in(one, streams, layers)
            velocity = one.run()[:rows, :, :length].clone()
            self._copy_out(one, streams, layers)
        return velocity

    def _layers(self, stream: StreamChunk) -> dict[int, KeyValues]:
        """The stream's buffers by layer, (G, H, frames, D)."""
        return {
            layer: stream.cache.buffers((stream.step, layer), (self._rows, heads, size))[0]
            for layer, (heads, size) in self._shapes.layers.items()
        }

    def _copy_in(
        self, one: _Recorded, streams: Sequence[StreamChunk], layers: Sequence[dict[int, KeyValues]]
    ) -> None:
        *_, start, slot, mask = one.inputs
        starts, slots = [0] * len(start), [0] * len(start)
        visible = torch.zeros(mask.shape, dtype=torch.bool, pin_memory=mask.is_cuda)
        visible[:, : self._frames] = True  # of rows without a stream: a row has to see something
        for stream, of_stream in zip(streams, layers, strict=True):
            rows, (_, first) = stream.rows, stream.cache.current
            starts[rows], slots[rows] = [stream.cache.start] * self._rows, [first] * self._rows
            visible[rows] = False
            for _, begin, end in stream.cache.visible(stream.length):
                visible[rows, begin:end] = True
            for layer, seen in of_stream.items():
                one.buffers.keys[layer][rows, :, : seen.num_frames] = seen.keys
                one.buffers.values[layer][rows, :, : seen.num_frames] = seen.values
            for index, dim in self._shapes.conv_dims.items():
                left = one.buffers.conv_left[index][rows]
                left.copy_(stream.cache.conv_state.left_of((stream.step, index), left, left.shape[dim], dim))
        start.copy_(to_device(starts, start.device))
        slot.copy_(to_device(slots, slot.device))
        mask.copy_(visible, non_blocking=True)

    def _copy_out(
        self, one: _Recorded, streams: Sequence[StreamChunk], layers: Sequence[dict[int, KeyValues]]
    ) -> None:
        for stream, of_stream in zip(streams, layers, strict=True):
            rows, (_, first) = stream.rows, stream.cache.current
            new = slice(first, first + stream.length)
            for layer, seen in of_stream.items():
                seen.keys[:, :, new] = one.buffers.keys[layer][rows, :, new]
                seen.values[:, :, new] = one.buffers.values[layer][rows, :, new]
                stream.cache.commit_layer((stream.step, layer))
            for index, left in one.buffers.conv_left.items():
                stream.cache.conv_state.keep((stream.step, index), left[rows])

    def _record(self, num_streams: int, buffer_frames: int) -> _Recorded:
        rows, like = num_streams * self._rows, self._like
        buffers = ChunkBuffers.empty(self._shapes, rows, buffer_frames, like)
        mel = [like.new_zeros(rows, self._num_mels, self._frames) for _ in range(3)]
        start, slot = (torch.zeros(rows, dtype=torch.long, device=like.device) for _ in range(2))
        inputs = (
            *(mel[0], mel[1], torch.zeros(rows, device=like.device)),
            *(like.new_zeros(rows, self._num_mels), mel[2], start, slot),
            torch.ones(rows, buffer_frames, dtype=torch.bool, device=like.device),
        )
        step = EstimatorStep(self._estimator, buffers)
        return _Recorded(captured(lambda: step(*inputs), like.device), inputs, buffers)
