"""The estimator of CosyVoice 2 with a pass as one call, on a CPU."""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor

from models.flow.batch_memory import BatchMemory, StreamPass
from models.flow.blocks import CausalConv1d
from models.flow.unet import CausalResnet, CausalUNet
from models.fused.graph import Product
from models.fused.session import FusedGraph
from models.fused.unet_graph import LEFT_FRAMES, unet_graph
from models.memory import Memory


class FusedUNet:
    """A `models.flow.incremental.Estimator`. Streams run one by one: batches gain nothing on a CPU.

    times: those of the solver's steps; it can be called for no others. block_product: of the transformer
    blocks.
    """

    def __init__(self, unet: CausalUNet, times: Iterable[float], block_product: Product, num_threads: int):
        self._graph = FusedGraph(unet_graph(unet, block_product), num_threads)
        self._out_channels = unet.out.out_channels
        self._heads = unet.config.num_heads, unet.config.head_dim
        self._conv_widths = [part.in_channels for part in unet.modules() if isinstance(part, CausalConv1d)]
        self._num_attentions = unet.num_layers
        self._times = {t: _time_parts(unet, t) for t in times}

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, memory: Memory
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        assert isinstance(memory, BatchMemory), memory
        h = torch.cat([x.mT, mu.mT, spks[:, None].expand_as(x.mT), cond.mT], dim=2)  # (B, T, 4 M)
        times = self._times[float(t[0])]
        velocity = h.new_zeros(*h.shape[:2], self._out_channels)
        for stream in memory.open_passes(len(self._conv_widths), self._num_attentions):
            place = stream.rows, slice(stream.length)
            velocity[place] = self._run(h[place].contiguous(), times, stream)
        return velocity.mT

    def _run(self, h: Tensor, times: Tensor, stream: StreamPass) -> Tensor:
        """h (G, T, 4 M) of one stream -> (G, T, M)."""
        rows, length, _ = h.shape
        num_heads, head_dim = self._heads
        velocity = h.new_empty(rows, length, self._out_channels)
        inputs, outputs = {"h": h, "times": times}, {"velocity": velocity}
        lefts = [h.new_empty(rows, LEFT_FRAMES, width) for width in self._conv_widths]
        for index, left in enumerate(lefts):
            inputs[f"left_{index}"] = stream.left(index, left)
            outputs[f"next_left_{index}"] = left
        made = h.new_empty(self._num_attentions, 2, rows, num_heads, length, head_dim)
        for index, (keys, values) in enumerate(made):
            past = stream.past(index, keys)
            inputs |= {f"past_keys_{index}": past.keys, f"past_values_{index}": past.values}
            outputs |= {f"keys_{index}": keys, f"values_{index}": values}
        self._graph.run(inputs, outputs)
        stream.keep(lefts, made)
        return velocity


@torch.inference_mode()
def _time_parts(unet: CausalUNet, t: float) -> Tensor:
    """What each resnet adds at time t: (resnets, C)."""
    time = F.mish(unet.time(torch.tensor([t])))
    return torch.cat([part.time(time) for part in unet.modules() if isinstance(part, CausalResnet)])
