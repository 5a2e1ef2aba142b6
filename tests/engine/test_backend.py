"""Which engine runs the language model, and what is said where the one asked for cannot."""

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from firstword.app.engine.backend import Backend, BackendError, choose
from firstword.app.engine.runtimes import all_runtimes
from firstword.app.options import (
    BackendChoice,
    FlowBackendChoice,
    LMEngineOptions,
    NetworkOptions,
    PrecisionChoice,
    StatePrecisionChoice,
)
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.config import Family
from firstword.models.networks import Networks
from firstword.models.runtimes.interface import Device, Machine, Part, Provides, Runtime, TorchNetworks
from firstword.models.runtimes.tensorrt.runtime import TensorRTRuntime

RUNTIMES = all_runtimes(NetworkOptions(), LMEngineOptions())


def choose_backend(asked: BackendChoice, device: Device, family: Family) -> Backend:
    return choose("lm", asked, RUNTIMES, Machine(device), of_family(family))


def choose_flow_backend(
    asked: FlowBackendChoice,
    device: Device,
    precision: PrecisionChoice,
    family: Family,
    state_precision: StatePrecisionChoice = "auto",
) -> str:
    dtype = "bfloat16" if precision == "bfloat16" else "float32"
    machine = Machine(device, precision, dtype, state_precision)
    chosen = {choose(part, asked, RUNTIMES, machine, of_family(family)).name for part in ("flow", "vocoder")}
    [name] = chosen
    return name


def of_family(family: Family) -> Any:
    """What is looked at of a checkpoint."""
    return SimpleNamespace(config=SimpleNamespace(family=family))


@pytest.mark.parametrize(
    ("asked", "installed", "device", "family", "name", "reason"),
    [
        ("torch", "cuda", "cuda", "cosyvoice2", "torch", "as set"),
        ("vllm", "cuda", "cuda", "cosyvoice3", "vllm", "as set"),
        ("vllm", "cpu", "cpu", "cosyvoice2", "vllm", "as set"),
        ("auto", "cuda", "cuda", "cosyvoice2", "vllm", "there is a GPU"),
        ("auto", "cuda", "cuda", "cosyvoice1", "torch", "CosyVoice 2 and 3 only"),
        ("auto", None, "cuda", "cosyvoice2", "torch", "pip install 'firstword[vllm]'"),
        ("auto", "cpu", "cuda", "cosyvoice2", "torch", "pip install 'firstword[vllm]'"),
        ("auto", "cuda", "cpu", "cosyvoice2", "torch", "on the CPU"),
    ],
)
def test_backend_is_chosen_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    asked: BackendChoice,
    installed: Device | None,
    device: Device,
    family: Family,
    name: str,
    reason: str,
) -> None:
    monkeypatch.setattr("firstword.models.runtimes.vllm.runtime.vllm_build", lambda: installed)
    chosen = choose_backend(asked, device, family)
    assert chosen.name == name
    assert reason in chosen.reason


@pytest.mark.parametrize(
    ("installed", "device", "family", "said"),
    [
        (None, "cpu", "cosyvoice2", r"not installed; pip install 'firstword\[vllm\]'.*make setup-vllm"),
        ("cpu", "cuda", "cosyvoice2", "built for cpu; set FIRSTWORD_DEVICE=cpu"),
        ("cuda", "cpu", "cosyvoice2", "built for cuda; set FIRSTWORD_DEVICE=cuda"),
        ("cpu", "cpu", "cosyvoice1", "FIRSTWORD_BACKEND=torch"),
    ],
)
def test_vllm_that_cannot_run_here_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, installed: Device | None, device: Device, family: Family, said: str
) -> None:
    monkeypatch.setattr("firstword.models.runtimes.vllm.runtime.vllm_build", lambda: installed)
    with pytest.raises(BackendError, match=said) as raised:
        choose_backend("vllm", device, family)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("asked", "device", "precision", "found"),
    [
        ("auto", "cpu", "auto", "onnx"),
        ("auto", "cpu", "int8", "onnx"),
        ("auto", "cpu", "int4", "onnx"),
        ("auto", "cpu", "float32", "onnx"),
        ("auto", "cpu", "bfloat16", "torch"),
        ("auto", "cuda", "auto", "torch"),
        ("torch", "cpu", "auto", "torch"),
        ("onnx", "cpu", "int8", "onnx"),
        ("tensorrt", "cuda", "bfloat16", "tensorrt"),
    ],
)
def test_flow_backend_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
    asked: FlowBackendChoice,
    device: Device,
    precision: PrecisionChoice,
    found: str,
) -> None:
    monkeypatch.setattr("firstword.models.runtimes.tensorrt.runtime.installed_modules", lambda: ["tensorrt"])
    monkeypatch.setattr(TensorRTRuntime, "_plans", lambda *given: None)
    assert choose_flow_backend(asked, device, precision, "cosyvoice2") == found


