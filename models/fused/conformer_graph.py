"""CosyVoice 2's way from speech tokens to `mu` as a graph: one chunk of one stream.

Inputs: x (1, T + lookahead, C_in), the embedded tokens; is_token (1, T + lookahead, 1), 0 where there is
none. At the rate of tokens and of frames (`tokens`, `frames`), as `Rate` counts them: RATE_left, RATE_own
(W, n) and RATE_seen (keys, W), the positions' sinusoids of the chunk and of all it sees; for each
attention RATE_past_keys_i and RATE_past_values_i (1, H, past, D). Outputs: mu (1, 2 T, M), RATE_next_left,
RATE_keys_i and RATE_values_i (1, H, n, D). The sinusoids' sines come first, then their cosines.
"""

import math

import numpy as np
from torch import Tensor, cat, nn

from models.config import FRAMES_PER_TOKEN
from models.conformer import ConformerLayer, InputEmbedding, RelativeAttention
from models.flow.encoder import LOOKAHEAD_KERNEL_SIZE, UP_KERNEL_SIZE, ConformerFront, Lookahead
from models.fused.children import each
from models.fused.estimator_graph import sliced
from models.fused.graph import CONTRIB, GraphWriter, Shape
from models.fused.products import float32

LEFT_TOKENS = LOOKAHEAD_KERNEL_SIZE - 1
LEFT_FRAMES = UP_KERNEL_SIZE - 1
_LEAKY_SLOPE = 0.01


def front_graph(front: ConformerFront) -> bytes:
    return _FrontWriter(front).model()


class _Rate:
    """The attentions at one rate: their numbers, and where their positions come from."""

    def __init__(self, writer: GraphWriter, name: str, width: int):
        self.name, self.num_attentions = name, 0
        half = width // 2
        self.own = [writer.input(f"{name}_own_{wave}", [f"{name}_length", half]) for wave in ("sin", "cos")]
        self.seen = writer.input(f"{name}_seen", [width, f"{name}_seen_length"])


