"""The flow's estimator and the vocoder's generator as ONNX graphs of standard operators, for TensorRT.

G rows (two a stream with guidance), T frames, M mel bands, all of the graph's number format unless named:

- `estimator`: a sequence at once, as published. x, mu, cond (G, M, T); mask (G, 1, T), 1 where a frame
  counts; t (G,) float32; spks (G, M) -> estimator_out (G, M, T).
- `estimator_chunk`: the current chunks of streams. h (G, T, 4 M), the inputs stacked; times (parts, C), what
  depends on the time alone (see `firstword.models.onnx_graphs.estimator`); past_mask (G, P) and own_mask
  (G, T), 0 where a frame counts, else `HIDDEN`; of a DiT positions (G, T) int64; left_i (G, frames, C), what
  came before the chunk at causal convolution i; keys_i, values_i (G, H, P, D) of the frames before the chunk,
  in any order -> velocity (G, T, M), next_left_i, new_keys_i, new_values_i (G, H, T, D) of the chunk alone.
- `generator`, of CosyVoice 1 and 2: mel (B, M, T), source (B, n_fft + 2, U T + 1) -> spectrum like that,
  float32.
- `generator_start` and `generator_next`, of CosyVoice 3: a stream's first piece, and any other. mel (B, M,
  T + lookahead), source (B, n_fft + 2, U T + 1, or U T), of the latter left_i (B, C, frames) -> spectrum like
  the source, float32; next_left_i.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from onnx import TensorProto

from firstword.models.config import NUM_MELS, Dtype
from firstword.models.flow.dit import ROTARY_BASE, DiT, DiTBlock
from firstword.models.flow.unet import CausalUNet
from firstword.models.hift.hift import Generator
from firstword.models.layers import TimeEmbedding
from firstword.models.onnx_graphs.estimator import (
    STACKED,
    DiTWriter,
    StateWriter,
    UNetWriter,
    num_times,
    resnets_of,
)
from firstword.models.onnx_graphs.generator import GeneratorWriter
from firstword.models.onnx_graphs.graph import Shape, float32
from firstword.models.onnx_graphs.session import each
from firstword.models.onnx_graphs.standard import HIDDEN, StandardWriter

Estimator = CausalUNet | DiT


def estimator_graph(estimator: Estimator, dtype: Dtype) -> bytes:
    """The published form: a sequence at once."""
    writer = StandardWriter("estimator", dtype)
    frames: Shape = ["rows", NUM_MELS, "length"]
    given = {name: writer.input(name, frames) for name in ("x", "mu", "cond")}
    mask = writer.input("mask", ["rows", 1, "length"])
    t = writer.input("t", ["rows"], TensorProto.FLOAT)
    parts = {name: writer.node("Transpose", value, perm=[0, 2, 1]) for name, value in given.items()}
    spks = writer.node("Unsqueeze", writer.input("spks", ["rows", NUM_MELS]), writer.integers(1))
    parts["spks"] = writer.node("Expand", spks, writer.node("Shape", parts["x"]))
    h = writer.node("Concat", *(parts[name] for name in STACKED[type(estimator)]), axis=2)
    hidden = writer.node("Mul", writer.node("Sub", mask, writer.number(1)), writer.number(-HIDDEN))
    state = _WholeState(writer, writer.node("Unsqueeze", hidden, writer.integers(1)), estimator)
    length = writer.node("Squeeze", writer.node("Shape", parts["x"], start=1, end=2))
    start, step = (writer.constant(np.array(value, np.int64)) for value in (0, 1))
    positions = writer.node("Unsqueeze", writer.node("Range", start, length, step), writer.integers(0))
    velocity = _velocity(writer, estimator, state, h, _times(writer, estimator, t), positions)
    out = writer.node("Mul", writer.node("Transpose", velocity, perm=[0, 2, 1]), mask)
    writer.output("estimator_out", out, frames)
    return writer.model()


def chunk_graph(estimator: Estimator, dtype: Dtype) -> bytes:
    """The incremental form: chunks of streams, with their caches as inputs and outputs."""
    writer = StandardWriter("estimator_chunk", dtype)
    h = writer.input("h", ["rows", "length", 4 * NUM_MELS])
    width = estimator.config.channels[0] if isinstance(estimator, CausalUNet) else estimator.config.dim
    count = num_times(estimator)
    times = writer.nodes("Split", count, writer.input("times", [count, width]), axis=0)  # (1, C) each
    past, own = writer.input("past_mask", ["rows", "past"]), writer.input("own_mask", ["rows", "length"])
    mask = writer.node("Unsqueeze", writer.node("Concat", past, own, axis=1), writer.integers(1, 2))
    positions = ""
    if isinstance(estimator, DiT):
        positions = writer.input("positions", ["rows", "length"], TensorProto.INT64)
    state = _ChunkState(writer, mask, estimator)
    velocity = _velocity(writer, estimator, state, h, times, positions)
    writer.output("velocity", velocity, ["rows", "length", NUM_MELS])
    return writer.model()


def _velocity(
    writer: StandardWriter,
    estimator: Estimator,
    state: StateWriter,
    h: str,
    times: Sequence[str],
    positions: str,
) -> str:
    """positions (G or 1, T), which a U-Net does not have."""
    if isinstance(estimator, CausalUNet):
        return UNetWriter(estimator, writer, state, float32).velocity(h, times)
    size = estimator.config.head_dim
    scales = ROTARY_BASE ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
    frames = writer.node(
        "Unsqueeze", writer.node("Cast", positions, to=TensorProto.FLOAT), writer.integers(2, 3)
    )
    angles = writer.node("Div", frames, writer.constant(scales, TensorProto.FLOAT))  # (G, T, 1, D / 2)
    cos, sin = (_as_element(writer, writer.node(wave, angles)) for wave in ("Cos", "Sin"))
    return DiTWriter(estimator, writer, state, float32, (cos, sin)).velocity(h, times)


def _times(writer: StandardWriter, estimator: Estimator, t: str) -> list[str]:
    """t (G,) -> the rows of `estimator_times`, (G, 1, C) each."""
    time = _time_embedding(writer, estimator.time, t)
    one, axis = writer.number(1), writer.integers(1)
    if isinstance(estimator, CausalUNet):
        time = writer.mish(time)
        added = (writer.linear(time, part.time.weight, part.time.bias) for part in resnets_of(estimator))
        return [writer.node("Unsqueeze", part, axis) for part in added]
    time = writer.node("Mul", time, writer.node("Sigmoid", time))
    times = []
    for layer in [*(block.modulation for block in each(DiTBlock, estimator.blocks)), estimator.modulation]:
        count = layer.out_features // estimator.config.dim
        whole = writer.node("Unsqueeze", writer.linear(time, layer.weight, layer.bias), axis)
        parts = writer.nodes("Split", count, whole, axis=2)
        if layer is estimator.modulation:
            parts.reverse()  # it has the scale first
        parts[1::3] = [writer.node("Add", scale, one) for scale in parts[1::3]]
        times += parts
    return times


def _time_embedding(writer: StandardWriter, embedding: TimeEmbedding, t: str) -> str:
    """t (G,) float32 -> (G, C). As `firstword.models.layers.time_sinusoids` has it, in float32."""
    half = embedding.sinusoid_width // 2
    frequencies = 1000 * torch.exp(torch.arange(half) * (-math.log(10_000) / (half - 1)))
    angles = writer.node(
        "Mul",
        writer.node("Unsqueeze", t, writer.integers(1)),
        writer.constant(frequencies, TensorProto.FLOAT),
    )
    waves = writer.node("Concat", writer.node("Sin", angles), writer.node("Cos", angles), axis=1)
    x = writer.linear(_as_element(writer, waves), embedding.linear1.weight, embedding.linear1.bias)
    x = writer.node("Mul", x, writer.node("Sigmoid", x))
    return writer.linear(x, embedding.linear2.weight, embedding.linear2.bias)


def _as_element(writer: StandardWriter, x: str) -> str:
    """x, float32, in the graph's number format."""
    return x if writer.element == TensorProto.FLOAT else writer.node("Cast", x, to=writer.element)


