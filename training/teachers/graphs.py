"""Opens a teacher's ONNX graph with some of its inner values as further outputs."""

from collections.abc import Sequence
from pathlib import Path

import onnx
import onnxruntime


def open_graph(path: Path, inner: Sequence[str]) -> onnxruntime.InferenceSession:
    """inner: names of float values; they stand behind the graph's own outputs."""
    model = onnx.load(str(path))
    for name in inner:
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        model.graph.output.append(value)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
