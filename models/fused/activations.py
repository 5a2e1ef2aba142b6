"""Activations that ONNX Runtime has no operator for."""

import numpy as np

from models.fused.graph import GraphWriter

_MISH_LIMIT = 20.0  # where mish(x) is x in float32, and exp(x) squared still a number


def mish(writer: GraphWriter, x: str) -> str:
    """x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2)."""
    two, limit = (writer.constant(np.array(value, np.float32)) for value in (2, _MISH_LIMIT))
    exponential = writer.node("Exp", writer.node("Min", x, limit))
    n = writer.node("Mul", exponential, writer.node("Add", exponential, two))
    return writer.node("Mul", x, writer.node("Div", n, writer.node("Add", n, two)))
