"""How plans are loaded and run, against a library and CUDA streams that write down what they are asked."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from firstword.models.runtimes.tensorrt.contexts import load_engine
from firstword.models.runtimes.tensorrt.library import Library, TensorRTError

NAMES = {"mel": ("FLOAT", "INPUT"), "spectrum": ("HALF", "OUTPUT")}


class FakeTensorRT:
    """The names of TensorRT that `load_engine` and its contexts use. refuses: the call that fails."""

    __version__ = "10.9.0"
    DataType = SimpleNamespace(FLOAT="FLOAT", HALF="HALF", BF16="BF16", INT64="INT64")
    TensorIOMode = SimpleNamespace(INPUT="INPUT", OUTPUT="OUTPUT")

    class ILogger:
        INTERNAL_ERROR, ERROR, WARNING, INFO = range(4)

    def __init__(self, refuses: str = ""):
        self.refuses = refuses
        self.calls: list[tuple[Any, ...]] = []
        self.addresses: dict[str, int] = {}

    def Runtime(self, log: Any) -> Any:
        self.log = log
        return self

    def deserialize_cuda_engine(self, plan: bytes) -> Any:
        if self.refuses == "load":
            self.log.log(self.ILogger.ERROR, "the plan is of another version")
            return None
        return self

    num_io_tensors = len(NAMES)

    def get_tensor_name(self, index: int) -> str:
        return list(NAMES)[index]

    def get_tensor_mode(self, name: str) -> str:
        return NAMES[name][1]

    def get_tensor_dtype(self, name: str) -> str:
        return NAMES[name][0]

    def get_tensor_profile_shape(self, name: str, profile: int) -> list[list[int]]:
        return [[1, 80, 2], [1, 80, 50], [8, 80, 68]]

    def create_execution_context(self) -> Any:
        return None if self.refuses == "context" else self

    def _call(self, kind: str, *given: Any) -> bool:
        self.calls.append((kind, *given))
        return self.refuses != kind

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        return self._call("shape", name, shape)

    def set_tensor_address(self, name: str, address: int) -> bool:
        self.addresses[name] = address
        return self._call("address", name)

    def execute_async_v3(self, stream: str) -> bool:
        return self._call("execute", stream)


def loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake: FakeTensorRT) -> Any:
    class Stream:
        cuda_stream = "own"

        def wait_stream(self, other: Any) -> None:
            fake.calls.append(("wait", "own" if self is not caller else "caller"))

    caller = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: caller)
    path = tmp_path / "generator.plan"
    path.write_bytes(b"plan")
    return load_engine(Library(fake, "tensorrt"), path, num_contexts=2)


def test_a_run_stands_in_the_order_of_the_callers_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeTensorRT()
    engine = loaded(monkeypatch, tmp_path, fake)
    assert engine.pool.num_free == 2
    unaligned = torch.zeros(2 * 80 * 20 + 1)[1:].view(2, 80, 20)
    assert engine.fits({"mel": unaligned})
    assert not engine.fits({"mel": torch.zeros(2, 80, 69)})
    spectrum = torch.zeros(2, 18, 2401)
    engine.run({"mel": unaligned}, {"spectrum": spectrum})
    assert fake.addresses["spectrum"] == spectrum.data_ptr()
    assert fake.addresses["mel"] != unaligned.data_ptr(), "TensorRT takes no such address"
    assert fake.calls == [
        ("wait", "own"),
        ("shape", "mel", (2, 80, 20)),
        ("address", "mel"),
        ("address", "spectrum"),
        ("execute", "own"),
        ("wait", "caller"),
    ]


@pytest.mark.parametrize(
    ("refuses", "said"),
    [
        ("shape", r"refuses mel of the shape \(1, 80, 20\)"),
        ("address", "refuses the memory of mel"),
        ("execute", "could not run"),
    ],
)
def test_a_refused_run_is_said_and_gives_its_context_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refuses: str, said: str
) -> None:
    fake = FakeTensorRT(refuses)
    engine = loaded(monkeypatch, tmp_path, fake)
    with pytest.raises(TensorRTError, match=said):
        engine.run({"mel": torch.zeros(1, 80, 20)}, {})
    assert fake.calls[-1] == ("wait", "caller"), "what was given must not be freed before"
    assert engine.pool.num_free == 2


@pytest.mark.parametrize(
    ("refuses", "said"),
    [("load", "the plan is of another version"), ("context", "no memory for an execution")],
)
def test_a_plan_that_cannot_be_loaded_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, refuses: str, said: str
) -> None:
    with pytest.raises(TensorRTError, match=said):
        loaded(monkeypatch, tmp_path, FakeTensorRT(refuses))
