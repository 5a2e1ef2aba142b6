"""The language model of CosyVoice 2 and 3 as ONNX graphs on a CPU, for prompts and for single tokens.

Inputs of the decoder: x (B, T, C); last (B,) int32, each row's last position with the new ones counted;
total, int32, the longest row's number of positions; cos and sin (positions, D / 2); for each layer
past_keys_i and past_values_i (B, G, capacity, D). Outputs: hidden (B, T, C) after the final norm, and keys_i
and values_i, the past with the new positions written: bound to the same memory, they are written in place.
T > 1 behind a past needs B = 1. query_i (B, T, H D), of layers with alignment heads, is not rotated yet.
"""

import threading
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor, cat, nn

from firstword.models.config import AlignmentHeads
from firstword.models.lm.kv_cache import Array, CachePass
from firstword.models.lm.qwen2 import (
    Qwen2Attention,
    Qwen2Decoder,
    Qwen2Layer,
    Qwen2LM,
    rotary_angles,
)
from firstword.models.onnx_graphs.graph import CONTRIB, GraphWriter, Product, Shape
from firstword.models.onnx_graphs.session import OrtSession, each

HEAD_DIM_STEP = 16  # GroupQueryAttention with rotary positions takes multiples of that


MANY_ROWS = 8  # new tokens of a stream, from which on the product of prompts is the faster one


class Products(NamedTuple):
    """How a language model multiplies. outer: by query, key, value and head, which lose most by few bits.

    prompt: of many new tokens at once, a second copy of the weights; None has no such copy.
    """

    inner: Product
    outer: Product
    prompt: Product | None = None


