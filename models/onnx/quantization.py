"""Matrix products in ONNX graphs: float32, block-wise int8 and per-tensor dynamic int8."""

import numpy as np
import numpy.typing as npt

from firstword.models.onnx.graph import CONTRIB, GraphWriter, Matrix

BLOCK = 32  # weights, and activations, that share a scale
INT8_ACTIVATIONS = 4  # MatMulNBits' accuracy level that has them


def float32(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    return writer.node("MatMul", x, writer.constant(np.ascontiguousarray(matrix.T)))


def int8_blockwise(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """Block-wise int8: weights and activations scaled in blocks of 32 along K.

    A row's result does not depend on other rows.

    For few rows, where reading the weights is the cost.
    """
    quantized, scales = quantized_blocks(matrix)
    return writer.node(
        "MatMulNBits",
        x,
        writer.constant(quantized),
        writer.constant(scales),
        domain=CONTRIB,
        N=matrix.shape[0],
        K=matrix.shape[1],
        bits=8,
        block_size=BLOCK,
        accuracy_level=INT8_ACTIVATIONS,
    )


def int8_per_tensor(writer: GraphWriter, x: str, matrix: Matrix) -> str:
    """Per-tensor dynamic int8: weights scaled by output, activations by one scale for all rows.

    For many rows of one stream, where arithmetic is the cost: three to five times as fast as float32.
    """
    scales = np.maximum(np.abs(matrix).max(axis=1), np.finfo(np.float32).tiny) / 127
    quantized = np.rint(matrix / scales[:, None]).astype(np.int8)
    constants = np.ascontiguousarray(quantized.T), scales.astype(np.float32), np.zeros(len(matrix), np.int8)
    return writer.node("DynamicQuantizeMatMul", x, *map(writer.constant, constants), domain=CONTRIB)


def quantized_blocks(matrix: Matrix) -> tuple[npt.NDArray[np.uint8], Matrix]:
    """matrix (N, K) -> 8-bit weights (N, blocks, 32), 128 meaning 0, and their scales (N, blocks).

    A row's last block is filled up with zeros.
    """
    size, width = matrix.shape
    blocks = np.pad(matrix, ((0, 0), (0, -width % BLOCK))).reshape(size, -1, BLOCK)
    scales = np.abs(blocks).max(axis=-1) / 127
    steps = blocks / np.where(scales > 0, scales, 1)[..., None]
    return (np.rint(steps) + 128).astype(np.uint8), scales.astype(np.float32)
