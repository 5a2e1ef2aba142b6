"""vLLM finds this by the entry point `vllm.general_plugins`, in its own processes too."""

from models.vllm.export import ARCHITECTURE


def register() -> None:
    from vllm import ModelRegistry

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "models.vllm.model:JointSpeechLM")
