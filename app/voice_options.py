"""What the Python interface takes: texts, recordings, and who speaks how."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from firstword.app.audio.dsp import Samples
from firstword.app.engine.interface import FlowContext, VoiceMode
from firstword.app.speakers.interface import PreparedSpeaker

Recording = str | Path | bytes | tuple[Samples, int]
"""A file's path, its content, or mono float32 samples within ±1 with their sample rate in Hz."""

Text = str | Iterable[str]
"""A whole text, or the pieces of one in the order in which they come."""


class VoiceOptions(TypedDict, total=False):
    """Who speaks a text, and how; `Synthesizer.speak` says what each means."""

    speaker: str | None
    reference: Recording | PreparedSpeaker | None
    transcript: str
    mode: VoiceMode | None
    instruct: str | None
    language: str | None
    normalize: bool
    options: Mapping[str, object] | None
    seed: int | None
    context: FlowContext
