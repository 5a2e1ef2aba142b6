"""The TensorRT that is installed: TensorRT 10 or 11, or TensorRT-RTX, each with its own builder.

Networks are always strongly typed: the numbers are of the formats that the ONNX graph has. TensorRT 11 and
RTX know nothing else, and TensorRT 10 is asked for it.
"""

import importlib
import importlib.util
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

logger = logging.getLogger(__name__)

Name = Literal["tensorrt", "tensorrt-rtx"]
Range = tuple[int, int, int]  # the least, the usual and the greatest size
Ranges = Mapping[str, Range]  # of a graph's free sizes, by their names
_MODULES: Final[tuple[tuple[str, Name], ...]] = (
    ("tensorrt", "tensorrt"),
    ("tensorrt_rtx", "tensorrt-rtx"),
    ("tensorrt_rtx_bindings", "tensorrt-rtx"),  # what the wheel itself holds
)
OLDEST: Final[Mapping[Name, int]] = {"tensorrt": 10, "tensorrt-rtx": 1}
INSTALL: Final = (
    "pip install tensorrt (TensorRT 10 or 11), or pip install 'firstword[tensorrt]' (TensorRT-RTX, which has "
    "no Hopper GPUs)"
)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One engine. write: its ONNX graph, which is made only when it is built."""

    name: str
    ranges: Ranges
    write: Callable[[], bytes]


class TensorRTError(Exception):
    """TensorRT is missing, or refused a graph, a plan or a run; the message says which and why."""


def installed_modules() -> list[str]:
    """Names of the modules that are there, none of them imported."""
    return [module for module, _ in _MODULES if importlib.util.find_spec(module) is not None]


def find_library() -> "Library":
    """TensorRT itself where it can be imported, else RTX. Raises TensorRTError."""
    problems = []
    for module, name in _MODULES:
        if importlib.util.find_spec(module) is None:
            continue
        try:
            found = Library(importlib.import_module(module), name)
        except (ImportError, OSError, RuntimeError) as error:  # a shared library of it is missing
            problems.append(f"{module}: {error}")
            continue
        if int(found.version.split(".")[0]) >= OLDEST[name]:
            return found
        problems.append(f"{module}: version {found.version}, needs {OLDEST[name]} or newer")
    if problems:
        raise TensorRTError(f"TensorRT cannot be used: {'; '.join(problems)}")
    raise TensorRTError(f"TensorRT is not installed: {INSTALL}")


@dataclass(frozen=True, slots=True, eq=False)
class Library:
    """One of them. module: the imported one, which has no types."""

    module: Any
    name: Name

    @property
    def version(self) -> str:
        version: str = self.module.__version__
        return version

    @property
    def builds_without_gpu(self) -> bool:
        return self.name == "tensorrt-rtx"

    @property
    def has_timing_cache(self) -> bool:
        """RTX chooses its kernels without timing them."""
        return self.name == "tensorrt"

    def new_log(self) -> "Any":
        """What the library writes, as an `ILogger` whose `errors` are kept."""
        base = self.module.ILogger

        class Log(base):  # type: ignore[misc, valid-type]
            def __init__(self) -> None:
                super().__init__()
                self.errors: list[str] = []

            def log(self, severity: Any, message: str) -> None:
                if severity in (base.INTERNAL_ERROR, base.ERROR):
                    self.errors.append(message)
                elif severity == base.WARNING:
                    logger.info("%s", message)

        return Log()

    def build(self, graph: bytes, ranges: Ranges, timing_cache: bytes = b"") -> tuple[bytes, bytes]:
        """graph: an ONNX file. ranges: of its free sizes, by their names; one of another name is `length`.

        Returns the plan, and the timing cache for the next build, empty where there is none. Takes minutes
        for a network of the published size. Raises TensorRTError.
        """
        trt, log = self.module, self.new_log()
        builder = trt.Builder(log)
        typed = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
        network = builder.create_network(0 if typed is None else 1 << int(typed))
        parser = trt.OnnxParser(network, log)
        if not parser.parse(graph):
            problems = [str(parser.get_error(index)) for index in range(parser.num_errors)]
            raise TensorRTError(f"{self.name} {self.version} cannot read the graph: {'; '.join(problems)}")
        config, profile = builder.create_builder_config(), builder.create_optimization_profile()
        config.clear_flag(trt.BuilderFlag.TF32)  # float32 means float32; who wants speed asks for 16 bits
        for index in range(network.num_inputs):
            given = network.get_input(index)
            profile.set_shape(given.name, *_shapes(given, ranges))
        config.add_optimization_profile(profile)
        if self.has_timing_cache:
            cache = config.create_timing_cache(timing_cache)
            if not config.set_timing_cache(cache, ignore_mismatch=False):  # of another GPU or version
                config.set_timing_cache(config.create_timing_cache(b""), ignore_mismatch=False)
        plan = builder.build_serialized_network(network, config)
        if plan is None:
            raise TensorRTError(f"{self.name} {self.version} cannot build an engine: {'; '.join(log.errors)}")
        return bytes(plan), bytes(config.get_timing_cache().serialize()) if self.has_timing_cache else b""


def _shapes(given: Any, ranges: Ranges) -> list[tuple[int, ...]]:
    """The least, the usual and the greatest shape of an input."""
    sizes = []
    for axis, size in enumerate(given.shape):
        name = given.get_dimension_name(axis)
        sizes.append((ranges.get(name) or ranges["length"]) if size == -1 else (size, size, size))
    return [tuple(shape) for shape in zip(*sizes, strict=True)]
