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
    model = program.model_proto
    graph = model.graph
    for part in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer, graph):
        part.ClearField("metadata_props")  # in which file each operation was traced
    onnx.save(model, path)
