"""The language model of CosyVoice 2 and 3 in vLLM, in a process of its own."""

from functools import partial
from typing import ClassVar

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.networks import Networks
from firstword.models.runtimes.interface import Machine, Part, Provides, Runtime, TorchNetworks
from firstword.models.runtimes.vllm.options import VllmSettings, vllm_build


class VllmRuntime(Runtime):
    name = "vllm"
    provides: ClassVar[Provides] = {"lm": ("vllm",)}
    reason = "there is a GPU, and vLLM is installed"
    metrics = "vllm:"

    def __init__(self, options: VllmSettings) -> None:
        self._options = options

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        if machine.device == "cpu":
            return "the networks run on the CPU, where vLLM is used only if it is asked for"
        if vllm_build() != "cuda":
            return "vLLM for a GPU is not installed: pip install 'firstword[vllm]'"
        if checkpoint.config.family == "cosyvoice1":
            return "vLLM runs the language models of CosyVoice 2 and 3 only"
        return None

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        build, device = vllm_build(), machine.device
        if build is None:
            return (
                "FIRSTWORD_BACKEND is vllm, but vLLM is not installed; pip install 'firstword[vllm]', or "
                "`make setup-vllm` for the CPU"
            )
        if build != device:
            return (
                f"FIRSTWORD_BACKEND is vllm and FIRSTWORD_DEVICE finds {device}, but the vLLM that is "
                f"installed is built for {build}; set FIRSTWORD_DEVICE={build}, or install the other build"
            )
        if checkpoint.config.family == "cosyvoice1":
            return (
                "FIRSTWORD_BACKEND is vllm, which runs the language models of CosyVoice 2 and 3, and the "
                "checkpoint is a CosyVoice 1; set FIRSTWORD_BACKEND=torch"
            )
        return None

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        from firstword.models.runtimes.vllm.engine import start_vllm

        return Networks(start_tokens=partial(start_vllm, networks, self._options))
