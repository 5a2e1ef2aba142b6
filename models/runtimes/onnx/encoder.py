"""CosyVoice 2's front, speech tokens to `mu`, as an ONNX graph: one chunk of one stream.

Inputs: x (1, T + lookahead, C_in), the embedded tokens; is_token (1, T + lookahead, 1), 0 where there is
none; at the rate of tokens and at that of frames, after the prefixes `tokens_` and `frames_`, the state (see
`firstword.models.runtimes.onnx.state`), own_sin and own_cos (n, W / 2) and seen (buffer, W): sinusoids of the
positions of the chunk and of all in a buffer. Output: mu (1, 2 T, M).
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, cat

from firstword.models.config import FRAMES_PER_TOKEN
from firstword.models.flow.batched_cache import BatchedCache
from firstword.models.flow.encoder import (
    CONV_INDEX,
    LOOKAHEAD_KERNEL_SIZE,
    UP_KERNEL_SIZE,
    ConformerFront,
    Lookahead,
)
from firstword.models.flow.kv_cache import RingKVCache
from firstword.models.layers import ConformerLayer, InputEmbedding, RelativeAttention, sinusoids
from firstword.models.onnx_graphs.graph import CONTRIB, GraphWriter, Shape, float32
from firstword.models.onnx_graphs.session import OrtSession, each
from firstword.models.runtimes.onnx.state import StateInputs, StateSpec

_LEFT_TOKENS = LOOKAHEAD_KERNEL_SIZE - 1
_LEFT_FRAMES = UP_KERNEL_SIZE - 1
_LEAKY_SLOPE = 0.01


@dataclass(frozen=True, slots=True)
class FrontGraph:
    model: bytes
    tokens: StateSpec
    frames: StateSpec


def front_graph(front: ConformerFront) -> FrontGraph:
    writer = _FrontWriter(front)
    return FrontGraph(writer.model(), writer.tokens.state.spec, writer.frames.state.spec)


class _Rate:
    """One rate's attentions, and where their positions come from."""

    def __init__(self, writer: GraphWriter, name: str, width: int, num_heads: int):
        self.state = StateInputs(writer, num_heads, width // num_heads, f"{name}_")
        shape: Shape = [f"{name}_length", width // 2]
        self.own = [writer.input(f"{name}_own_{wave}", shape) for wave in ("sin", "cos")]
        self.seen = writer.input(f"{name}_seen", [f"{name}_buffer", width])


class _FrontWriter:
    def __init__(self, front: ConformerFront):
        self._front, self._writer = front, GraphWriter("front", float32)
        self._width = front.projection.in_features
        num_heads = each(ConformerLayer, front.encoder.layers)[0].attention.num_heads
        self.tokens, self.frames = (
            _Rate(self._writer, name, self._width, num_heads) for name in ("tokens", "frames")
        )

    def model(self) -> bytes:
        encoder, writer, width = self._front.encoder, self._writer, self._width
        x = writer.input("x", [1, "given", encoder.embed.linear.in_features])
        x = writer.node("Mul", self._embed(encoder.embed, x), writer.input("is_token", [1, "given", 1]))
        x = self._lookahead(encoder.lookahead, x)
        for layer in each(ConformerLayer, encoder.layers):
            x = self._layer(layer, x, self.tokens)
        twice = writer.node("Unsqueeze", x, writer.integers(2))
        twice = writer.node("Concat", *[twice] * FRAMES_PER_TOKEN, axis=2)
        x = writer.node("Reshape", twice, writer.integers(1, -1, width))  # each token twice
        x = writer.unfolded_conv(
            encoder.up_conv, self.frames.state.extend(CONV_INDEX, x, _LEFT_FRAMES, width)
        )
        x = self._embed(encoder.up_embed, x)
        for layer in each(ConformerLayer, encoder.up_layers):
            x = self._layer(layer, x, self.frames)
        projection = self._front.projection
        mu = writer.linear(writer.layer_norm(encoder.norm, x), projection.weight, projection.bias)
        writer.output("mu", mu, [1, "frames_length", projection.out_features])
        return writer.model()

    def _embed(self, embed: InputEmbedding, x: str) -> str:
        writer = self._writer
        x = writer.layer_norm(embed.norm, writer.linear(x, embed.linear.weight, embed.linear.bias))
        scale = math.sqrt(embed.linear.out_features)
        return writer.node("Mul", x, writer.constant(np.array(scale, np.float32)))

    def _lookahead(self, lookahead: Lookahead, x: str) -> str:
        """x (1, T + lookahead, C) -> (1, T, C)."""
        writer, reach = self._writer, lookahead.conv1.kernel_size[0] - 1
        y = writer.node("LeakyRelu", writer.unfolded_conv(lookahead.conv1, x), alpha=_LEAKY_SLOPE)
        y = writer.unfolded_conv(
            lookahead.conv2, self.tokens.state.extend(CONV_INDEX, y, _LEFT_TOKENS, self._width)
        )
        return writer.node("Add", y, writer.sliced(x, 0, -reach))

    def _layer(self, layer: ConformerLayer, x: str, rate: _Rate) -> str:
        writer, feedforward = self._writer, layer.feedforward
        y = self._attention(layer.attention, writer.layer_norm(layer.attention_norm, x), rate)
        x = writer.node("Add", x, y)
        y = writer.layer_norm(layer.feedforward_norm, x)
        y = writer.linear(y, feedforward.up.weight, feedforward.up.bias)
        if feedforward.has_silu:
            y = writer.node("QuickGelu", y, domain=CONTRIB, alpha=1.0)
        else:
            y = writer.node("Relu", y)
        y = writer.linear(y, feedforward.down.weight, feedforward.down.bias)
        return writer.node("Add", x, y)

    def _attention(self, attention: RelativeAttention, x: str, rate: _Rate) -> str:
        """The distances' part of the score is the attention's bias, scaled as the product is."""
        writer = self._writer
        parts = (attention.query, attention.key, attention.value)
        stacked = writer.linear(x, cat([part.weight for part in parts]), cat([part.bias for part in parts]))
        query, key, value = writer.nodes("Split", 3, stacked, axis=2)
        content = writer.node("Add", query, writer.constant(attention.content_bias.flatten()))
        y = rate.state.attend(
            attention.layer, content, key, value, self._distance_scores(attention, query, rate)
        )
        return writer.linear(y, attention.out.weight, attention.out.bias)

    def _distance_scores(self, attention: RelativeAttention, query: str, rate: _Rate) -> str:
        """query (1, n, H D) -> (1, H, n, buffer), as `firstword.models.layers` has them."""
        writer, num_heads = self._writer, attention.num_heads
        size = self._width // num_heads
        moved = writer.node("Add", query, writer.constant(attention.position_bias.flatten()))
        moved = writer.node("Reshape", moved, writer.integers(0, 0, num_heads, size))
        moved = writer.node("Transpose", moved, perm=[0, 2, 1, 3])
        weight: Tensor = attention.position.weight.unflatten(0, (num_heads, size)) / math.sqrt(size)
        asked = writer.node(
            "MatMul", moved, writer.constant(cat([weight[:, :, 0::2], weight[:, :, 1::2]], 2))
        )
        a, b = writer.nodes("Split", 2, asked, axis=3)
        sin, cos = rate.own
        halves_turned = (
            writer.node("Sub", writer.node("Mul", b, sin), writer.node("Mul", a, cos)),
            writer.node("Add", writer.node("Mul", a, sin), writer.node("Mul", b, cos)),
        )
        pairs = (writer.node("Unsqueeze", half, writer.integers(4)) for half in halves_turned)
        turned = writer.node("Reshape", writer.node("Concat", *pairs, axis=4), writer.integers(0, 0, 0, -1))
        return writer.node("FusedMatMul", turned, rate.seen, domain=CONTRIB, transB=1)


class OnnxFront:
    """Runs a front's graph. Streams run one by one: batches gain nothing on a CPU."""

    cache_class = RingKVCache

    def __init__(self, front: ConformerFront, num_threads: int):
        """Of `front` only the embedding is still used."""
        self._plan = front_graph(front)
        self._session = OrtSession(self._plan.model, num_threads)
        self._embedding = front.embedding
        self._lookahead = front.encoder.lookahead.conv1.kernel_size[0] - 1
        self._width, self._num_mels = front.projection.in_features, front.projection.out_features

    def __call__(self, tokens: Tensor, token_context: BatchedCache, frame_context: BatchedCache) -> Tensor:
        """tokens (B, T + lookahead), -1 where there is none -> mu (B, M, 2 T)."""
        done = []
        streams = zip(tokens, token_context.streams(), frame_context.streams(), strict=True)
        for padded_row, of_tokens, of_frames in streams:
            row = padded_row[: of_tokens.length + self._lookahead]
            x = self._embedding(row.clamp(min=0))[None]
            mu = x.new_empty(1, of_frames.length, self._num_mels)
            inputs, outputs = {"x": x, "is_token": (row >= 0).float()[None, :, None]}, {"mu": mu}
            rates = (self._plan.tokens, of_tokens), (self._plan.frames, of_frames)
            commits = [state.bind(stream, inputs, outputs) for state, stream in rates]
            for state, stream in rates:
                cache, length = stream.cache, stream.length
                own = sinusoids(torch.arange(cache.start, cache.start + length), self._width, torch.float32)
                (seen,) = cache.position_buffers(self._width)
                _, start = cache.current
                seen[start : start + length] = own
                inputs[f"{state.prefix}own_sin"] = own[:, 0::2].contiguous()
                inputs[f"{state.prefix}own_cos"] = own[:, 1::2].contiguous()
                inputs[f"{state.prefix}seen"] = seen
            self._session.run(inputs, outputs)
            for commit in commits:
                commit()
            done.append(mu[0])
        return torch.nn.utils.rnn.pad_sequence(done, batch_first=True).mT
