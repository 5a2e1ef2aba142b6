"""Writes a network as one ONNX file."""

from pathlib import Path

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
