"""How fast this machine multiplies by weights of each number format, in ONNX Runtime."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors

from firstword.models.onnx_graphs.graph import (
    GraphWriter,
    Product,
    float32,
    int4_blockwise,
    int8_blockwise,
    int8_per_tensor,
)
from firstword.models.onnx_graphs.session import OrtSession

_ROUNDS = 15
_TOKEN_SHAPE = (4864, 896)  # weights of a full-size language model's feedforward, for one row
_CHUNK_SHAPE = (1024, 256)  # of a full-size U-Net's
_CHUNK_ROWS = 100
_TOKEN_PRODUCTS: Mapping[str, Product] = {
    "float32": float32,
    "int8": int8_blockwise,
    "int4": int4_blockwise,
}
_CHUNK_PRODUCTS: Mapping[str, Product] = {"float32": float32, "int8": int8_per_tensor}
_NO_KERNEL = (
    *(onnx_errors.Fail, onnx_errors.InvalidArgument, onnx_errors.InvalidGraph),
    *(onnx_errors.NotImplemented, onnx_errors.RuntimeException),
)


@dataclass(frozen=True, slots=True)
class ProductTimes:
    """Milliseconds of one product in each format. A format that this ONNX Runtime cannot run is not in it."""

    token: Mapping[str, float]  # of one row: a language model's step
    chunk: Mapping[str, float]  # of a hundred rows: a chunk of the flow


@cache
def measure_products(num_threads: int) -> ProductTimes:
    """Takes a quarter of a second, once in a process."""
    return ProductTimes(
        _times(_TOKEN_PRODUCTS, 1, _TOKEN_SHAPE, num_threads),
        _times(_CHUNK_PRODUCTS, _CHUNK_ROWS, _CHUNK_SHAPE, num_threads),
    )


def _times(
    products: Mapping[str, Product], num_rows: int, shape: tuple[int, int], num_threads: int
) -> dict[str, float]:
    """The least of some rounds, in which the formats take turns."""
    size, width = shape
    weights = torch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    x, y = torch.randn(num_rows, width), torch.empty(num_rows, size)
    sessions = {}
    for name, product in products.items():
        writer = GraphWriter(name, product)
        product_of = writer.linear(writer.input("x", list(x.shape)), weights)
        writer.output("y", product_of, list(y.shape))
        try:
            sessions[name] = OrtSession(writer.model(), num_threads)
            sessions[name].run({"x": x}, {"y": y})
        except _NO_KERNEL:
            sessions.pop(name, None)
    found: dict[str, float] = {}
    for _ in range(_ROUNDS):
        for name, session in sessions.items():
            started = time.perf_counter()
            session.run({"x": x}, {"y": y})
            took_ms = round(1000 * (time.perf_counter() - started), 4)
            found[name] = min(found.get(name, took_ms), took_ms)
    return found
