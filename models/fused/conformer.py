"""CosyVoice 2's way from speech tokens to `mu` as one call, on a CPU."""

import torch
from torch import Tensor

from models.flow.batch_memory import BatchMemory, StreamPass
from models.flow.encoder import ConformerFront
from models.fused.conformer_graph import front_graph
from models.fused.session import FusedGraph
from models.memory import Memory


class FusedFront:
    """A `models.flow.incremental.Front`. Streams run one by one: batches gain nothing on a CPU."""

    def __init__(self, front: ConformerFront, num_threads: int):
        """Of `front` the embedding is still used, the rest no more."""
        self._plan = front_graph(front)
        self._graph = FusedGraph(self._plan.model, num_threads)
        self._embedding = front.embedding
        self._lookahead = front.encoder.lookahead.conv1.kernel_size[0] - 1
        self._width, self._num_mels = front.projection.in_features, front.projection.out_features

    def __call__(self, tokens: Tensor, token_memory: Memory, frame_memory: Memory) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        assert isinstance(token_memory, BatchMemory), token_memory
        assert isinstance(frame_memory, BatchMemory), frame_memory
        token_passes = token_memory.open_passes(1, self._plan.tokens.num_attentions)
        frame_passes = frame_memory.open_passes(1, self._plan.frames.num_attentions)
        rows = [
            self._run(row[: of_tokens.length + self._lookahead], of_tokens, of_frames)
            for row, of_tokens, of_frames in zip(tokens, token_passes, frame_passes, strict=True)
        ]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).mT

    def _run(self, row: Tensor, tokens: StreamPass, frames: StreamPass) -> Tensor:
        """row (T + lookahead,) of one stream -> (2 T, M)."""
        x = self._embedding(row.clamp(min=0))[None]
        mu = x.new_empty(1, frames.length, self._num_mels)
        inputs, outputs = {"x": x, "is_token": (row >= 0).float()[None, :, None]}, {"mu": mu}
        rates = (self._plan.tokens, tokens), (self._plan.frames, frames)
        lefts = [kept.bind(stream, 1, inputs, outputs) for kept, stream in rates]
        for kept, stream in rates:
            own, seen = stream.room_positions(self._width)
            inputs[f"{kept.prefix}own_sin"] = own[:, 0::2].contiguous()
            inputs[f"{kept.prefix}own_cos"] = own[:, 1::2].contiguous()
            inputs[f"{kept.prefix}seen"] = seen
        self._graph.run(inputs, outputs)
        for (kept, stream), left in zip(rates, lefts, strict=True):
            stream.keep(left, kept.num_attentions)
        return mu[0]