class _WholeState:
    """A sequence from its start. mask (G, 1, 1, T)."""

    def __init__(self, writer: StandardWriter, mask: str, estimator: Estimator):
        self._writer, self._mask = writer, mask
        self._num_heads, self._head_dim = estimator.config.num_heads, estimator.config.head_dim

    def extend(self, index: int, x: str, frames: int, channels: int) -> str:
        return self._writer.node("Pad", x, self._writer.integers(0, frames, 0, 0, 0, 0))

    def attend(self, layer: int, query: str, key: str, value: str) -> str:
        key, value = (self._writer.heads(part, self._num_heads, self._head_dim) for part in (key, value))
        return self._writer.attention(query, key, value, self._mask, self._num_heads, self._head_dim)


class _ChunkState:
    """What came before is an input, what is to be kept an output. mask (G, 1, 1, P + T)."""

    def __init__(self, writer: StandardWriter, mask: str, estimator: Estimator):
        self._writer, self._mask = writer, mask
        self._num_heads, self._head_dim = estimator.config.num_heads, estimator.config.head_dim

    def extend(self, index: int, x: str, frames: int, channels: int) -> str:
        writer = self._writer
        shape: Shape = ["rows", frames, channels]
        extended = writer.node("Concat", writer.input(f"left_{index}", shape), x, axis=1)
        writer.output(f"next_left_{index}", writer.sliced(extended, -frames, None), shape)
        return extended

    def attend(self, layer: int, query: str, key: str, value: str) -> str:
        writer, seen = self._writer, []
        for name, made in (("keys", key), ("values", value)):
            heads = writer.heads(made, self._num_heads, self._head_dim)
            past = writer.input(f"{name}_{layer}", ["rows", self._num_heads, "past", self._head_dim])
            writer.output(f"new_{name}_{layer}", heads, ["rows", self._num_heads, "length", self._head_dim])
            seen.append(writer.node("Concat", past, heads, axis=2))
        key, value = seen
        return writer.attention(query, key, value, self._mask, self._num_heads, self._head_dim)


def generator_graph(generator: Generator, dtype: Dtype, is_start: bool = True) -> bytes:
    """is_start: of a causal generator, the graph of a stream's first piece, or of any other."""
    config, writer = generator.config, StandardWriter("generator", dtype)
    mel = writer.input("mel", ["rows", config.num_mels, "given" if config.is_causal else "frames"])
    shape: Shape = ["rows", config.istft_n_fft + 2, "spectra"]
    source = writer.input("source", shape)

    def extend(index: int, x: str, frames: int, channels: int) -> str:
        if not frames:
            return x
        left_shape: Shape = ["rows", channels, frames]
        if is_start:
            extended = writer.node("Pad", x, writer.integers(0, 0, frames, 0, 0, 0))
        else:
            extended = writer.node("Concat", writer.input(f"left_{index}", left_shape), x, axis=2)
        writer.output(f"next_left_{index}", writer.sliced(extended, -frames, None, axis=2), left_shape)
        return extended

    made = GeneratorWriter(generator, writer, extend if config.is_causal else None, is_start)
    writer.output("spectrum", made.spectrum(mel, source), shape, TensorProto.FLOAT)
    return writer.model()
