"""Writes ONNX graphs node by node, with matrix products in float32, and in 8 and 4 bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TensorProto, helper
from torch import Tensor, nn

OPSET = 17
IR_VERSION = 10
CONTRIB = "com.microsoft"  # the operators that ONNX Runtime adds

_MISH_LIMIT = 20.0  # where mish(x) is x in float32, and exp(x) squared still a number

Shape = Sequence[int | str]  # a name stands for a free size
Matrix = npt.NDArray[np.float32]
Product = Callable[["GraphWriter", str, Matrix], str]
"""Writes the product of x (..., K) and a matrix of weights (N, K): (..., N).

See `models.onnx.quantization`.
"""


class GraphWriter:
    """A value is named by the node that makes it; only inputs and outputs have names of their own."""

    opset = OPSET

    def __init__(self, name: str, product: Product, element: int = TensorProto.FLOAT):
        """product: how `linear` multiplies. element: of inputs, outputs and constants that are floats."""
        self._product = product
        self.element = element
        self._model = ModelProto(ir_version=IR_VERSION)  # written in place: copies of weights take seconds
        self._graph = self._model.graph
        self._graph.name = name
        self._names: dict[str, str] = {}  # of outputs, by value
        self._quantized: dict[str, tuple[str, str]] = {}  # activations in 8 bits and their scales, by value

    def input(self, name: str, shape: Shape, dtype: int | None = None) -> str:
        self._graph.input.append(helper.make_tensor_value_info(name, dtype or self.element, shape))
        return name

    def output(self, name: str, value: str, shape: Shape, dtype: int | None = None) -> None:
        """What a node made is handed out as `name`."""
        self._names[value] = name
        self._graph.output.append(helper.make_tensor_value_info(name, dtype or self.element, shape))

    def constant(self, values: Tensor | npt.NDArray[np.generic], dtype: int | None = None) -> str:
        """Floats become `dtype`, or the writer's element type."""
        array = values.detach().float().cpu().numpy() if isinstance(values, Tensor) else values
        if array.dtype == np.float32:
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype or self.element))
        constant = self._graph.initializer.add()
        constant.name = f"constant_{len(self._graph.initializer)}"
        constant.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        constant.dims.extend(array.shape)
        constant.raw_data = array.tobytes()
        return constant.name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """One node; -> its one output."""
        return self.nodes(operator, 1, *inputs, domain=domain, **attributes)[0]

    def nodes(
        self, operator: str, count: int, *inputs: str, domain: str = "", **attributes: Any
    ) -> list[str]:
        """One node; -> its `count` outputs."""
        outputs = [f"{operator}_{len(self._graph.node)}_{index}" for index in range(count)]
        self._graph.node.append(helper.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs

    def cast(self, x: str, element: int) -> str:
        """x, of the writer's element type, as `element`."""
        return x if element == self.element else self.node("Cast", x, to=element)

    def sliced(self, x: str, start: int, stop: int | None, axis: int = 1) -> str:
        """Frames [start, stop) of x (B, T, C), counted from the end where negative. axis: where time is."""
        end = np.iinfo(np.int64).max if stop is None else stop
        return self.node("Slice", x, *map(self.integers, (start, end, axis)))

    def linear(
        self, x: str, weight: Tensor, bias: Tensor | None = None, product: Product | None = None
    ) -> str:
        """x (..., K), weight (N, K), bias (N,) -> (..., N). product: None takes the writer's."""
        y = (product or self._product)(self, x, weight.detach().float().cpu().numpy())
        return y if bias is None else self.node("Add", y, self.constant(bias))

    def unfolded_conv(self, conv: nn.Conv1d, x: str) -> str:
        """Unfolded (im2col) convolution, one product: x (B, T + kernel - 1, C) -> (B, T, C_out).

        The weights are ordered as the unfolded input is, by kernel position and then by channel.
        """
        kernel = conv.kernel_size[0]
        unfolded = [self.sliced(x, start, (start - kernel + 1) or None) for start in range(kernel)]
        weight = conv.weight.transpose(1, 2).flatten(1)
        return self.linear(self.node("Concat", *unfolded, axis=2), weight, conv.bias)

    def counted(self, x: str) -> str:
        """x (B, T, C) -> 0 to T - 1, (T, 1) int32."""
        frames = self.node("Cast", self.sliced(self.node("Shape", x), 1, 2, axis=0), to=TensorProto.INT32)
        zero, one = (self.constant(np.array(value, np.int32)) for value in (0, 1))
        steps = self.node("Range", zero, self.node("Squeeze", frames), one)
        return self.node("Unsqueeze", steps, self.integers(1))

    def int8_conv(self, conv: nn.Conv1d, x: str, taps: str) -> str:
        """x (B, T, C), in one scale for all of it -> (B, T, C_out): padded with zeros to keep its length.

        taps (T, kernel): which frames of the padded x each frame of the result is made of.
        """
        assert conv.bias is not None
        reach = conv.dilation[0] * (conv.kernel_size[0] - 1)
        quantized, scale, zero = self.nodes("DynamicQuantizeLinear", 3, x)
        padded = self.node("Pad", quantized, self.integers(0, reach // 2, 0, 0, reach // 2, 0), zero)
        unfolded = self.node("Gather", padded, taps, axis=1)  # (B, T, kernel, C)
        matrix = conv.weight.transpose(1, 2).flatten(1).detach().float().cpu().numpy()
        weights, scales = quantized_rows(matrix)
        return self.node(
            "MatMulIntegerToFloat",
            self.node("Reshape", unfolded, self.integers(0, 0, matrix.shape[1])),
            self.constant(np.ascontiguousarray(weights.T)),
            scale,
            self.constant(scales),
            zero,
            self.constant(np.zeros(len(scales), np.int8)),
            self.constant(conv.bias),
            domain=CONTRIB,
        )

    def quantized_activations(self, x: str) -> tuple[str, str]:
        """x (..., K) -> steps (..., K), 128 meaning 0, and their scales (..., 1); written once for each x."""
        if x not in self._quantized:
            largest = self.node("ReduceMax", self.node("Abs", x), axes=[-1], keepdims=1)
            least, step = (self.constant(np.array(value, np.float32)) for value in (1e-30, 1 / 127))
            scales = self.node("Mul", self.node("Max", largest, least), step)
            steps = self.node("Round", self.node("Div", x, scales))
            middle = self.constant(np.array(128, np.float32))
            steps = self.node("Cast", self.node("Add", steps, middle), to=TensorProto.UINT8)
            self._quantized[x] = (steps, scales)
        return self._quantized[x]

    def layer_norm(self, norm: nn.LayerNorm, x: str) -> str:
        weights = self.constant(norm.weight), self.constant(norm.bias)
        return self.node("LayerNormalization", x, *weights, axis=-1, epsilon=norm.eps)

    def scaled_norm(self, x: str, scale: str, shift: str, width: int, eps: float) -> str:
        """x (B, T, width); scale, shift (width,), not constant."""
        return self.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=eps)

    def mish(self, x: str) -> str:
        """x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2)."""
        two, limit = (self.constant(np.array(value, np.float32)) for value in (2, _MISH_LIMIT))
        exponential = self.node("Exp", self.node("Min", x, limit))
        n = self.node("Mul", exponential, self.node("Add", exponential, two))
        return self.node("Mul", x, self.node("Div", n, self.node("Add", n, two)))

    def gelu(self, x: str) -> str:
        return self.node("Gelu", x, domain=CONTRIB)

    def tanh_gelu(self, x: str, bias: Tensor) -> str:
        """Of x + bias."""
        return self.node("FastGelu", x, self.constant(bias), domain=CONTRIB)

    def turned(self, x: str, cos: str, sin: str) -> str:
        """x (B, T, 2 D): two heads, their neighboring channels turned in pairs; cos, sin (T, D / 2)."""
        return self.node(
            "RotaryEmbedding",
            x,
            self.integers(0),
            cos,
            sin,
            domain=CONTRIB,
            interleaved=1,
            num_heads=2,
            rotary_embedding_dim=0,
        )

    def model(self) -> bytes:
        """Serialize all that was written. Call it once, at the end."""
        nodes = self._graph.node
        for node in nodes:
            node.input[:] = [self._names.get(value, value) for value in node.input]
            node.output[:] = [self._names.get(value, value) for value in node.output]
        domains = {node.domain for node in nodes} - {""}
        versions = [("", self.opset), *((domain, 1) for domain in sorted(domains))]
        self._model.opset_import.extend(helper.make_opsetid(*version) for version in versions)
        model: bytes = self._model.SerializeToString()
        self._model.Clear()
        return model


BLOCK = 32  # weights in 8 bits, and activations, that share a scale
NIBBLE_BLOCK = 128  # weights in 4 bits; of fewer a product takes a third longer
INT8_ACTIVATIONS = 4  # MatMulNBits' accuracy level that has them


def float32(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    return writer.node("MatMul", x, writer.constant(np.ascontiguousarray(matrix.T)))


def int8_blockwise(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """Block-wise int8: weights and activations scaled in blocks of 32 along K.

    A row's result does not depend on other rows.

    For few rows, where reading the weights is the cost.
    """
    return _by_blocks(writer, x, matrix.shape, (8, BLOCK), *quantized_blocks(matrix))


def int4_blockwise(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """As `int8_blockwise` with weights of 4 bits in blocks of 128, which are read in half the time."""
    return _by_blocks(writer, x, matrix.shape, (4, NIBBLE_BLOCK), *quantized_nibbles(matrix))


def _by_blocks(
    writer: GraphWriter,
    x: str,
    shape: tuple[int, ...],
    form: tuple[int, int],
    weights: npt.NDArray[np.uint8],
    scales: Matrix,
) -> str:
    """shape: (N, K). form: bits of a weight, and weights of a block."""
    bits, block = form
    return writer.node(
        "MatMulNBits",
        x,
        writer.constant(weights),
        writer.constant(scales),
        domain=CONTRIB,
        N=shape[0],
        K=shape[1],
        bits=bits,
        block_size=block,
        accuracy_level=INT8_ACTIVATIONS,
    )


def int8_per_tensor(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """Per-tensor dynamic int8: weights scaled by output, activations by one scale for all rows.

    For many rows of one stream, where arithmetic is the cost: three to five times as fast as float32.
    """
    quantized, scales = quantized_rows(matrix)
    weights, zeros = np.ascontiguousarray(quantized.T), np.zeros(len(matrix), np.int8)
    constants = [writer.constant(values) for values in (weights, scales, zeros)]
    return writer.node("DynamicQuantizeMatMul", x, *constants, domain=CONTRIB)


def int8_per_row(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """Per-row dynamic int8: weights scaled by output, activations by a scale for each row.

    A row's result does not depend on other rows.

    For many rows, where arithmetic is the cost: prompts.
    """
    quantized, weight_scales = quantized_rows(matrix)
    steps, scales = writer.quantized_activations(x)
    y = writer.node(
        "MatMulIntegerToFloat",
        steps,
        writer.constant(np.ascontiguousarray(quantized.T)),
        writer.constant(np.ones((), np.float32)),
        writer.constant(weight_scales),
        writer.constant(np.array(128, np.uint8)),
        domain=CONTRIB,
    )
    return writer.node("Mul", y, scales)


def quantized_rows(matrix: Matrix) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """matrix (N, K) -> 8-bit weights (N, K) and their scales (N,)."""
    scales = np.maximum(np.abs(matrix).max(axis=1), np.finfo(np.float32).tiny) / 127
    return np.rint(matrix / scales[:, None]).astype(np.int8), scales.astype(np.float32)


def quantized_blocks(matrix: Matrix) -> tuple[npt.NDArray[np.uint8], Matrix]:
    """matrix (N, K) -> 8-bit weights (N, blocks, 32), 128 meaning 0, and their scales (N, blocks).

    A row's last block is filled up with zeros.
    """
    blocks = _blocks(matrix, BLOCK)
    scales = np.abs(blocks).max(axis=-1) / 127
    steps = blocks / np.where(scales > 0, scales, 1)[..., None]
    return (np.rint(steps) + 128).astype(np.uint8), scales.astype(np.float32)


_NIBBLE_SHARES = (0.76, 0.83, 0.9, 0.97, 1.04)  # of a block's largest weight, that its lowest step is
_NIBBLE_ROWS = 64  # quantized at a time: what fits the processor's cache


def quantized_nibbles(matrix: Matrix) -> tuple[npt.NDArray[np.uint8], Matrix]:
    """matrix (N, K) -> 4-bit weights, two in a byte, 8 meaning 0 (N, blocks, 64), and scales (N, blocks).

    Each block has the scale of the least squared error among those tried.
    """
    blocks = _blocks(matrix, NIBBLE_BLOCK)
    nibbles = np.empty(blocks.shape, np.uint8)
    scales = np.empty(blocks.shape[:2], np.float32)
    for row in range(0, len(blocks), _NIBBLE_ROWS):
        rows = slice(row, row + _NIBBLE_ROWS)
        steps, scales[rows] = _nearest_steps(blocks[rows])
        nibbles[rows] = steps + 8
    packed: npt.NDArray[np.uint8] = nibbles[..., 0::2] | (nibbles[..., 1::2] << np.uint8(4))
    return packed, scales


def _nearest_steps(blocks: Matrix) -> tuple[Matrix, Matrix]:
    """blocks (N, blocks, 128) -> whole steps from -8 to 7, and their scales (N, blocks)."""
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=-1)[..., None], axis=-1)
    scales, steps, errors = largest, blocks, np.full_like(largest, np.inf)
    for share in _NIBBLE_SHARES:
        tried = np.where(largest == 0, np.float32(1), largest * np.float32(-share / 8))  # there is no step 8
        rounded = np.clip(np.rint(blocks / tried), -8, 7)
        error = np.square(rounded * tried - blocks).sum(axis=-1, keepdims=True)
        is_better = error < errors
        scales, errors = np.where(is_better, tried, scales), np.where(is_better, error, errors)
        steps = np.where(is_better, rounded, steps)
    return steps, scales[..., 0]


def _blocks(matrix: Matrix, block: int) -> Matrix:
    """matrix (N, K) -> (N, blocks, block), the last one filled up with zeros."""
    size, width = matrix.shape
    return np.pad(matrix, ((0, 0), (0, -width % block))).reshape(size, -1, block)
