"""Opens a teacher's ONNX graph with some of its inner values as further outputs."""

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnxruntime


def open_graph(path: Path, inner: Sequence[str], is_cut: bool = False) -> onnxruntime.InferenceSession:
    """inner: names of float values; they stand behind the graph's own outputs. A cut graph has them
    alone, and computes nothing that they do not need."""
    model = onnx.load(str(path))
    for name in inner:
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(value)
    if is_cut:
        given = [one.name for one in model.graph.input]
        model = onnx.utils.Extractor(model).extract_model(given, list(inner))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
