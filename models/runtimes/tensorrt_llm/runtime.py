"""The language model of CosyVoice 2 and 3 in TensorRT-LLM, by a server that is started here or found."""

import importlib.util
from functools import partial
from typing import ClassVar

from firstword.models.checkpoint.open import Checkpoint
from firstword.models.networks import Networks
from firstword.models.runtimes.interface import Machine, Part, Provides, Runtime, TorchNetworks
from firstword.models.runtimes.tensorrt_llm.options import TrtllmSettings


class TrtllmRuntime(Runtime):
    name = "trtllm"
    provides: ClassVar[Provides] = {"lm": ("trtllm",)}

    def __init__(self, options: TrtllmSettings) -> None:
        self._options = options

    def declines(self, part: Part, machine: Machine, checkpoint: Checkpoint) -> str | None:
        return "TensorRT-LLM is used only if it is asked for"

    def refusal(self, machine: Machine, checkpoint: Checkpoint) -> str | None:
        if checkpoint.config.family == "cosyvoice1":
            return (
                "FIRSTWORD_BACKEND is trtllm, which runs the language models of CosyVoice 2 and 3, and the "
                "checkpoint is a CosyVoice 1; set FIRSTWORD_BACKEND=torch"
            )
        if not self._options.url and importlib.util.find_spec("tensorrt_llm") is None:
            return (
                "FIRSTWORD_BACKEND is trtllm, but TensorRT-LLM is not installed; install it beside this "
                "program, or set FIRSTWORD_TRTLLM_URL to a running trtllm-serve"
            )
        return None

    def load(self, part: Part, networks: TorchNetworks) -> Networks:
        from firstword.models.runtimes.tensorrt_llm.engine import start_trtllm

        return Networks(start_tokens=partial(start_trtllm, networks, self._options))
