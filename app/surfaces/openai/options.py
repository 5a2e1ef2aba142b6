"""The settings of OpenAI's API."""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field

from firstword.app.option_values import TextMap
from firstword.app.speakers.interface import SpeakerInfo

SEXES: Final[Mapping[str, Literal["female", "male"]]] = {
    "alloy": "female",
    "echo": "male",
    "nova": "female",
    "onyx": "male",
    "shimmer": "female",
    "ash": "male",
    "coral": "female",
    "verse": "male",
    "sage": "female",
    "cedar": "male",
    "marin": "female",
    "ballad": "male",
    "fable": "male",
}
"""Of OpenAI's voices, as most hear them, in the order in which they are given speakers of ours."""
VOICES: Final = tuple(sorted(SEXES))
MAX_DESCRIBED: Final = 1000  # speakers that are looked at; those of the checkpoint come first


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
            description="OpenAI's voices as name=speaker with commas between; the others are spread over the "
            "checkpoint's speakers, where it says who they are"
        ),
    ] = field(default_factory=dict)

    def speakers_of_voices(self, default_speaker: str, speakers: Iterable[SpeakerInfo]) -> dict[str, str]:
        """Return our speakers by OpenAI's voices, whose names are in lower case.

        alloy is the default speaker; the others take turns among the grown-up speakers of their sex that are
        described, the default one first; where there are none, they are the default one.
        """
        names: dict[str, list[str]] = {"female": [], "male": []}
        for speaker in sorted(speakers, key=lambda speaker: speaker.name != default_speaker):
            if speaker.description is not None and speaker.description.age != "child":
                names[speaker.description.sex].append(speaker.name)
        turns = {sex: itertools.cycle(given or [default_speaker]) for sex, given in names.items()}
        spread = {voice: next(turns[sex]) for voice, sex in SEXES.items()} | {"alloy": default_speaker}
        own = {voice.lower(): speaker for voice, speaker in self.voices.items()}
        return {voice: spread[voice] for voice in VOICES} | own
