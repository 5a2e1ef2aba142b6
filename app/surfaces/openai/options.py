"""The settings of OpenAI's API."""

from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field

from firstword.app.option_values import TextMap

VOICES: Final = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """The names that OpenAI's clients send. Their variables begin with FIRSTWORD_OPENAI_."""

    models: Annotated[
        Literal["any", "list"],
        Field(description="Model names of OpenAI's clients: any is accepted, or only those of /v1/models"),
    ] = "any"
    voices: Annotated[
        TextMap,
        Field(
            description="OpenAI's voices as name=speaker with commas between; the others are the default "
            "speaker"
        ),
    ] = field(default_factory=dict)

    def speakers_of_voices(self, default_speaker: str) -> dict[str, str]:
        """OpenAI's voice names, in small letters -> our speakers."""
        given = {voice.lower(): speaker for voice, speaker in self.voices.items()}
        return dict.fromkeys(VOICES, default_speaker) | given
