"""The state of a flow's networks: its layout, and one stream's part of it at one step of the solver."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from firstword.models.config import NUM_MELS
from firstword.models.flow.batched_cache import StreamChunk
from firstword.models.state import LayoutContext, NetworkState, StateLayout, layout_of, run_without_numbers


def estimator_layout(estimator: nn.Module) -> StateLayout:
    """Of one row at one step of the solver; each step has a state of its own."""
    mel, speaker, t = torch.empty(1, NUM_MELS, 1), torch.empty(1, NUM_MELS), torch.empty(1)
    return layout_of(estimator, lambda context: (mel, mel, t, speaker, mel, context))


def front_layouts(front: nn.Module, lookahead_tokens: int) -> tuple[StateLayout, StateLayout]:
    """At the rate of tokens, and at that of frames."""
    tokens, frames = LayoutContext(), LayoutContext()
    run_without_numbers(front, torch.zeros(1, 1 + lookahead_tokens, dtype=torch.long), tokens, frames)
    return tokens.layout, frames.layout


class ChunkState:
    """One stream's state before its current chunk, at one step of the solver, for a runtime to bind.

    tensors: by the names of `layout`, in the memory of the stream's cache, which has one buffer for each
    attention; a cache of another number format has more of them. start: of the chunk in those that grow.
    """

    def __init__(self, stream: StreamChunk, layout: StateLayout, like: Tensor):
        """like: has the dtype and device of the left contexts."""
        self._cache, self._step, self._layout = stream.cache, stream.step, layout
        self.rows, self.length = stream.rows, stream.length
        num_rows = stream.rows.stop - stream.rows.start
        self.tensors: NetworkState = {}
        for one in layout.left:
            slot, frames = (self._step, one.index), one.shape[one.time_dim - 1]
            empty = like.new_empty(num_rows, *one.shape) if not self._cache.conv_state.left else like
            self.tensors[one.name] = self._cache.conv_state.left_of(slot, empty, frames, one.time_dim)
        for layer, (heads, size) in layout.attentions.items():
            (buffer,) = self._cache.buffers((self._step, layer), (num_rows, heads, size))
            for name, tensor in buffer.tensors.items():
                self.tensors[f"{name}_{layer}"] = tensor
        _, self.start = self._cache.current
        self.visible = [(first, stop) for _, first, stop in self._cache.visible(self.length)]

    @property
    def num_frames(self) -> int:
        """Of the tensors that grow, the chunk's own place and what is not visible included; 0 without any."""
        layer = next(iter(self._layout.attentions), None)
        return 0 if layer is None else self.tensors[f"keys_{layer}"].shape[2]

    def commit(self, made: Mapping[str, Tensor]) -> None:
        """Keep what a run made: the next left contexts, and keys and values of the chunk, unless the run
        wrote them in place. By the names of the layout."""
        for name, tensor in made.items():
            one = self._layout.by_name[name]
            if one.grows:
                self.tensors[name].narrow(one.time_dim, self.start, self.length).copy_(tensor)
            else:
                self._cache.conv_state.keep((self._step, one.index), tensor)
        for layer in self._layout.attentions:
            self._cache.commit_layer((self._step, layer))
