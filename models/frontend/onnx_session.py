"""Opens an ONNX file with a thread budget; refuses one whose inputs and outputs are not as published."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors

from models.frontend.errors import FrontendError
from models.onnx_options import session_options

ONNX_ERRORS = (
    onnx_errors.EPFail,
    onnx_errors.Fail,
    onnx_errors.InvalidArgument,
    onnx_errors.InvalidGraph,
    onnx_errors.InvalidProtobuf,
    onnx_errors.NoModel,
    onnx_errors.NoSuchFile,
    onnx_errors.NotImplemented,
    onnx_errors.RuntimeException,
)


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A published input or output. None stands for a free dimension, a `shape` of None for any rank."""

    types: tuple[str, ...]  # in onnxruntime's words, such as tensor(float)
    shape: tuple[int | None, ...] | None

    def admits(self, type_name: str, shape: Sequence[int | str | None]) -> bool:
        """Whether a graph's declaration agrees; names in its shape are free, no shape agrees with any."""
        if type_name not in self.types:
            return False
        if self.shape is None or not shape:
            return True
        return len(shape) == len(self.shape) and all(map(_agree, self.shape, shape))

    def __str__(self) -> str:
        types = " or ".join(self.types)
        return types if self.shape is None else f"{types} {_written(self.shape)}"


class OnnxSession:
    """One graph on the CPU. `run` may be called from several threads at once."""

    def __init__(
        self, path: Path, inputs: tuple[TensorSpec, ...], output: TensorSpec, num_threads: int
    ) -> None:
        """Raises FrontendError, naming the file, if it is missing, broken or another graph than expected."""
        self.path = path
        self._session = _open(path, num_threads)
        _check(path, "inputs", self._session.get_inputs(), inputs)
        _check(path, "outputs", self._session.get_outputs(), (output,))
        self._input_names = [value.name for value in self._session.get_inputs()]

    def run(self, *inputs: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """The inputs by position -> the one output. Raises FrontendError if the graph fails."""
        try:
            (output,) = self._session.run(None, dict(zip(self._input_names, inputs, strict=True)))
        except ONNX_ERRORS as error:
            shapes = [value.shape for value in inputs]
            raise FrontendError(
                f"{self.path}: the graph failed on inputs of shapes {shapes}: {error}"
            ) from error
        assert isinstance(output, np.ndarray), f"{self.path}: output of type {type(output)}"
        return output


def _open(path: Path, num_threads: int) -> onnxruntime.InferenceSession:
    options = session_options(num_threads)
    if not path.is_file():
        raise FrontendError(f"{path}: missing; it belongs to the published model directory")
    try:
        return onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except (*ONNX_ERRORS, UnicodeDecodeError) as error:  # the latter: its own message is not UTF-8
        raise FrontendError(f"{path}: not a readable ONNX file ({error}); download it again") from error


def _check(
    path: Path, what: str, declared: Sequence[onnxruntime.NodeArg], expected: tuple[TensorSpec, ...]
) -> None:
    agree = len(declared) == len(expected) and all(
        spec.admits(value.type, value.shape) for spec, value in zip(expected, declared, strict=True)
    )
    if not agree:
        came = ", ".join(f"{value.name} {value.type} {_written(value.shape)}" for value in declared)
        raise FrontendError(f"{path}: {what} are {came}, expected {', '.join(map(str, expected))}")


def _written(shape: Sequence[int | str | None]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _agree(expected: int | None, declared: int | str | None) -> bool:
    return expected is None or not isinstance(declared, int) or declared == expected