@pytest.mark.parametrize(
    ("asked", "device", "precision", "family", "modules", "said"),
    [
        (
            "onnx",
            "cuda",
            "auto",
            "cosyvoice2",
            [],
            "runs on a CPU in float32, int8 and int4, .* on a GPU; set",
        ),
        ("onnx", "cpu", "bfloat16", "cosyvoice2", [], "the networks run in bfloat16; set"),
        ("torch", "cpu", "int8", "cosyvoice2", [], "which has no int8"),
        ("torch", "cpu", "int4", "cosyvoice2", [], "which has no int4"),
        ("tensorrt", "cpu", "auto", "cosyvoice2", ["tensorrt"], "needs an NVIDIA GPU"),
        ("tensorrt", "cuda", "auto", "cosyvoice1", ["tensorrt"], "the checkpoint is a CosyVoice 1"),
        ("tensorrt", "cuda", "auto", "cosyvoice3", [], "TensorRT is not installed; pip install"),
    ],
)
def test_flow_backend_that_cannot_run_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    asked: FlowBackendChoice,
    device: Device,
    precision: PrecisionChoice,
    family: Family,
    modules: list[str],
    said: str,
) -> None:
    monkeypatch.setattr("firstword.models.runtimes.tensorrt.runtime.installed_modules", lambda: modules)
    with pytest.raises(BackendError, match=f"^FIRSTWORD_FLOW_BACKEND is {asked}.*{said}"):
        choose_flow_backend(asked, device, precision, family)


@pytest.mark.parametrize(
    ("flow_backend", "device", "family", "said"),
    [
        ("auto", "cuda", "cosyvoice2", "the flow runs in torch"),
        ("torch", "cpu", "cosyvoice3", "the flow runs in torch"),
        ("auto", "cpu", "cosyvoice1", "the checkpoint is a CosyVoice 1"),
    ],
)
def test_a_state_s_precision_that_nothing_keeps_is_refused(
    flow_backend: FlowBackendChoice, device: Device, family: Family, said: str
) -> None:
    choose_flow_backend(flow_backend, device, "auto", family, "auto")
    with pytest.raises(BackendError, match=f"^FIRSTWORD_STATE_PRECISION is int8.*{said}"):
        choose_flow_backend(flow_backend, device, "auto", family, "int8")


class ToyRuntime(Runtime):
    """As docs/architecture.md says one is added."""

    name = "toy"
    provides: ClassVar[Provides] = {"flow": ("toy", "torch")}
    reason = "it is a toy"

    def __init__(self, refuses: str | None = None, declined: str | None = None) -> None:
        self.refuses, self.declined = refuses, declined

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        return self.declined

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        return self.refuses

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        raise AssertionError("not loaded")


def test_the_first_runtime_that_does_not_decline_takes_the_part() -> None:
    machine, checkpoint = Machine("cpu"), of_family("cosyvoice2")
    toy = ToyRuntime()
    chosen = choose("flow", "auto", (toy, *RUNTIMES), machine, checkpoint)
    assert (chosen.runtime, chosen.name, chosen.reason) == (toy, "toy", "it is a toy")
    assert choose("vocoder", "auto", (toy, *RUNTIMES), machine, checkpoint).name == "onnx"
    assert choose("flow", "torch", (toy, *RUNTIMES), machine, checkpoint).runtime is toy
    assert choose("flow", "onnx", (toy, *RUNTIMES), machine, checkpoint).name == "onnx"


def test_a_runtime_that_declines_is_taken_where_it_is_asked_for_by_its_name() -> None:
    machine, checkpoint = Machine("cuda"), of_family("cosyvoice2")
    toy = ToyRuntime(declined="not unasked")
    chosen = choose("flow", "auto", (toy, *RUNTIMES), machine, checkpoint)
    assert (chosen.name, chosen.reason) == ("torch", "not unasked")
    assert choose("flow", "torch", (toy, *RUNTIMES), machine, checkpoint).runtime is not toy
    assert choose("flow", "toy", (toy, *RUNTIMES), machine, checkpoint).reason == "as set"


def test_a_runtime_that_takes_a_part_and_cannot_run_ends_the_start() -> None:
    toy = ToyRuntime(refuses="FIRSTWORD_FLOW_BACKEND is toy, which is broken; set another")
    with pytest.raises(BackendError, match="which is broken; set another"):
        choose("flow", "auto", (toy, *RUNTIMES), Machine("cpu"), of_family("cosyvoice2"))
