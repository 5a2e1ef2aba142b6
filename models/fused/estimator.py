"""An estimator with a pass as one call, on a CPU."""

from collections.abc import Iterable

import torch
from torch import Tensor

from models.flow.batch_memory import BatchMemory, StreamPass
from models.flow.dit import rotary_table
from models.fused.estimator_graph import EstimatorGraph
from models.fused.session import FusedGraph
from models.memory import Memory


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
        for stream in memory.open_passes(len(plan.lefts), plan.num_attentions):
            place = stream.rows, slice(stream.length)
            velocity[place] = self._run(h[place].contiguous(), times, stream)
        return velocity.mT

    def _run(self, h: Tensor, times: Tensor, stream: StreamPass) -> Tensor:
        """h (G, T, 4 M) of one stream -> (G, T, M)."""
        plan = self._plan
        rows, length, _ = h.shape
        velocity = h.new_empty(rows, length, plan.out_channels)
        inputs, outputs = {"h": h, "times": times}, {"velocity": velocity}
        if plan.has_positions:
            cos, sin = rotary_table(stream.positions()[None], plan.head_dim, h.dtype)
            inputs |= {"cos": cos[0], "sin": sin[0]}
        lefts = [h.new_empty(rows, frames, channels) for frames, channels in plan.lefts]
        for index, left in enumerate(lefts):
            inputs[f"left_{index}"] = stream.left(index, left)
            outputs[f"next_left_{index}"] = left
        made = h.new_empty(plan.num_attentions, 2, rows, plan.num_heads, length, plan.head_dim)
        for index, (keys, values) in enumerate(made):
            past = stream.past(index, keys)
            inputs |= {f"past_keys_{index}": past.keys, f"past_values_{index}": past.values}
            outputs |= {f"keys_{index}": keys, f"values_{index}": values}
        self._graph.run(inputs, outputs)
        stream.keep(lefts, made)
        return velocity
