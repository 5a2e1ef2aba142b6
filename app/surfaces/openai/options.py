"""The settings of OpenAI's API."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

from pydantic import Field

from firstword.app.option_values import TextMap
from firstword.app.speakers.interface import KnownSpeaker

PEOPLE: Final[Mapping[str, tuple[Literal["female", "male"], str]]] = {
    "alloy": ("female", "en-US"),
    "nova": ("female", "en-US"),
    "shimmer": ("female", "en-US"),
    "coral": ("female", "en-US"),
    "sage": ("female", "en-US"),
    "marin": ("female", "en-US"),
    "echo": ("male", "en-US"),
    "ash": ("male", "en-US"),
    "onyx": ("male", "en-US"),
    "verse": ("male", "en-US"),
    "cedar": ("male", "en-US"),
    "ballad": ("male", "en-GB"),
    "fable": ("male", "en-GB"),
}
"""Sex and accent of OpenAI's voices, as most hear them, in the order in which they are given our speakers."""
VOICES: Final = tuple(sorted(PEOPLE))
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

    @property
    def default_voices(self) -> frozenset[str]:
        """The voices that are the default speaker of a text's language, in lower case."""
        return frozenset({"alloy"} - {voice.lower() for voice in self.voices})

    def speakers_of_voices(self, default_speaker: str, speakers: Iterable[KnownSpeaker]) -> dict[str, str]:
        """Return our speakers by OpenAI's voices, whose names are in lower case.

        alloy is the default speaker; the others take turns among the grown-up speakers of their sex that are
        described, English ones if there are some, by name, those of their accent first; where there are
        none, they are the default one.
        """
        known = sorted(speakers, key=lambda speaker: (speaker.name != default_speaker, speaker.name))
        people = [(one.name, one.description) for one in known if one.description is not None]
        people = [one for one in people if one[1].language.startswith("en")] or people
        given = Counter[str]()
        spread = {}
        for voice, (sex, tag) in PEOPLE.items():
            ours = [
                (given[name], who.language != tag, place, name)
                for place, (name, who) in enumerate(people)
                if who.sex == sex and who.age != "child"
            ]
            spread[voice] = min(ours)[-1] if ours and voice != "alloy" else default_speaker
            given[spread[voice]] += 1
        own = {voice.lower(): speaker for voice, speaker in self.voices.items()}
        return {voice: spread[voice] for voice in VOICES} | own
