"""Request fields shared by the routes, as the engine takes them, and OpenAPI's descriptions of responses."""

import asyncio
import base64
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from firstword.app.audio.formats import FORMATS, MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, AudioFormat
from firstword.app.bounded_json import MAX_FIELDS
from firstword.app.clients import Client
from firstword.app.core.request import Delivery, FlowContext, SynthesisRequest, VoiceChoice, VoiceMode
from firstword.app.core.transcript import TimedWord
from firstword.app.errors import InvalidRequest, Wire
from firstword.app.http.errors import ErrorType, invalid_request
from firstword.app.http.limits import check_recording
from firstword.app.speakers.interface import SentRecording, checked_transcript
from firstword.app.speech_options import NotBoolean, SpeechOptions

MAX_NAME_CHARS = 256  # far beyond any real name
MAX_INSTRUCT_CHARS = 1000  # it is part of what the language model reads
MAX_SEED = 2**53 - 1  # the largest that every JSON parser represents exactly

# Pydantic lets lone surrogates through in a string without a limit; they cannot be encoded again.
Name = Annotated[str, Field(max_length=MAX_NAME_CHARS)]
Instruct = Annotated[str, Field(max_length=MAX_INSTRUCT_CHARS)]
Seed = Annotated[int, NotBoolean, Field(ge=0, le=MAX_SEED)]
Context = Annotated[FlowContext, Field(description="full: each segment is solved at once, not in chunks.")]
SampleRate = Annotated[int, NotBoolean]  # Hz; which ones there are depends on the format
Fields = TypeVar("Fields", bound=BaseModel)


def validated(kind: type[Fields], given: Mapping[str, Any]) -> Fields:
    """Return fields that came in another form than FastAPI's. Raises InvalidRequest."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise invalid_request(error.errors(include_url=False)) from None


class RequestFields(BaseModel):
    """Fields of a request, in which null stands for the default of an optional one."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_null(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        if len(given) > MAX_FIELDS:
            raise PydanticCustomError("too_many_fields", f"Input should have at most {MAX_FIELDS} fields")
        fields = cls.model_fields
        optional = {name for name in fields if not fields[name].is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}


# Base64 in JSON; bytes in a form.
SentAudio = Annotated[str | bytes, WithJsonSchema({"type": "string", "contentEncoding": "base64"})]


class SpokenWord(BaseModel):
    """When a word of the text, or with `char` a character of it, sounds; times are the listener's."""

    text: str
    start_ms: float
    end_ms: float
    char_start: int  # in characters (Unicode code points) of the text as it was sent
    char_end: int


class TimestampFields(RequestFields):
    timestamps: Literal["word", "char"] | None = Field(
        None, description="Tell beside the audio when each word, or each character of it, sounds."
    )

    @property
    def wants_words(self) -> bool:
        return self.timestamps is not None

    def spoken(self, words: Iterable[TimedWord], samples_per_s: float) -> list[SpokenWord] | None:
        """samples_per_s: of the words' samples, as the listener hears them. None: nobody asked."""
        if self.timestamps is None:
            return None
        per_ms = samples_per_s / 1000
        entries: list[SpokenWord] = []
        for word in words:
            num_entries = len(word.text) if self.timestamps == "char" else 1
            length = len(word.text) // num_entries
            times = [
                word.start + (word.end - word.start) * number / num_entries
                for number in range(num_entries + 1)
            ]
            for number, (start, end) in enumerate(pairwise(times)):
                first = number * length
                entries.append(
                    SpokenWord(
                        text=word.text[first : first + length],
                        start_ms=round(start / per_ms, 3),
                        end_ms=round(end / per_ms, 3),
                        char_start=word.char_start + first,
                        char_end=word.char_start + first + length,
                    )
                )
        return entries


class ReferenceFields(RequestFields):
    """A recording whose voice a request borrows; on every surface. `mode` is another name of `voice_mode`."""

    reference_audio: SentAudio | None = Field(
        None, description="A recording of 1 to 30 s whose voice is taken instead of a speaker's."
    )
    reference_text: str = Field("", description="What is said in `reference_audio`, word for word.")
    voice_mode: VoiceMode | None = Field(
        None, description="How the voice is taken; by default what fits the speaker and `instruct`."
    )

    cache: bool | None = Field(
        None, description="Whether finished audio may be kept and given again; by default with a seed."
    )

    @model_validator(mode="before")
    @classmethod
    def _rename_mode(cls, given: Any) -> Any:
        """A WebSocket's `start` has a `mode` of its own."""
        if not isinstance(given, Mapping) or "mode" not in given or given.get("voice_mode") is not None:
            return given
        mode = given["mode"]
        if "mode" in cls.model_fields and mode not in get_args(VoiceMode):
            return given
        return {**{name: given[name] for name in given if name != "mode"}, "voice_mode": mode}

    async def reference(self, max_bytes: int) -> SentRecording | None:
        """Return the recording that came. Raises InvalidRequest, and UploadTooLarge over `max_bytes`."""
        if self.reference_audio is None:
            if self.reference_text:
                raise InvalidRequest(
                    "reference_text came without reference_audio; send the recording in which it is said",
                    "reference_text",
                )
            return None
        return await sent_recording(self.reference_audio, self.reference_text, max_bytes, "reference_audio")


