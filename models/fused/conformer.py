"""CosyVoice 2's way from speech tokens to `mu` as one call, on a CPU."""

import torch
from torch import Tensor

from models.conformer import ConformerLayer
from models.flow.batch_memory import BatchMemory, StreamPass
from models.flow.encoder import ConformerFront
from models.fused.children import each
from models.fused.conformer_graph import LEFT_FRAMES, LEFT_TOKENS, front_graph
from models.fused.session import FusedGraph
from models.memory import Memory


class FusedFront:
    """A `models.flow.incremental.Front`. Streams run one by one: batches gain nothing on a CPU."""

    def __init__(self, front: ConformerFront, num_threads: int):
        """Of `front` the embedding is still used, the rest no more."""
        self._graph = FusedGraph(front_graph(front), num_threads)
        self._embedding = front.embedding
        encoder = front.encoder
        self._width, self._num_mels = front.projection.in_features, front.projection.out_features
        self._num_heads = each(ConformerLayer, encoder.layers)[0].attention.num_heads
        self._lookahead = encoder.lookahead.conv1.kernel_size[0] - 1
        self._num_layers = {"tokens": len(encoder.layers), "frames": len(encoder.up_layers)}

    def __call__(self, tokens: Tensor, token_memory: Memory, frame_memory: Memory) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        assert isinstance(token_memory, BatchMemory), token_memory
        assert isinstance(frame_memory, BatchMemory), frame_memory
        token_passes = token_memory.open_passes(1, self._num_layers["tokens"])
        frame_passes = frame_memory.open_passes(1, self._num_layers["frames"])
        rows = [
            self._run(row[: of_tokens.length + self._lookahead], of_tokens, of_frames)
            for row, of_tokens, of_frames in zip(tokens, token_passes, frame_passes, strict=True)
        ]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).mT

    def _run(self, row: Tensor, tokens: StreamPass, frames: StreamPass) -> Tensor:
        """row (T + lookahead,) of one stream -> (2 T, M)."""
        x = self._embedding(row.clamp(min=0))[None]
        inputs, outputs = {"x": x, "is_token": (row >= 0).float()[None, :, None]}, {}
        kept = []
        for name, stream, left_length in (("tokens", tokens, LEFT_TOKENS), ("frames", frames, LEFT_FRAMES)):
            left = x.new_empty(1, left_length, self._width)
            inputs[f"{name}_left"], outputs[f"{name}_next_left"] = stream.left(0, left), left
            own, past = stream.extend_positions(self._width, x)
            inputs[f"{name}_own_sin"], inputs[f"{name}_own_cos"] = _halves(own)
            inputs[f"{name}_seen"] = torch.cat(_halves(torch.cat([past, own])), dim=1).mT.contiguous()
            shape = (self._num_layers[name], 2, 1, self._num_heads, stream.length)
            made = x.new_empty(*shape, self._width // self._num_heads)
            for index, (keys, values) in enumerate(made):
                seen = stream.past(index, keys)
                inputs |= {f"{name}_past_keys_{index}": seen.keys, f"{name}_past_values_{index}": seen.values}
                outputs |= {f"{name}_keys_{index}": keys, f"{name}_values_{index}": values}
            kept.append((stream, left, made))
        mu = x.new_empty(1, frames.length, self._num_mels)
        self._graph.run(inputs, outputs | {"mu": mu})
        for stream, left, made in kept:
            stream.keep([left], made)
        return mu[0]


def _halves(table: Tensor) -> tuple[Tensor, Tensor]:
    """table (n, W), sines and cosines in turn -> sines, cosines, (n, W / 2) each."""
    return table[:, 0::2].contiguous(), table[:, 1::2].contiguous()
