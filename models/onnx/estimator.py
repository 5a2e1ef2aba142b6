"""The estimators of CosyVoice 2 (U-Net) and 3 (DiT) as ONNX graphs.

What depends on the solver's time alone is computed once and given as the input `times`. The U-Net's: what
each resnet adds (resnets, C). The DiT's: of each block the shift, scale and gate of its attention and of its
feed-forward, at the end the last norm's shift and scale (parts, C); a scale has its 1 added.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, cat

from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.dit import (
    NORM_EPS,
    POSITION_KERNEL_SIZE,
    DiT,
    DiTBlock,
    RotaryAttention,
    rotary_table,
)
from firstword.models.flow.kv_cache import RingKVCache
from firstword.models.flow.unet import (
    KERNEL_SIZE,
    Attention,
    CausalBlock,
    CausalConv1d,
    CausalResnet,
    CausalStage,
    CausalUNet,
    PointwiseConv1d,
    TransformerBlock,
)
from firstword.models.layers import GeluFeedForward
from firstword.models.onnx.graph import CONTRIB, GraphWriter, Product, float32, mish
from firstword.models.onnx.session import OrtSession, each
from firstword.models.onnx.state import StateInputs, StateSpec

_LEFT_FRAMES = KERNEL_SIZE - 1


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorGraph:
    """A pass over one chunk of one stream. Inputs: h (G, T, 4 M), the estimator's stacked inputs; times
    (parts, C), what depends on the time alone; the state. Output: velocity (G, T, M).

    inputs: what h is stacked of, in this order. times: t -> the input of that name. has_positions: it takes
    cos and sin (T, D / 2) of where its frames stand, too.
    """

    model: bytes
    inputs: tuple[str, str, str, str]
    state: StateSpec
    out_channels: int
    times: Callable[[float], Tensor]
    has_positions: bool


class OnnxEstimator:
    """Runs an estimator's graph. Streams run one by one: batches gain nothing on a CPU.

    times: those of the solver's steps; it can be called for no others.
    """

    cache_class = RingKVCache

    def __init__(self, graph: EstimatorGraph, times: Iterable[float], num_threads: int):
        self._plan = graph
        self._session = OrtSession(graph.model, num_threads)
        self._times = {t: graph.times(t) for t in times}

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: BatchedCache
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        plan = self._plan
        parts = {"x": x.mT, "mu": mu.mT, "spks": spks[:, None].expand_as(x.mT), "cond": cond.mT}
        h = torch.cat([parts[name] for name in plan.inputs], dim=2)  # (B, T, 4 M)
        times = self._times[float(t[0])]
        velocity = h.new_zeros(*h.shape[:2], plan.out_channels)
        for stream in context.streams():
            part = stream.rows, slice(stream.length)
            of_stream = h[part].contiguous()  # (G, length, 4 M)
            made = h.new_empty(*of_stream.shape[:2], plan.out_channels)
            inputs, outputs = {"h": of_stream, "times": times}, {"velocity": made}
            if plan.has_positions:
                positions = torch.arange(stream.cache.start, stream.cache.start + stream.length)
                cos, sin = rotary_table(positions[None], plan.state.head_dim, h.dtype)
                inputs |= {"cos": cos[0], "sin": sin[0]}
            next_left = plan.state.bind(stream, len(of_stream), inputs, outputs)
            self._session.run(inputs, outputs)
            plan.state.commit(stream, next_left)
            velocity[part] = made
        return velocity.mT


def unet_estimator(unet: CausalUNet, block_product: Product) -> EstimatorGraph:
    """block_product: of the transformer blocks, whose inputs are normed; convolutions stay float32."""
    resnets = [part for part in unet.modules() if isinstance(part, CausalResnet)]
    resnets.sort(key=lambda resnet: resnet.index)
    assert [resnet.index for resnet in resnets] == list(range(len(resnets))), "an index is taken twice"

    @torch.inference_mode()
    def times(t: float) -> Tensor:
        """What each resnet adds at a time: (resnets, C), by their index."""
        time = F.mish(unet.time(torch.tensor([t])))
        return cat([resnet.time(time) for resnet in resnets])

    writer = _UNetWriter(unet, block_product)
    return EstimatorGraph(
        model=writer.model(),
        inputs=("x", "mu", "spks", "cond"),
        state=writer.state.spec,
        out_channels=unet.out.out_channels,
        times=times,
        has_positions=False,
    )


class _EstimatorWriter:
    """What both estimators' graphs have: state inputs, and transformer blocks in `block_product`."""

    def __init__(self, name: str, num_heads: int, head_dim: int, block_product: Product):
        self._writer, self._block_product = GraphWriter(name, float32), block_product
        self.state = StateInputs(self._writer, num_heads, head_dim)

    def _block_linear(self, x: str, weight: Tensor, bias: Tensor | None) -> str:
        return self._writer.linear(x, weight, bias, self._block_product)

    def _attended(self, attention: Attention | RotaryAttention, query: str, key: str, value: str) -> str:
        """query, key, value (G, T, H D) -> (G, T, C)."""
        y = self.state.attend(attention.layer, query, key, value)
        return self._block_linear(y, attention.out.weight, attention.out.bias)

    def _feedforward(self, feedforward: GeluFeedForward, x: str) -> str:
        writer, up, down = self._writer, feedforward.up, feedforward.down
        if feedforward.has_tanh_gelu:
            hidden = self._block_linear(x, up.weight, None)
            hidden = writer.node("FastGelu", hidden, writer.constant(up.bias), domain=CONTRIB)
        else:
            hidden = writer.node("Gelu", self._block_linear(x, up.weight, up.bias), domain=CONTRIB)
        return self._block_linear(hidden, down.weight, down.bias)