async def sent_recording(audio: str | bytes, transcript: str, max_bytes: int, param: str) -> SentRecording:
    """audio: base64 or the file itself. Raises InvalidRequest, and UploadTooLarge over `max_bytes`."""
    transcript = checked_transcript(transcript, "reference_text")
    try:
        content = audio if isinstance(audio, bytes) else await asyncio.to_thread(_decode_base64, audio)
    except ValueError:
        raise InvalidRequest(
            f"{param} is not base64; send a recording's bytes as base64, or as a file of a multipart form",
            param,
        ) from None
    check_recording(len(content), max_bytes)
    return SentRecording(content, transcript)


def _decode_base64(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


class AudioFields(RequestFields):
    """Who speaks, and how the audio is; also where there is no text."""

    speaker: Name | None = Field(
        None, description="A name of GET /speakers; the default speaker if left out."
    )
    sample_rate: SampleRate | None = Field(
        None, description="In Hz. 24000 if left out; 8000 for ulaw and alaw."
    )
    speed: Annotated[float, NotBoolean] = Field(1.0, ge=MIN_CLEAR_SPEED, le=MAX_CLEAR_SPEED)
    seed: Seed | None = Field(None, description="The same seed speaks the same way again.")


class FileFields(AudioFields):
    """Who speaks, and the file, or the body, that the audio comes in."""

    format: AudioFormat = "wav"
    stream: bool = Field(True, description="false: one complete body with its length.")
    context: Context = "chunks"


class VoiceFields(ReferenceFields, TimestampFields, SpeechOptions, AudioFields):
    """The speaker and how it speaks; on every protocol of our own. `voice` is another name of `speaker`."""

    language: Name | None = Field(None, description="Detected from the text if left out.")
    instruct: Instruct | None = Field(None, description="How to say it, on checkpoints that support it.")

    def voice_choice(self, reference: SentRecording | None) -> VoiceChoice:
        """reference: the recording that came."""
        return VoiceChoice(self.speaker, reference, self.voice_mode, self.instruct, self.language)

    def delivery(
        self, is_played: bool = True, is_background: bool = False, context: FlowContext = "chunks"
    ) -> Delivery:
        return Delivery(
            self.volume, context, self.wants_words, is_played, is_background, self.cache, self.speed
        )

    @model_validator(mode="before")
    @classmethod
    def _rename_voice(cls, given: Any) -> Any:
        """A speaker goes before a voice where both are given."""
        if not isinstance(given, Mapping) or "voice" not in given:
            return given
        fields = dict(given)
        voice = fields.pop("voice")
        if fields.get("speaker") is None:
            fields["speaker"] = voice
        return fields


class SpeechBody(VoiceFields, FileFields):
    """Fields of `POST /tts`; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, description="The text to speak.")

    def request(
        self,
        request_id: str,
        wire: Wire,
        client: Client,
        reference: SentRecording | None = None,
        delivery: Delivery | None = None,
    ) -> SynthesisRequest:
        """reference: the recording that came. delivery: None: played while it comes."""
        return SynthesisRequest(
            request_id,
            wire,
            text=self.text,
            voice=self.voice_choice(reference),
            reading=self.reading,
            sampling=self.sampling,
            seed=self.seed,
            delivery=delivery or self.delivery(context=self.context),
            client=client,
        )


Answers = dict[int | str, dict[str, Any]]


class ErrorFields(BaseModel):
    message: str
    type: ErrorType
    param: str | None
    code: str


class ErrorAnswer(BaseModel):
    error: ErrorFields


ERROR_ANSWERS: Answers = {"default": {"model": ErrorAnswer, "description": "The error."}}


def binary_answers(*media_types: str, status: int = 200, description: str) -> Answers:
    content = {media_type: {"schema": {"type": "string", "format": "binary"}} for media_type in media_types}
    return {status: {"content": content, "description": description}}


AUDIO_ANSWERS = binary_answers(
    *(info.media_type for info in FORMATS.values()), description="Audio, in chunks as it is made."
)
