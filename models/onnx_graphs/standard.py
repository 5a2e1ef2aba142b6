"""Writes ONNX graphs of standard operators alone, in float32, float16 or bfloat16."""

import math
from typing import Final

import numpy as np
from onnx import TensorProto
from torch import Tensor

from firstword.models.config import Dtype
from firstword.models.onnx_graphs.graph import GraphWriter, float32

ELEMENTS: Final[dict[Dtype, int]] = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}
HIDDEN: Final = -1e4  # added to an attention's score; float16 holds it, and e to that power is 0


class StandardWriter(GraphWriter):
    """A graph for any runtime, strongly typed: every float is of `dtype` but where a node casts it."""

    def __init__(self, name: str, dtype: Dtype):
        super().__init__(name, float32, ELEMENTS[dtype])

    def scaled_norm(self, x: str, scale: str, shift: str, width: int, eps: float) -> str:
        """x (B, T, width); scale, shift (..., width), of each row their own."""
        ones = self.constant(np.ones(width, np.float32))
        normed = self.node("LayerNormalization", x, ones, axis=-1, epsilon=eps)
        return self.node("Add", self.node("Mul", normed, scale), shift)

    def mish(self, x: str) -> str:
        return self.node("Mul", x, self.node("Tanh", self.node("Softplus", x)))

    def gelu(self, x: str) -> str:
        """x / 2 (1 + erf(x / sqrt 2))."""
        erf = self.node("Erf", self.node("Mul", x, self.number(math.sqrt(0.5))))
        return self._half_gated(x, erf)

    def tanh_gelu(self, x: str, bias: Tensor) -> str:
        """y / 2 (1 + tanh(sqrt(2 / pi) y (1 + 0.044715 y^2))), y = x + bias."""
        y = self.node("Add", x, self.constant(bias))
        cubic = self.node("Mul", self.node("Mul", y, y), self.number(0.044715))
        inner = self.node("Mul", y, self.node("Add", cubic, self.number(1)))
        return self._half_gated(
            y, self.node("Tanh", self.node("Mul", inner, self.number(math.sqrt(2 / math.pi))))
        )

    def _half_gated(self, x: str, gate: str) -> str:
        half = self.node("Mul", x, self.number(0.5))
        return self.node("Mul", half, self.node("Add", gate, self.number(1)))

    def turned(self, x: str, cos: str, sin: str) -> str:
        """As in GraphWriter; cos, sin (..., T, 1, D / 2), of each row their own or the same for all."""
        pairs = self.node("Reshape", x, self.integers(0, 0, 2, -1, 2))  # (B, T, heads, D / 2, 2)
        a, b = (
            self.node("Gather", pairs, self.constant(np.array(index, np.int64)), axis=4) for index in (0, 1)
        )
        turned = (
            self.node("Sub", self.node("Mul", a, cos), self.node("Mul", b, sin)),
            self.node("Add", self.node("Mul", b, cos), self.node("Mul", a, sin)),
        )
        ends = (self.node("Unsqueeze", part, self.integers(4)) for part in turned)
        return self.node("Reshape", self.node("Concat", *ends, axis=4), self.integers(0, 0, -1))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, np.float32))

    def heads(self, x: str, num_heads: int, head_dim: int) -> str:
        """x (B, T, H D) -> (B, H, T, D)."""
        split = self.node("Reshape", x, self.integers(0, 0, num_heads, head_dim))
        return self.node("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, query: str, key: str, value: str, mask: str, num_heads: int, head_dim: int) -> str:
        """query (B, T, H D), key, value (B, H, K, D), mask (B, 1, 1, K) to be added -> (B, T, H D)."""
        scaled = self.node("Mul", self.heads(query, num_heads, head_dim), self.number(head_dim**-0.5))
        scores = self.node("MatMul", scaled, self.node("Transpose", key, perm=[0, 1, 3, 2]))
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        seen = self.node("Transpose", self.node("MatMul", shares, value), perm=[0, 2, 1, 3])
        return self.node("Reshape", seen, self.integers(0, 0, num_heads * head_dim))
