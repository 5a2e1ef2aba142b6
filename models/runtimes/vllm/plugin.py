"""The plugin that vLLM loads in each of its processes, by the entry point `vllm.general_plugins`."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.process import BaseProcess
from typing import Final

ARCHITECTURE: Final = "FirstwordJointSpeechLM"
ENGINE_VARIABLE: Final = "_FIRSTWORD_ENGINE"
"""Set by the process that starts an engine to its own id: engines of other programs load this plugin too."""

_WATCH = "ends with its parent"


def register() -> None:
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "firstword.models.runtimes.vllm.model:JointSpeechLM")
    if os.environ.get(ENGINE_VARIABLE, str(os.getpid())) != str(os.getpid()):
        _end_with_the_parent()


def _end_with_the_parent() -> None:
    """End this process when its parent ends, and never before.

    Ctrl+C reaches all processes, and the service lets its streams finish first. A service that is killed
    cannot stop its engine, which would keep its memory for ever.
    """
    parent = multiprocessing.parent_process()
    if parent is None or any(thread.name == _WATCH for thread in threading.enumerate()):
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), name=_WATCH, daemon=True).start()


def _watch(parent: BaseProcess) -> None:
    parent.join()
    os.kill(os.getpid(), signal.SIGKILL)
