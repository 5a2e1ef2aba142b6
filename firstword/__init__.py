"""A low-latency text-to-speech server for CosyVoice-architecture models, and its Python interface."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if (Path(__file__).parent / "app").is_file():  # as git leaves a link to ../app where it may make none
    raise ImportError(
        "this clone has no symbolic links: git clone -c core.symlinks=true (on Windows in Developer Mode)"
    )

if TYPE_CHECKING:
    from firstword.app.async_voice import AsyncVoice
    from firstword.app.synthesizer import AsyncSynthesizer, Synthesizer
    from firstword.app.voice import Voice

__all__ = ["AsyncSynthesizer", "AsyncVoice", "Synthesizer", "Voice"]


def __getattr__(name: str) -> Any:
    """Import the interface when it is first asked for: torch behind it would slow down the command line."""
    if name in __all__:
        from firstword.app import synthesizer, voice

        return getattr(voice if name.endswith("Voice") else synthesizer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