class _UNetWriter(_EstimatorWriter):
    def __init__(self, unet: CausalUNet, block_product: Product):
        super().__init__("unet", unet.config.num_heads, unet.config.head_dim, block_product)
        self._unet = unet

    def model(self) -> bytes:
        unet, writer = self._unet, self._writer
        h = writer.input("h", ["rows", "length", unet.config.in_channels])
        times = writer.input("times", ["resnets", "channels"])
        (down,), mid, (up,) = (each(CausalStage, part) for part in (unet.down, unet.mid, unet.up))
        skip, h = self._stage(down, h, times)
        for stage in mid:
            _, h = self._stage(stage, h, times)
        _, h = self._stage(up, writer.node("Concat", h, skip, axis=2), times)
        velocity = self._pointwise(unet.out, self._block(unet.final, h))
        writer.output("velocity", velocity, ["rows", "length", unet.out.out_channels])
        return writer.model()

    def _stage(self, stage: CausalStage, x: str, times: str) -> tuple[str, str]:
        writer, resnet = self._writer, stage.resnet
        time = writer.node("Gather", times, writer.integers(resnet.index), axis=0)  # (1, C)
        h = self._block(resnet.block2, writer.node("Add", self._block(resnet.block1, x), time))
        x = writer.node("Add", h, self._pointwise(resnet.residual, x))
        for block in each(TransformerBlock, stage.blocks):
            y = self._attention(block.attention, writer.layer_norm(block.attention_norm, x))
            x = writer.node("Add", x, y)
            y = self._feedforward(block.feedforward, writer.layer_norm(block.feedforward_norm, x))
            x = writer.node("Add", x, y)
        return x, x if stage.conv is None else self._conv(stage.conv, x)

    def _block(self, block: CausalBlock, x: str) -> str:
        return mish(self._writer, self._writer.layer_norm(block.norm, self._conv(block.conv, x)))

    def _conv(self, conv: CausalConv1d, x: str) -> str:
        extended = self.state.extend(conv.index, x, _LEFT_FRAMES, conv.in_channels)
        return self._writer.unfolded_conv(conv, extended)

    def _attention(self, attention: Attention, x: str) -> str:
        parts = (attention.query, attention.key, attention.value)
        bias = None if attention.query.bias is None else cat([part.bias for part in parts])
        stacked = self._block_linear(x, cat([part.weight for part in parts]), bias)
        return self._attended(attention, *self._writer.nodes("Split", 3, stacked, axis=2))

    def _pointwise(self, conv: PointwiseConv1d, x: str) -> str:
        weight: Tensor = conv.weight
        return self._writer.linear(x, weight[:, :, 0], conv.bias)


_BLOCK_PARTS = 6
_LAST_PARTS = 2


