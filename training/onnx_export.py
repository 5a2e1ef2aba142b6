"""Writes a network as one ONNX file."""

from pathlib import Path

import onnx
import torch
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
    program.save(str(path), external_data=False)
    onnx.save(without_traces(onnx.load(path)), path)


def without_traces(model: onnx.ModelProto) -> onnx.ModelProto:
    """Without where in whose Python each operation came from."""
    for node in model.graph.node:
        del node.metadata_props[:]
    for value in (*model.graph.value_info, *model.graph.input, *model.graph.output, *model.graph.initializer):
        del value.metadata_props[:]
    del model.graph.metadata_props[:]
    return model