def decoder_graph(decoder: Qwen2Decoder, products: Products, watched_layers: frozenset[int]) -> bytes:
    """watched_layers: whose queries are an output."""
    config, writer = decoder.config, GraphWriter("qwen2", products.inner)
    x = writer.input("x", ["rows", "length", config.hidden_size])
    positions = [
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
    for layer, norm in zip(layers, norms, strict=True):
        is_watched = layer.attention.layer in watched_layers
        attended = _attention(writer, layer.attention, normed, positions, products.outer, is_watched)
        normed, x = _normed_sum(writer, attended, x, layer.mlp_norm)
        gate = writer.linear(normed, layer.mlp.gate.weight)
        silu = writer.node("QuickGelu", gate, domain=CONTRIB, alpha=1.0)
        gated = writer.node("Mul", silu, writer.linear(normed, layer.mlp.up.weight))
        normed, x = _normed_sum(writer, writer.linear(gated, layer.mlp.down.weight), x, norm)
    writer.output("hidden", normed, ["rows", "length", config.hidden_size])
    return writer.model()


def head_graph(head: nn.Linear, product: Product) -> bytes:
    """hidden (N, C) -> logits (N, V)."""
    writer = GraphWriter("head", product)
    hidden = writer.input("hidden", ["rows", head.in_features])
    writer.output("logits", writer.linear(hidden, head.weight, head.bias), ["rows", head.out_features])
    return writer.model()


def _attention(
    writer: GraphWriter,
    attention: Qwen2Attention,
    x: str,
    positions: list[str],
    product: Product,
    is_watched: bool,
) -> str:
    """product: by query, key and value."""
    parts, size = (attention.query, attention.key, attention.value), attention.head_dim
    num_heads, num_key_heads = (part.out_features // size for part in parts[:2])
    shape: Shape = ["rows", num_key_heads, "capacity", size]
    past = [writer.input(f"past_{what}_{attention.layer}", shape) for what in ("keys", "values")]
    weight, bias = cat([part.weight for part in parts]), cat([part.bias for part in parts])
    projected = writer.linear(x, weight, bias, product)
    if is_watched:
        width = num_heads * size
        query = writer.node("Slice", projected, *map(writer.integers, (0, width, -1)))
        writer.output(f"query_{attention.layer}", query, ["rows", "length", width])
    y, keys, values = writer.nodes(
        "GroupQueryAttention",
        3,
        projected,
        "",
        "",
        *past,
        *positions,
        domain=CONTRIB,
        num_heads=num_heads,
        kv_num_heads=num_key_heads,
        do_rotary=1,
    )
    writer.output(f"keys_{attention.layer}", keys, shape)
    writer.output(f"values_{attention.layer}", values, shape)
    return writer.linear(y, attention.out.weight)


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


class _ThreadBuffers(threading.local):
    """What each thread has from one run to the next."""

    def __init__(self, head_dim: int):
        self.rotation = torch.zeros(2, 0, head_dim // 2)  # cosines and sines (2, positions, D / 2)
        self.rotation_array: Array = np.zeros((2, 0, 0), np.float32)
        self.shape: tuple[int, ...] = ()  # of the buffers (B, T)
        self.buffers: dict[int, tuple[Tensor, Array]] = {}


class OnnxQwen2LM:
    """A `SpeechLM` that embeds as the given one does and decodes by graphs of it. Threads may share it."""

    def __init__(self, lm: Qwen2LM, products: Products, num_threads: int):
        """Of `lm` the embeddings and the cache's shape are still used, the decoder no more."""
        self._lm = lm
        self._config = lm.config.qwen2
        self._watched = frozenset(layer for layer, _ in lm.alignment_heads)
        self._decoder = OrtSession(decoder_graph(lm.decoder, products, self._watched), num_threads)
        self._prompt_decoder = self._decoder
        if (prompt := products.prompt) is not None:
            graph = decoder_graph(lm.decoder, Products(prompt, prompt), self._watched)
            self._prompt_decoder = OrtSession(graph, num_threads)
        self._head = OrtSession(head_graph(lm.head, products.outer), num_threads)
        self.vocabulary = lm.vocabulary
        self.new_cache = lm.new_cache
        self.prompt_embeddings = lm.prompt_embeddings
        self.embed = lm.embed
        self._own = _ThreadBuffers(lm.config.qwen2.head_dim)

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return self._lm.alignment_heads

    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm. Rows of several tokens run one by one."""
        layers = context.layer_views()
        capacity = layers[0][0].shape[2]
        if self._own.rotation.shape[1] < capacity:
            head_dim, theta = self._config.head_dim, self._config.rope_theta
            angles = rotary_angles(torch.arange(capacity), head_dim, theta)
            self._own.rotation = torch.stack([angles.cos(), angles.sin()])  # (2, positions, D / 2)
            cosines, sines = self._own.rotation
            both = torch.stack([cat([cosines, cosines], -1), cat([-sines, sines], -1)])
            self._own.rotation_array = both.numpy()
        cos, sin = self._own.rotation
        counts, ends = context.counts, context.ends
        if x.shape[1] == 1:  # a row without a new token computes one too, behind its end
            lasts = [end if count == 0 else end - 1 for count, end in zip(counts, ends, strict=True)]
            runs = [(slice(0, len(counts)), 1, lasts, layers)]
        else:
            runs = []
            for row, (count, end) in enumerate(zip(counts, ends, strict=True)):
                if count:
                    part = slice(row, row + 1)
                    runs.append((part, count, [end - 1], [(k[part], v[part]) for k, v in layers]))
        hidden = torch.zeros(x.shape)
        queries = self._query_buffers(x.shape[:2])
        for part, count, lasts, own_layers in runs:
            inputs = {
                "x": x[part, :count].contiguous(),
                "last": torch.tensor(lasts, dtype=torch.int32),
                "total": torch.tensor(max(lasts) + 1, dtype=torch.int32),
                "cos": cos,
                "sin": sin,
            }
            outputs = {"hidden": hidden[part, :count]}  # contiguous: a row, or the one token of all
            outputs |= {f"query_{layer}": query[part, :count] for layer, (query, _) in queries.items()}
            for layer, (keys, values) in enumerate(own_layers):
                inputs |= {f"past_keys_{layer}": keys, f"past_values_{layer}": values}
                outputs |= {f"keys_{layer}": keys, f"values_{layer}": values}
            decoder = self._prompt_decoder if count >= MANY_ROWS else self._decoder
            decoder.run(inputs, outputs)
        for layer, (_, array) in queries.items():
            context.query_of[layer] = partial(query_at, array)
            context.rotation = self._own.rotation_array
        return hidden

    def _query_buffers(self, shape: tuple[int, ...]) -> dict[int, tuple[Tensor, Array]]:
        """Of the watched layers (B, T, H, D), as tensor and as array; kept for the next run of that shape."""
        if shape != self._own.shape:
            qwen2 = self._lm.config.qwen2
            heads = (qwen2.num_attention_heads, qwen2.head_dim)
            tensors = {layer: torch.zeros(*shape, qwen2.hidden_size) for layer in self._watched}
            self._own.buffers = {
                layer: (one, one.numpy().reshape(*shape, *heads)) for layer, one in tensors.items()
            }
            self._own.shape = shape
        return self._own.buffers

    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (N, C) -> (N, V)."""
        logits = hidden.new_empty(len(hidden), self.vocabulary.num_classes)
        self._head.run({"hidden": hidden.contiguous()}, {"logits": logits})
        return logits


def query_at(queries: Array, row: int, index: int, head: int) -> Array:
    """queries (B, T, H, D) -> one (D,)."""
    query: Array = queries[row, index, head]
    return query
