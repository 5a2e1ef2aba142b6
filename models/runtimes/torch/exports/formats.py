"""Write a part as TorchScript, as a package of AOTInductor or as ONNX, and run the first two."""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import torch

from firstword.models.runtimes.torch.exports.parts import MAX_FRAMES, Axis, Part, inputs_of

Format = Literal["torchscript", "aoti", "onnx"]
SUFFIXES: dict[Format, str] = {"torchscript": ".pt", "aoti": ".pt2", "onnx": ".onnx"}
OPSET = 20

Program = Callable[..., Any]
"""A part that was loaded: its inputs in their order -> its output, or a tuple of them."""


class ExportError(Exception):
    """An export that cannot be made or used; the message says what to do instead."""


def check_format(format: Format) -> None:
    """Raises ExportError where this machine cannot write the format."""
    if format == "aoti" and shutil.which("g++") is None and shutil.which("clang++") is None:
        raise ExportError(
            "--format aoti needs a C++ compiler, and g++ and clang++ are not there; install one, or give "
            "--format torchscript"
        )
    if format == "onnx":
        try:
            import onnxscript  # noqa: F401
        except ImportError:
            raise ExportError(
                "--format onnx needs the package onnxscript; pip install 'firstword[training]'"
            ) from None


def write_part(part: Part, format: Format, path: Path) -> None:
    """Trace and write one part. AOTInductor compiles it for this machine's processor, or its GPU."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # a trace warns of each size that is a constant of the network
        match format:
            case "torchscript":
                traced = torch.jit.trace(part.module, inputs_of(part), check_trace=False)
                traced.save(str(path))
            case "aoti":
                torch._inductor.aoti_compile_and_package(exported(part), package_path=str(path))
            case "onnx":
                torch.onnx.export(
                    exported(part),
                    input_names=list(part.inputs),
                    output_names=list(part.outputs),
                    opset_version=OPSET,
                    external_data=False,
                    optimize=True,
                    verbose=False,
                ).save(str(path))  # type: ignore[union-attr]


def exported(part: Part) -> torch.export.ExportedProgram:
    """The part as torch.export sees it, what its axes count being any number from 2 on."""
    names = dict.fromkeys(axis.name for axes in part.axes.values() for axis in axes.values())
    counts: dict[str, Any] = {name: torch.export.Dim(name, min=2, max=MAX_FRAMES) for name in names}

    def dimension(axis: Axis) -> Any:
        scaled = counts[axis.name] if axis.factor == 1 else axis.factor * counts[axis.name]
        return scaled + axis.offset if axis.offset else scaled

    shapes = tuple(
        {number: dimension(axis) for number, axis in part.axes.get(given, {}).items()}
        for given in part.inputs
    )
    return torch.export.export(part.module, inputs_of(part), dynamic_shapes=shapes, strict=False)


def load_part(format: Format, path: Path, device: torch.device | str) -> Program:
    """Raises ExportError for a file that cannot be loaded, and for ONNX, which other runtimes run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of TorchScript itself
            if format == "torchscript":
                program: Program = torch.jit.load(str(path), map_location=device)
                return program
            if format == "aoti":
                package: Program = torch._inductor.aoti_load_package(str(path))
                return package
    except (RuntimeError, OSError, ValueError) as error:
        raise ExportError(
            f"{path} cannot be loaded: {str(error).splitlines()[0]}; export it again"
        ) from error
    raise ExportError(f"{path} is ONNX, which the service does not run; export as torchscript or aoti")
