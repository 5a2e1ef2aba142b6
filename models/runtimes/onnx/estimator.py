"""The estimators of CosyVoice 2 (U-Net) and 3 (DiT) in ONNX Runtime, chunk by chunk."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.dit import DiT, rotary_table
from firstword.models.flow.unet import CausalUNet
from firstword.models.onnx_graphs.estimator import (
    STACKED,
    DiTWriter,
    UNetWriter,
    estimator_times,
    num_times,
)
from firstword.models.onnx_graphs.graph import GraphWriter, Product, float32
from firstword.models.onnx_graphs.session import OrtSession
from firstword.models.runtimes.onnx.state import StateInputs, StatePrecision, StateSpec


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorGraph:
    """A pass over one chunk of one stream. Inputs: h (G, T, 4 M), the estimator's stacked inputs; times
    (parts, C), what depends on the time alone; the state. Output: velocity (G, T, M).

    inputs: what h is stacked of, in this order. times: t -> the input of that name. has_positions: it takes
    cos and sin (T, D / 2) of where its frames stand, too; D is head_dim.
    """

    model: bytes
    inputs: tuple[str, str, str, str]
    state: StateSpec
    out_channels: int
    times: Callable[[float], Tensor]
    head_dim: int
    has_positions: bool


class OnnxEstimator:
    """Runs an estimator's graph. Streams run one by one: batches gain nothing on a CPU.

    times: those of the solver's steps; it can be called for no others.
    """

    def __init__(self, graph: EstimatorGraph, times: Iterable[float], num_threads: int):
        self._plan = graph
        self.cache_class = graph.state.cache_class
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
                cos, sin = rotary_table(positions[None], plan.head_dim, h.dtype)
                inputs |= {"cos": cos[0], "sin": sin[0]}
            commit = plan.state.bind(stream, inputs, outputs)
            self._session.run(inputs, outputs)
            commit()
            velocity[part] = made
        return velocity.mT


def unet_estimator(
    unet: CausalUNet, block_product: Product, state_precision: StatePrecision
) -> EstimatorGraph:
    """block_product: of the transformer blocks, whose inputs are normed; convolutions stay float32."""
    writer = GraphWriter("unet", float32)
    state = StateInputs(writer, unet.config.num_heads, unet.config.head_dim, precision=state_precision)
    h = writer.input("h", ["rows", "length", unet.config.in_channels])
    given = writer.input("times", ["resnets", "channels"])
    times = [writer.node("Gather", given, writer.integers(index), axis=0) for index in range(num_times(unet))]
    velocity = UNetWriter(unet, writer, state, block_product).velocity(h, times)
    writer.output("velocity", velocity, ["rows", "length", unet.out.out_channels])
    return EstimatorGraph(
        model=writer.model(),
        inputs=STACKED[CausalUNet],
        state=state.spec,
        out_channels=unet.out.out_channels,
        times=lambda t: estimator_times(unet, t),
        head_dim=unet.config.head_dim,
        has_positions=False,
    )


def dit_estimator(dit: DiT, block_product: Product, state_precision: StatePrecision) -> EstimatorGraph:
    """block_product: of the blocks, whose inputs are normed; what is before and behind them is float32."""
    writer = GraphWriter("dit", float32)
    state = StateInputs(writer, dit.config.num_heads, dit.config.head_dim, precision=state_precision)
    cos, sin = (writer.input(name, ["length", dit.config.head_dim // 2]) for name in ("cos", "sin"))
    h = writer.input("h", ["rows", "length", dit.input.linear.in_features])
    count, width = num_times(dit), dit.config.dim
    parts = writer.nodes("Split", count, writer.input("times", [count, width]), axis=0)  # (1, C) each
    times = [writer.node("Reshape", part, writer.integers(width)) for part in parts]
    velocity = DiTWriter(dit, writer, state, block_product, (cos, sin)).velocity(h, times)
    writer.output("velocity", velocity, ["rows", "length", dit.out.out_features])
    return EstimatorGraph(
        model=writer.model(),
        inputs=STACKED[DiT],
        state=state.spec,
        out_channels=dit.out.out_features,
        times=lambda t: estimator_times(dit, t),
        head_dim=dit.config.head_dim,
        has_positions=True,
    )
