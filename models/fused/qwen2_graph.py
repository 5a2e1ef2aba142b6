"""The decoder of Qwen2 as one graph, for prompts and for single tokens.

Inputs: x (B, T, C); last (B,) int32, each row's last position with the new ones counted; total, int32, the
longest row's number of positions; cos and sin (positions, D / 2); for each layer past_keys_i and
past_values_i (B, G, room, D). Outputs: hidden (B, T, C) after the final norm, and keys_i and values_i, the
past with the new positions written: bound to the same memory, they are written in place.
T > 1 behind a past needs B = 1.
"""

from onnx import TensorProto
from torch import cat, nn

from models.fused.children import each
from models.fused.graph import CONTRIB, GraphWriter, Product, Shape
from models.lm.qwen2 import Qwen2Attention, Qwen2Decoder, Qwen2Layer, Qwen2MLP

HEAD_DIM_STEP = 16  # the attention with rotary positions takes heads of multiples of that


def decoder_graph(decoder: Qwen2Decoder, product: Product) -> bytes:
    config, writer = decoder.config, GraphWriter("qwen2", product)
    x = writer.input("x", ["rows", "length", config.hidden_size])
    places = [
        writer.input("last", ["rows"], TensorProto.INT32),
        writer.input("total", [], TensorProto.INT32),
        writer.input("cos", ["positions", config.head_dim // 2]),
        writer.input("sin", ["positions", config.head_dim // 2]),
    ]
    layers = each(Qwen2Layer, decoder.layers)
    norms = [*(layer.attention_norm for layer in layers[1:]), decoder.norm]
    normed = writer.node(
        "SimplifiedLayerNormalization",
        x,
        writer.constant(layers[0].attention_norm.weight),
        axis=-1,
        epsilon=config.rms_norm_eps,
    )
    for index, (layer, norm) in enumerate(zip(layers, norms, strict=True)):
        attended = _attention(writer, layer.attention, index, normed, places)
        normed, x = _normed_sum(writer, attended, x, layer.mlp_norm)
        normed, x = _normed_sum(writer, _mlp(writer, layer.mlp, normed), x, norm)
    writer.output("hidden", normed, ["rows", "length", config.hidden_size])
    return writer.model()


def head_graph(head: nn.Linear, product: Product) -> bytes:
    """hidden (N, C) -> logits (N, V)."""
    writer = GraphWriter("head", product)
    hidden = writer.input("hidden", ["rows", head.in_features])
    writer.output("logits", writer.linear(hidden, head.weight, head.bias), ["rows", head.out_features])
    return writer.model()


def _attention(writer: GraphWriter, attention: Qwen2Attention, index: int, x: str, places: list[str]) -> str:
    parts, size = (attention.query, attention.key, attention.value), attention.head_dim
    num_heads, num_key_heads = (part.out_features // size for part in parts[:2])
    shape: Shape = ["rows", num_key_heads, "room", size]
    past = [writer.input(f"past_{what}_{index}", shape) for what in ("keys", "values")]
    y, keys, values = writer.nodes(
        "GroupQueryAttention",
        3,
        writer.linear(x, cat([part.weight for part in parts]), cat([part.bias for part in parts])),
        "",
        "",
        *past,
        *places,
        domain=CONTRIB,
        num_heads=num_heads,
        kv_num_heads=num_key_heads,
        do_rotary=1,
    )
    writer.output(f"keys_{index}", keys, shape)
    writer.output(f"values_{index}", values, shape)
    return writer.linear(y, attention.out.weight)


def _mlp(writer: GraphWriter, mlp: Qwen2MLP, x: str) -> str:
    silu = writer.node("QuickGelu", writer.linear(x, mlp.gate.weight), domain=CONTRIB, alpha=1.0)
    return writer.linear(writer.node("Mul", silu, writer.linear(x, mlp.up.weight)), mlp.down.weight)


def _normed_sum(writer: GraphWriter, x: str, y: str, norm: nn.RMSNorm) -> tuple[str, str]:
    """-> the norm of x + y, and x + y."""
    normed, _, _, total = writer.nodes(
        "SkipSimplifiedLayerNormalization",
        4,
        x,
        y,
        writer.constant(norm.weight),
        domain=CONTRIB,
        epsilon=norm.eps,
    )
    return normed, total