class _FrontWriter:
    def __init__(self, front: ConformerFront):
        self._front, self._writer = front, GraphWriter("front", float32)
        self._width = front.projection.in_features

    def model(self) -> bytes:
        encoder, writer, width = self._front.encoder, self._writer, self._width
        tokens, frames = (_Rate(writer, name, width) for name in ("tokens", "frames"))
        x = writer.input("x", [1, "given", encoder.embed.linear.in_features])
        x = writer.node("Mul", self._embed(encoder.embed, x), writer.input("is_token", [1, "given", 1]))
        x = self._lookahead(encoder.lookahead, x)
        for layer in each(ConformerLayer, encoder.layers):
            x = self._layer(layer, x, tokens)
        twice = writer.node("Unsqueeze", x, writer.integers(2))
        twice = writer.node("Concat", *[twice] * FRAMES_PER_TOKEN, axis=2)
        x = writer.node("Reshape", twice, writer.integers(1, -1, width))  # each token twice
        x = self._conv(encoder.up_conv, self._extended("frames", x, LEFT_FRAMES))
        x = self._embed(encoder.up_embed, x)
        for layer in each(ConformerLayer, encoder.up_layers):
            x = self._layer(layer, x, frames)
        projection = self._front.projection
        mu = writer.linear(self._norm(encoder.norm, x), projection.weight, projection.bias)
        writer.output("mu", mu, [1, "frames_length", projection.out_features])
        return writer.model()

    def _embed(self, embed: InputEmbedding, x: str) -> str:
        writer = self._writer
        x = self._norm(embed.norm, writer.linear(x, embed.linear.weight, embed.linear.bias))
        scale = math.sqrt(embed.linear.out_features)
        return writer.node("Mul", x, writer.constant(np.array(scale, np.float32)))

    def _lookahead(self, lookahead: Lookahead, x: str) -> str:
        """x (1, T + lookahead, C) -> (1, T, C)."""
        writer, reach = self._writer, lookahead.conv1.kernel_size[0] - 1
        y = writer.node("LeakyRelu", self._conv(lookahead.conv1, x), alpha=_LEAKY_SLOPE)
        y = self._conv(lookahead.conv2, self._extended("tokens", y, LEFT_TOKENS))
        return writer.node("Add", y, sliced(writer, x, 0, -reach))

    def _extended(self, rate: str, x: str, frames: int) -> str:
        """x (1, n, C) -> (1, frames + n, C)."""
        writer, shape = self._writer, [1, frames, self._width]
        extended = writer.node("Concat", writer.input(f"{rate}_left", shape), x, axis=1)
        writer.output(f"{rate}_next_left", sliced(writer, extended, -frames, None), shape)
        return extended

    def _conv(self, conv: nn.Conv1d, x: str) -> str:
        """As one product of windows: x (1, n + kernel - 1, C) -> (1, n, C_out)."""
        writer, kernel = self._writer, conv.kernel_size[0]
        windows = [sliced(writer, x, start, (start - kernel + 1) or None) for start in range(kernel)]
        weight = conv.weight.transpose(1, 2).flatten(1)
        return writer.linear(writer.node("Concat", *windows, axis=2), weight, conv.bias)

    def _layer(self, layer: ConformerLayer, x: str, rate: _Rate) -> str:
        writer, feedforward = self._writer, layer.feedforward
        x = writer.node("Add", x, self._attention(layer.attention, self._norm(layer.attention_norm, x), rate))
        y = writer.linear(self._norm(layer.feedforward_norm, x), feedforward.up.weight, feedforward.up.bias)
        if feedforward.has_silu:
            y = writer.node("QuickGelu", y, domain=CONTRIB, alpha=1.0)
        else:
            y = writer.node("Relu", y)
        y = writer.linear(y, feedforward.down.weight, feedforward.down.bias)
        return writer.node("Add", x, y)

    def _attention(self, attention: RelativeAttention, x: str, rate: _Rate) -> str:
        """The distances' part of the score is the attention's bias, scaled as the product is."""
        writer, num_heads, name = self._writer, attention.num_heads, rate.name
        size, index = self._width // num_heads, rate.num_attentions
        rate.num_attentions += 1
        parts = (attention.query, attention.key, attention.value)
        stacked = writer.linear(x, cat([part.weight for part in parts]), cat([part.bias for part in parts]))
        query, *made = writer.nodes("Split", 3, stacked, axis=2)
        content = writer.node("Add", query, writer.constant(attention.content_bias.flatten()))
        bias = self._distance_scores(attention, query, rate)
        seen = []
        for what, value in zip(("keys", "values"), made, strict=True):
            heads = writer.node("Reshape", value, writer.integers(0, 0, num_heads, size))
            heads = writer.node("Transpose", heads, perm=[0, 2, 1, 3])  # (1, H, n, D)
            writer.output(f"{name}_{what}_{index}", heads, [1, num_heads, f"{name}_length", size])
            shape: Shape = [1, num_heads, f"{name}_past", size]
            past = writer.input(f"{name}_past_{what}_{index}", shape)
            seen.append(writer.node("Concat", past, heads, axis=2))
        y = writer.node(
            "MultiHeadAttention", content, *seen, "", "", bias, domain=CONTRIB, num_heads=num_heads
        )
        return writer.linear(y, attention.out.weight, attention.out.bias)

    def _distance_scores(self, attention: RelativeAttention, query: str, rate: _Rate) -> str:
        """query (1, n, H D) -> (1, H, n, keys), as `models.relative_position` has them."""
        writer, num_heads = self._writer, attention.num_heads
        size = self._width // num_heads
        moved = writer.node("Add", query, writer.constant(attention.position_bias.flatten()))
        moved = writer.node("Reshape", moved, writer.integers(0, 0, num_heads, size))
        moved = writer.node("Transpose", moved, perm=[0, 2, 1, 3])
        weight: Tensor = attention.position.weight.unflatten(0, (num_heads, size)) / math.sqrt(size)
        weight = cat([weight[:, :, 0::2], weight[:, :, 1::2]], dim=2)  # (H, D, W)
        asked = writer.node("MatMul", moved, writer.constant(weight))
        a, b = writer.nodes("Split", 2, asked, axis=3)
        sin, cos = rate.own
        first = writer.node("Sub", writer.node("Mul", b, sin), writer.node("Mul", a, cos))
        second = writer.node("Add", writer.node("Mul", a, sin), writer.node("Mul", b, cos))
        return writer.node("MatMul", writer.node("Concat", first, second, axis=3), rate.seen)

    def _norm(self, norm: nn.LayerNorm, x: str) -> str:
        writer = self._writer
        weights = writer.constant(norm.weight), writer.constant(norm.bias)
        return writer.node("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)