def dit_estimator(dit: DiT, block_product: Product) -> EstimatorGraph:
    """block_product: of the blocks, whose inputs are normed; what is before and behind them is float32."""

    @torch.inference_mode()
    def times(t: float) -> Tensor:
        """Every block's parts and the last norm's at a time: (parts, C)."""
        time = F.silu(dit.time(torch.tensor([t])))
        rows = [block.modulation(time).view(_BLOCK_PARTS, -1) for block in each(DiTBlock, dit.blocks)]
        for block in rows:
            block[1::3] += 1
        scale, shift = dit.modulation(time).view(_LAST_PARTS, -1)
        return cat([*rows, torch.stack([shift, scale + 1])])

    writer = _DiTWriter(dit, block_product)
    return EstimatorGraph(
        model=writer.model(),
        inputs=("x", "cond", "mu", "spks"),
        state=writer.state.spec,
        out_channels=dit.out.out_features,
        times=times,
        has_positions=True,
    )


class _DiTWriter(_EstimatorWriter):
    def __init__(self, dit: DiT, block_product: Product):
        super().__init__("dit", dit.config.num_heads, dit.config.head_dim, block_product)
        self._dit = dit
        half = dit.config.head_dim // 2
        self._rotation = [self._writer.input(name, ["length", half]) for name in ("cos", "sin")]

    def model(self) -> bytes:
        dit, writer = self._dit, self._writer
        blocks = each(DiTBlock, dit.blocks)
        width = dit.config.dim
        x = writer.input("h", ["rows", "length", dit.input.linear.in_features])
        count = _BLOCK_PARTS * len(blocks) + _LAST_PARTS
        times = writer.nodes("Split", count, writer.input("times", [count, width]), axis=0)  # (1, C) each
        times = [writer.node("Reshape", part, writer.integers(width)) for part in times]
        x = writer.linear(x, dit.input.linear.weight, dit.input.linear.bias)
        x = writer.node("Add", x, self._position(x))
        for index, block in enumerate(blocks):
            x = self._block(block, x, times[_BLOCK_PARTS * index :][:_BLOCK_PARTS])
        shift, scale = times[-_LAST_PARTS:]
        velocity = writer.linear(self._norm(x, shift, scale), dit.out.weight, dit.out.bias)
        writer.output("velocity", velocity, ["rows", "length", dit.out.out_features])
        return writer.model()

    def _position(self, x: str) -> str:
        writer = self._writer
        position = self._dit.input.position
        for index, conv in enumerate((position.conv1, position.conv2)):
            assert conv.bias is not None
            extended = self.state.extend(index, x, POSITION_KERNEL_SIZE - 1, conv.in_channels)
            y = writer.node(
                "Conv",
                writer.node("Transpose", extended, perm=[0, 2, 1]),
                writer.constant(conv.weight),
                writer.constant(conv.bias),
                kernel_shape=[POSITION_KERNEL_SIZE],
                group=conv.groups,
            )
            x = mish(writer, writer.node("Transpose", y, perm=[0, 2, 1]))
        return x

    def _block(self, block: DiTBlock, x: str, times: list[str]) -> str:
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = times
        y = self._attention(block.attention, self._norm(x, shift_a, scale_a))
        x = self._writer.node("Add", x, self._writer.node("Mul", y, gate_a))
        y = self._feedforward(block.feedforward, self._norm(x, shift_m, scale_m))
        return self._writer.node("Add", x, self._writer.node("Mul", y, gate_m))

    def _attention(self, attention: RotaryAttention, x: str) -> str:
        """Head 0 alone is turned: of query and key together it comes first out of the product."""
        writer, config = self._writer, self._dit.config
        size, rest = config.head_dim, (config.num_heads - 1) * config.head_dim
        parts = (attention.query, attention.key, attention.value)
        order = [(0, slice(size)), (1, slice(size)), (0, slice(size, None)), (1, slice(size, None))]
        order.append((2, slice(None)))
        weight = cat([parts[part].weight[rows] for part, rows in order])
        bias = cat([parts[part].bias[rows] for part, rows in order])
        stacked = self._block_linear(x, weight, bias)
        sizes = writer.integers(2 * size, rest, rest, rest + size)
        first, query, key, value = writer.nodes("Split", 4, stacked, sizes, axis=2)
        turned = writer.node(
            "RotaryEmbedding",
            first,
            writer.integers(0),
            *self._rotation,
            domain=CONTRIB,
            interleaved=1,
            num_heads=2,
            rotary_embedding_dim=0,
        )
        firsts = writer.nodes("Split", 2, turned, axis=2)
        query, key = (
            writer.node("Concat", one, other, axis=2) for one, other in zip(firsts, (query, key), strict=True)
        )
        return self._attended(attention, query, key, value)

    def _norm(self, x: str, shift: str, scale: str) -> str:
        return self._writer.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=NORM_EPS)
