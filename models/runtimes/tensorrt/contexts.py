"""Engines that run on a GPU: a pool of execution contexts, each with a CUDA stream of its own.

`Engine` and `ContextPool` know nothing of TensorRT, so that a test gives them contexts of its own.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import LifoQueue
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from firstword.models.runtimes.tensorrt.library import Library, TensorRTError

ALIGNMENT: Final = 256  # bytes: TensorRT takes no other addresses
Shape = tuple[int, ...]


class ExecutionContext(Protocol):
    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Write `outputs`, whose shapes follow from those of `inputs`; all contiguous, on the device."""
        ...


class ContextPool:
    """A fixed number of contexts, each in use by one thread at a time. A thread waits while none is free."""

    def __init__(self, new_context: Callable[[], ExecutionContext], size: int):
        assert size >= 1, f"size {size}"
        self._free: LifoQueue[ExecutionContext] = LifoQueue()  # the one used last has its memory warm
        for _ in range(size):
            self._free.put(new_context())

    @property
    def num_free(self) -> int:
        return self._free.qsize()

    @contextmanager
    def acquired(self) -> Iterator[ExecutionContext]:
        """A context, which comes back whatever happens. One thread must not ask for a second one."""
        context = self._free.get()
        try:
            yield context
        finally:
            self._free.put(context)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an engine takes as one of its inputs."""

    least: Shape
    greatest: Shape
    dtype: torch.dtype


class Engine:
    """One part. bounds: by input."""

    def __init__(self, bounds: Mapping[str, Bounds], pool: ContextPool):
        self._bounds, self.pool = bounds, pool

    def fits(self, inputs: Mapping[str, Tensor]) -> bool:
        """Whether shapes are within the profile. Raises TensorRTError for inputs that it does not have.

        An engine reads memory without asking what is in it.
        """
        if inputs.keys() != self._bounds.keys():
            raise TensorRTError(f"the engine takes {sorted(self._bounds)}, not {sorted(inputs)}")
        for name, tensor in inputs.items():
            bounds = self._bounds[name]
            if tensor.dtype != bounds.dtype:
                raise TensorRTError(f"the engine takes {name} as {bounds.dtype}, not {tensor.dtype}")
            sizes = zip(bounds.least, tensor.shape, bounds.greatest, strict=True)
            if not all(low <= size <= high for low, size, high in sizes):
                return False
        return True

    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """Fill `outputs`. Threads may call it at once. Raises TensorRTError."""
        with self.pool.acquired() as context:
            context.run({name: tensor.contiguous() for name, tensor in inputs.items()}, outputs)


class CudaContext:
    """An execution context of TensorRT: its work stands in the order of the caller's CUDA stream.

    context: of tensorrt.ICudaEngine.create_execution_context.
    """

    def __init__(self, context: Any):
        self._context, self._stream = context, torch.cuda.Stream()

    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        caller = torch.cuda.current_stream()
        aligned = {name: _aligned(tensor) for name, tensor in inputs.items()}
        self._stream.wait_stream(caller)
        try:
            for name, tensor in aligned.items():
                if not self._context.set_input_shape(name, tuple(tensor.shape)):
                    raise TensorRTError(f"TensorRT refuses {name} of the shape {tuple(tensor.shape)}")
            for name, tensor in (*aligned.items(), *outputs.items()):
                if not self._context.set_tensor_address(name, tensor.data_ptr()):
                    raise TensorRTError(f"TensorRT refuses the memory of {name}")
            if not self._context.execute_async_v3(self._stream.cuda_stream):
                raise TensorRTError("TensorRT could not run the engine")
        finally:
            caller.wait_stream(self._stream)  # so the caller may free what was given


def _aligned(tensor: Tensor) -> Tensor:
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()


def load_engine(library: Library, path: Path, num_contexts: int) -> Engine:
    """Read a plan. Raises TensorRTError, also for a plan of another GPU or version, and OSError."""
    trt, log = library.module, library.new_log()
    runtime = trt.Runtime(log)
    engine = runtime.deserialize_cuda_engine(path.read_bytes())
    if engine is None:
        problems = "; ".join(log.errors) or "no reason given"
        raise TensorRTError(f"{path}: {library.name} {library.version} cannot load it: {problems}")
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    kinds = trt.DataType
    dtypes = {
        kinds.FLOAT: torch.float32,
        kinds.HALF: torch.float16,
        kinds.BF16: torch.bfloat16,
        kinds.INT64: torch.int64,
    }
    bounds = {}
    for name in names:
        if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
            least, _, greatest = engine.get_tensor_profile_shape(name, 0)
            bounds[name] = Bounds(tuple(least), tuple(greatest), dtypes[engine.get_tensor_dtype(name)])

    def new_context() -> CudaContext:
        context = engine.create_execution_context()
        if context is None:
            raise TensorRTError(f"{path}: no memory for an execution context: {'; '.join(log.errors)}")
        return CudaContext(context)

    return Engine(bounds, ContextPool(new_context, num_contexts))
