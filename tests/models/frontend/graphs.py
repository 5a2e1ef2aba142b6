"""Small ONNX graphs with the inputs and outputs of the published ones."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Value = tuple[str, int, list[int | str]]  # name, element type, shape

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64


def write_speech_tokenizer(
    path: Path, frames_per_token: int = 4, first_id: int = 0, output_type: int = INT32
) -> None:
    """Token = first_id + floor(10 |mean over the bins|) of every `frames_per_token`-th frame."""
    nodes = [
        helper.make_node("ReduceMean", ["feats"], ["means"], axes=[1], keepdims=0),
        helper.make_node("Slice", ["means", "start", "end", "axis", "step"], ["picked"]),
        helper.make_node("Abs", ["picked"], ["absolute"]),
        helper.make_node("Mul", ["absolute", "ten"], ["scaled"]),
        helper.make_node("Floor", ["scaled"], ["floored"]),
        helper.make_node("Add", ["floored", "first_id"], ["ids"]),
        helper.make_node("Cast", ["ids"], ["indices"], to=output_type),
    ]
    constants = {
        "start": np.array([0]),
        "end": np.array([2**31 - 1]),
        "axis": np.array([1]),
        "step": np.array([frames_per_token]),
        "ten": np.array(10, np.float32),
        "first_id": np.array(first_id, np.float32),
    }
    inputs: list[Value] = [("feats", FLOAT, [1, 128, "T"]), ("feats_length", INT32, [1])]
    write_graph(path, nodes, inputs, [("indices", output_type, ["B", "L"])], constants)


def write_speaker_encoder(path: Path, num_values: int = 192, scale: float = 1.0) -> None:
    """Value i = scale x mean over time of bin i mod 80."""
    weights = np.zeros((80, num_values), np.float32)
    weights[np.arange(num_values) % 80, np.arange(num_values)] = scale
    nodes = [
        helper.make_node("ReduceMean", ["input"], ["means"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["means", "weights"], ["output"]),
    ]
    inputs: list[Value] = [("input", FLOAT, ["B", "T", 80])]
    write_graph(path, nodes, inputs, [("output", FLOAT, ["B", "D"])], {"weights": weights})


def write_graph(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: list[Value],
    outputs: list[Value],
    constants: dict[str, np.ndarray],
) -> None:
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
