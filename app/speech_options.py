"""How a text is read, drawn and heard: the fields that every surface takes, with their bounds."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from firstword.app.bounded_json import TooManyValues, loads
from firstword.app.options import Sampling
from firstword.app.text.marks import MAX_LEXICON_ENTRIES, Reading

MAX_VOLUME: Final = 4.0
MAX_TOP_K: Final = 100
MAX_RAS_WINDOW: Final = 100
MAX_TOKEN_RATIO: Final = 40.0
MAX_MIN_TOKEN_RATIO: Final = 20.0  # what an utterance may have where nothing else is asked for


def _refuse_boolean(value: object) -> object:
    """Pydantic takes true for 1."""
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "Input should be a number")
    return value


NotBoolean = BeforeValidator(_refuse_boolean)
Number = Annotated[float, NotBoolean]
WholeNumber = Annotated[int, NotBoolean]


def check_lexicon(given: object) -> object:
    """Refuse a lexicon for its first fault: pydantic would list all of them, which takes seconds."""
    if isinstance(given, Mapping):
        if len(given) > MAX_LEXICON_ENTRIES:
            raise PydanticCustomError(
                "too_long", "Dictionary should have at most {most} entries", {"most": MAX_LEXICON_ENTRIES}
            )
        if not all(isinstance(spoken, str) for spoken in given.values()):
            raise PydanticCustomError("string_type", "What is spoken for a word should be a string")
    return given


Lexicon = Annotated[dict[str, str], BeforeValidator(check_lexicon)]


class TextOptions(BaseModel):
    """How a text is read, and how its speech tokens are drawn."""

    normalize: bool = Field(True, description="Write out numbers and the like before speaking.")
    marks: bool = Field(True, description="Read marks such as [pause:0.8s]; false: they are text.")
    ssml: bool | None = Field(None, description="The text is SSML; if left out, where it begins with <speak.")
    lexicon: Lexicon = Field(
        default_factory=dict,
        description="What is spoken for a word: an alias, or ipa:, arpabet: or pinyin: and its sounds.",
    )
    temperature: Number | None = Field(
        None, ge=0.05, le=2, description="Of the draws; the checkpoint's is 1."
    )
    top_p: Number | None = Field(None, gt=0, le=1, description="Probability that the candidates share.")
    top_k: WholeNumber | None = Field(None, ge=1, le=MAX_TOP_K, description="How many candidates at most.")
    ras_window: WholeNumber | None = Field(
        None, ge=1, le=MAX_RAS_WINDOW, description="Speech tokens in which repetition is looked for."
    )
    ras_threshold: Number | None = Field(
        None, gt=0, le=1, description="Share of the window from which on a token repeats, and is drawn again."
    )
    min_token_ratio: Number | None = Field(
        None, ge=0, le=MAX_MIN_TOKEN_RATIO, description="Speech tokens per text token before an end."
    )
    max_token_ratio: Number | None = Field(
        None, ge=1, le=MAX_TOKEN_RATIO, description="Speech tokens per text token at most."
    )

    @field_validator("lexicon", mode="before")
    @classmethod
    def _read_json(cls, given: object) -> object:
        """A query parameter and a form's field are text."""
        if not isinstance(given, str):
            return given
        try:
            entries = loads(given)
        except TooManyValues as error:
            raise PydanticCustomError("too_many_values", "{refusal}", {"refusal": error.msg}) from None
        except (ValueError, RecursionError):
            raise PydanticCustomError("json_invalid_lexicon", "Input should be a JSON object") from None
        return check_lexicon(entries)

    @field_validator("max_token_ratio")
    @classmethod
    def _check_ratios(cls, most: float | None, info: ValidationInfo) -> float | None:
        least = info.data.get("min_token_ratio")
        if least is not None and most is not None and least > most:
            raise PydanticCustomError("token_ratios", "Input should be at least min_token_ratio")
        return most

    @property
    def reading(self) -> Reading:
        return Reading(self.normalize, self.marks, self.ssml, self.lexicon)

    @property
    def sampling(self) -> Sampling | None:
        """None: all as the checkpoint has it."""
        given = Sampling(
            self.temperature,
            self.top_p,
            self.top_k,
            self.ras_window,
            self.ras_threshold,
            self.min_token_ratio,
            self.max_token_ratio,
        )
        return None if given == Sampling() else given


class SpeechOptions(TextOptions):
    """How a text is read and drawn, and how it is heard."""

    volume: Number = Field(
        1.0, ge=0, le=MAX_VOLUME, description="A factor of the amplitude, clipped at full scale."
    )


def checked_options(given: Mapping[str, object]) -> SpeechOptions:
    """Raise ValueError that names what is unknown or out of bounds."""
    unknown = sorted(given.keys() - SpeechOptions.model_fields)
    if unknown:
        known = ", ".join(SpeechOptions.model_fields)
        raise ValueError(f"unknown option {unknown[0]!r}; choose one of {known}")
    try:
        return SpeechOptions.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = ".".join(map(str, fault["loc"]))
        raise ValueError(f"option {name}: {fault['msg']}; got {fault['input']!r:.80}") from None
