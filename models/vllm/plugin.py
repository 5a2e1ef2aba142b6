"""vLLM finds this by the entry point `vllm.general_plugins`, in each of its processes."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess
from typing import Final

from models.vllm.export import ARCHITECTURE

ENGINE_VARIABLE: Final = "_FIRSTWORD_ENGINE"
"""Set in the environment of an engine that Firstword starts; other engines load this plugin too."""

_WATCH = "ends with its parent"


def register() -> None:
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "models.vllm.model:JointSpeechLM")
    if ENGINE_VARIABLE in os.environ:
        _end_with_the_parent()


def _end_with_the_parent() -> None:
    """A service that is killed could not stop its engine, which would keep the memory for ever."""
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == _WATCH for thread in threading.enumerate()):
        return
    threading.Thread(target=_watch, args=(parent,), name=_WATCH, daemon=True).start()


def _watch(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
