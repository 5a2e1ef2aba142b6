"""Writes small ONNX graphs with the inputs and outputs of the published speech tokenizer and speaker encoder.

Their results follow from the recording, though they mean nothing.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firstword.models.config import SPEAKER_EMBEDDING_SIZE
from firstword.models.frontend.features import NUM_FBANK_BINS, WHISPER_NUM_MELS

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
Value = tuple[str, int, list[int | str]]  # name, element type, shape

OPSET = 17
IR_VERSION = 8
ID_SPREAD = 10_000  # ids by which a token moves as a frame's weighted sum moves by one


def write_speech_tokenizer(path: Path, vocab_size: int, frames_per_token: int, seed: int) -> None:
    """Token = a weighted sum of every `frames_per_token`-th frame's bins, folded into the vocabulary."""
    onnx = _import_onnx()
    node, types = onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Transpose", ["feats"], ["frames"], perm=[0, 2, 1]),  # (1, T, 128)
        node("Slice", ["frames", "start", "feats_length", "axis", "step"], ["picked"]),  # (1, L, 128)
        node("MatMul", ["picked", "weights"], ["sums"]),  # (1, L)
        node("Floor", ["sums"], ["floored"]),
        node("Cast", ["floored"], ["unbounded"], to=types.INT64),
        node("Mod", ["unbounded", "vocab_size"], ["ids"]),  # never negative
        node("Cast", ["ids"], ["indices"], to=types.INT32),
    ]
    weights = np.random.default_rng(seed).standard_normal(WHISPER_NUM_MELS) * ID_SPREAD
    constants: dict[str, Array] = {
        "start": np.array([0], np.int32),
        "axis": np.array([1], np.int32),
        "step": np.array([frames_per_token], np.int32),
        "weights": weights.astype(np.float32),
        "vocab_size": np.array(vocab_size),
    }
    inputs: list[Value] = [
        ("feats", types.FLOAT, [1, WHISPER_NUM_MELS, "T"]),
        ("feats_length", types.INT32, [1]),
    ]
    _write_graph(path, nodes, inputs, ("indices", types.INT32, [1, "L"]), constants)


def write_speaker_encoder(path: Path, seed: int) -> None:
    """Embedding = random sums of each bin's mean distance from its mean, which is 0 in the input."""
    onnx = _import_onnx()
    node, types = onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Abs", ["input"], ["distances"]),
        node("ReduceMean", ["distances"], ["means"], axes=[1], keepdims=0),  # (1, 80)
        node("MatMul", ["means", "weights"], ["output"]),
    ]
    weights = np.random.default_rng(seed).standard_normal((NUM_FBANK_BINS, SPEAKER_EMBEDDING_SIZE))
    inputs: list[Value] = [("input", types.FLOAT, [1, "T", NUM_FBANK_BINS])]
    output: Value = ("output", types.FLOAT, [1, SPEAKER_EMBEDDING_SIZE])
    _write_graph(path, nodes, inputs, output, {"weights": weights.astype(np.float32)})


def _write_graph(
    path: Path, nodes: "list[onnx.NodeProto]", inputs: list[Value], output: Value, constants: dict[str, Array]
) -> None:
    onnx = _import_onnx()
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info(*value) for value in inputs],
        [onnx.helper.make_tensor_value_info(*output)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _import_onnx() -> Any:
    """Serving does not need it, so it may be missing."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "writing a random checkpoint needs the package `onnx`: install firstword with its extra `dev`"
        ) from error
    return onnx
