"""Writes a network as one ONNX file, and reads its weights back."""

from pathlib import Path

import onnx
import torch
from onnx import numpy_helper
from torch import Tensor, nn


def export_onnx(
    network: nn.Module,
    arguments: tuple[Tensor, ...],
    path: Path,
    inputs: list[str],
    output: str,
    dynamic_shapes: dict[str, object],
) -> None:
    program = torch.onnx.export(
        network.eval(),
        arguments,
        input_names=inputs,
        output_names=[output],
        opset_version=18,
        dynamic_shapes=dynamic_shapes,
        verbose=False,
    )
    assert program is not None, path
    model = program.model_proto
    graph = model.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer, graph):
        part.ClearField("metadata_props")  # in which file each operation was traced
    onnx.save(model, path)


def read_weights(path: Path, network: nn.Module, name: str) -> None:
    """Loads `network`, which was a part called `name` of what `export_onnx` wrote.

    Of a linear layer the file has the matrix transposed and without a name: it is known by its shape. Raises
    KeyError naming a weight that is not there, or that several might be.
    """
    graph = onnx.load(path).graph
    written = {one.name: torch.from_numpy(numpy_helper.to_array(one).copy()) for one in graph.initializer}
    state = {}
    for key, value in network.state_dict().items():
        turned = [one.T for one in written.values() if one.shape == value.shape[::-1] and value.ndim == 2]
        named = f"{name}.{key}"
        if named not in written and len(turned) != 1:
            raise KeyError(f"{path}: {len(turned)} weights may be {named}, expected one")
        state[key] = written[named] if named in written else turned[0]
    network.load_state_dict(state)
