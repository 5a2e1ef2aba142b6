"""An estimator with a pass as one call, on a CPU."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from models.flow.batch_memory import BatchMemory, StreamPass
from models.flow.dit import rotary_table
from models.fused.places import Kept
from models.fused.session import FusedGraph
from models.memory import Memory


@dataclass(frozen=True, slots=True, eq=False)
class EstimatorGraph:
    """A pass over one chunk of one stream. Inputs: h (G, T, 4 M), the estimator's stacked inputs; times
    (parts, C), what depends on the time alone; what is kept. Output: velocity (G, T, M).

    inputs: what h is stacked of, in this order. times: t -> the input of that name. has_positions: it takes
    cos and sin (T, D / 2) of where its frames stand, too.
    """

    model: bytes
    inputs: tuple[str, str, str, str]
    kept: Kept
    out_channels: int
    times: Callable[[float], Tensor]
    has_positions: bool


class FusedEstimator:
    """A `models.flow.incremental.Estimator`. Streams run one by one: batches gain nothing on a CPU.

    times: those of the solver's steps; it can be called for no others.
    """

    def __init__(self, graph: EstimatorGraph, times: Iterable[float], num_threads: int):
        self._plan, self._graph = graph, FusedGraph(graph.model, num_threads)
        self._times = {t: graph.times(t) for t in times}

    def __call__(
        self, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, memory: Memory
    ) -> Tensor:
        """x, mu, cond (B, M, T), t (B,), spks (B, M) -> velocity (B, M, T)."""
        assert isinstance(memory, BatchMemory), memory
        plan = self._plan
        parts = {"x": x.mT, "mu": mu.mT, "spks": spks[:, None].expand_as(x.mT), "cond": cond.mT}
        h = torch.cat([parts[name] for name in plan.inputs], dim=2)  # (B, T, 4 M)
        times = self._times[float(t[0])]
        velocity = h.new_zeros(*h.shape[:2], plan.out_channels)
        for stream in memory.open_passes(len(plan.kept.lefts), plan.kept.num_attentions):
            place = stream.rows, slice(stream.length)
            velocity[place] = self._run(h[place].contiguous(), times, stream)
        return velocity.mT

    def _run(self, h: Tensor, times: Tensor, stream: StreamPass) -> Tensor:
        """h (G, T, 4 M) of one stream -> (G, T, M)."""
        rows, length, _ = h.shape
        velocity = h.new_empty(rows, length, self._plan.out_channels)
        inputs, outputs = {"h": h, "times": times}, {"velocity": velocity}
        if self._plan.has_positions:
            cos, sin = rotary_table(stream.positions()[None], self._plan.kept.head_dim, h.dtype)
            inputs |= {"cos": cos[0], "sin": sin[0]}
        lefts = self._plan.kept.bind(stream, rows, inputs, outputs)
        self._graph.run(inputs, outputs)
        stream.keep(lefts, self._plan.kept.num_attentions)
        return velocity
