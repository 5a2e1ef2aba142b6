"""The language model of CosyVoice 2 and 3 as ONNX graphs on a CPU, for prompts and for single tokens.

Inputs of the decoder: x (B, T, C); last (B,) int32, each row's last position with the new ones counted;
total, int32, the longest row's number of positions; cos and sin (positions, D / 2); for each layer
past_keys_i and past_values_i (B, G, capacity, D). Outputs: hidden (B, T, C) after the final norm, and keys_i
and values_i, the past with the new positions written: bound to the same memory, they are written in place.
T > 1 behind a past needs B = 1. query_i (B, T, H D), of layers with alignment heads, is not rotated yet.
"""

import threading
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
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
from firstword.models.onnx_graphs.session import BoundRun, OrtSession, each

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


class _BoundTokens(NamedTuple):
    """The decoder bound to what it reads and writes for one new token of each of `rows`, step after step.

    It keeps the cache's memory until the thread ends or decodes with another one.
    """

    memory: object  # of the cache
    rows: range
    bound: BoundRun
    last: NDArray[np.int32]  # (B,), shares the memory of the graph's input
    total: NDArray[np.int32]  # (), likewise
    queries: dict[int, Array]  # of the watched layers (B, 1, H, D)


class _Own(threading.local):
    """What each thread has from one run to the next."""

    def __init__(self, head_dim: int):
        self.rotation = torch.zeros(2, 0, head_dim // 2)  # cosines and sines (2, positions, D / 2)
        self.rotation_array: Array = np.zeros((2, 0, 0), np.float32)
        self.tokens: _BoundTokens | None = None
        self.head: BoundRun | None = None


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
        self._head_shape = (self._config.num_attention_heads, self._config.head_dim)
        self._own = _Own(self._config.head_dim)

    @property
    def alignment_heads(self) -> AlignmentHeads:
        return self._lm.alignment_heads

    @torch.inference_mode()
    def __call__(self, x: Tensor, context: CachePass) -> Tensor:
        """x (B, T, C) -> hidden (B, T, C) after the final norm. Rows of several tokens run one by one."""
        hidden, queries = self._run_tokens(x, context) if x.shape[1] == 1 else self._run_rows(x, context)
        for layer, array in queries.items():
            context.query_of[layer] = partial(query_at, array)
            context.rotation = self._own.rotation_array
        return hidden

    def _run_tokens(self, x: Tensor, context: CachePass) -> tuple[Tensor, dict[int, Array]]:
        """x (B, 1, C). A row without a new token computes one too, behind its end."""
        tokens = self._own.tokens
        if tokens is None or tokens.memory is not context.memory or tokens.rows != context.rows:
            self._own.tokens = None  # else the former cache would live until the next one is bound
            tokens = self._own.tokens = self._bind_tokens(x, context)
        counted = zip(context.counts, context.ends, strict=True)
        tokens.last[:] = [end if count == 0 else end - 1 for count, end in counted]
        tokens.total[...] = tokens.last.max() + 1
        tokens.bound.inputs["x"].copy_(x)
        tokens.bound.run()
        return tokens.bound.outputs["hidden"].clone(), tokens.queries

    def _bind_tokens(self, x: Tensor, context: CachePass) -> _BoundTokens:
        queries = self._new_queries(x)
        inputs, outputs = self._memory(torch.empty_like(x), queries, context.layer_views())
        bound = self._decoder.bind(inputs, outputs)
        last, total = inputs["last"].numpy(), inputs["total"].numpy()
        return _BoundTokens(context.memory, context.rows, bound, last, total, self._by_heads(queries))

    def _run_rows(self, x: Tensor, context: CachePass) -> tuple[Tensor, dict[int, Array]]:
        """x (B, T, C); what is behind a row's last new token stays 0."""
        hidden, queries = torch.zeros(x.shape), self._new_queries(x)
        layers = context.layer_views()
        for row, (count, end) in enumerate(zip(context.counts, context.ends, strict=True)):
            if not count:
                continue
            part = slice(row, row + 1)
            own_layers = [(keys[part], values[part]) for keys, values in layers]
            own_queries = {layer: query[part, :count] for layer, query in queries.items()}
            inputs, outputs = self._memory(x[part, :count].contiguous(), own_queries, own_layers)
            inputs["last"].fill_(end - 1)
            inputs["total"].fill_(end)
            decoder = self._prompt_decoder if count >= MANY_ROWS else self._decoder
            decoder.run(inputs, outputs)
            hidden[part, :count] = outputs["hidden"]
        return hidden, self._by_heads(queries)

    def _memory(
        self, x: Tensor, queries: dict[int, Tensor], layers: Sequence[tuple[Tensor, Tensor]]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Return inputs, without positions yet, and outputs of a run of x (B, T, C)."""
        cos, sin = self._rotation(capacity=layers[0][0].shape[2])
        inputs = {
            "x": x,
            "last": torch.empty(len(x), dtype=torch.int32),
            "total": torch.empty((), dtype=torch.int32),
            "cos": cos,
            "sin": sin,
        }
        outputs = {"hidden": torch.empty_like(x)}
        outputs |= {f"query_{layer}": query for layer, query in queries.items()}
        for layer, (keys, values) in enumerate(layers):
            inputs |= {f"past_keys_{layer}": keys, f"past_values_{layer}": values}
            outputs |= {f"keys_{layer}": keys, f"values_{layer}": values}
        return inputs, outputs

    def _new_queries(self, x: Tensor) -> dict[int, Tensor]:
        """x (B, T, C) -> memory of the watched layers' queries (B, T, H D)."""
        return {layer: torch.zeros(*x.shape[:2], self._config.hidden_size) for layer in self._watched}

    def _by_heads(self, queries: dict[int, Tensor]) -> dict[int, Array]:
        """(B, T, H D) -> the same memory (B, T, H, D)."""
        return {layer: query.unflatten(-1, self._head_shape).numpy() for layer, query in queries.items()}

    def _rotation(self, capacity: int) -> Tensor:
        """Cosines and sines (2, positions, D / 2) of so many positions or more."""
        if self._own.rotation.shape[1] < capacity:
            angles = rotary_angles(torch.arange(capacity), self._config.head_dim, self._config.rope_theta)
            cosines, sines = self._own.rotation = torch.stack([angles.cos(), angles.sin()])
            both = torch.stack([cat([cosines, cosines], -1), cat([-sines, sines], -1)])
            self._own.rotation_array = both.numpy()
        return self._own.rotation

    @torch.inference_mode()
    def logits(self, hidden: Tensor) -> Tensor:
        """hidden (N, C) -> (N, V)."""
        head = self._own.head
        if head is None or head.inputs["hidden"].shape != hidden.shape:
            logits = hidden.new_empty(len(hidden), self.vocabulary.num_classes)
            head = self._own.head = self._head.bind({"hidden": torch.empty_like(hidden)}, {"logits": logits})
        head.inputs["hidden"].copy_(hidden)
        head.run()
        return head.outputs["logits"]


def query_at(queries: Array, row: int, index: int, head: int) -> Array:
    """queries (B, T, H, D) -> one (D,)."""
    query: Array = queries[row, index, head]
    return query
