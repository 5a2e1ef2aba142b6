"""The request of one stream: built once, checked against a checkpoint, and not replaced on its way."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from firstword.app.budget import Work, WorkLimits
from firstword.app.clients import Client
from firstword.app.errors import InvalidRequest, Wire
from firstword.app.options import Sampling
from firstword.app.speakers.interface import PreparedSpeaker, SentRecording
from firstword.app.text.language import CODES, NAMES
from firstword.app.text.marks import Reading

Mode = Literal["whole", "continuous", "segments", "tokens"]
VoiceMode = Literal["zero_shot", "cross_lingual", "instruct", "sft"]
FlowContext = Literal["chunks", "full"]  # what the flow sees: as a stream does, or a whole utterance

REFERENCE: Final = "(reference)"  # the speaker's name where a request brings its recording
_ACCENTS_OF_TAGS: Final = {"en-gb": "british"}
_TAG: Final = re.compile(r"([a-z]{2,3})(?:-[a-z0-9]{1,8})*", re.ASCII)  # BCP 47, its usual part


@dataclass(frozen=True, slots=True)
class VoiceChoice:
    """The speaker of a request, its language and manner."""

    speaker: str | None = None  # None: the default one, of the text's language
    reference: SentRecording | PreparedSpeaker | None = None  # its voice is taken instead of a speaker's
    mode: VoiceMode | None = None  # None: by the instruction and what the speaker has
    instruct: str | None = None
    language: str | None = None  # None: detected for each segment


@dataclass(frozen=True, slots=True)
class Delivery:
    """The making and handing out of a request's audio."""

    volume: float = 1.0  # a factor of the amplitude
    context: FlowContext = "chunks"
    wants_words: bool = False  # with the times when each sounds
    is_played: bool = True  # while it comes; False: a file, which may wait and gives way to those that are
    is_background: bool = False  # an item of a batch: as long as it may be there, and behind all others
    cache: bool | None = None  # whether finished audio may be kept and given again; None: with a seed
    speed: float = 1.0  # at which it is played; the stream's samples are not changed


@dataclass(frozen=True, slots=True)
class SynthesisRequest:
    """The text or tokens of one stream, and how they are spoken.

    mode: "whole": `text` is all of it, spoken segment by segment; "segments": text is pushed in pieces, a
    sentence is spoken as soon as it is whole; "continuous": text is pushed in pieces to one running
    utterance; "tokens": no text, but speech tokens or a recording to convert.
    """

    request_id: str
    wire: Wire
    mode: Mode = "whole"
    text: str | None = None  # None: it is pushed
    speech: SentRecording | tuple[int, ...] | None = None  # of mode "tokens"
    pauses: frozenset[int] | None = None  # of the writer, of an earlier stream; None: as it pauses
    voice: VoiceChoice = VoiceChoice()
    reading: Reading = field(default_factory=Reading)
    sampling: Sampling | None = None  # None: the checkpoint's
    seed: int | None = None  # None: another one each time
    delivery: Delivery = Delivery()
    client: Client = field(kw_only=True)  # who asks; no default, so that no route can forget it

    def __post_init__(self) -> None:
        assert (self.text is not None) == (self.mode == "whole"), "a whole text comes with its request"
        assert (self.speech is not None) == (self.mode == "tokens"), "only mode tokens speaks without text"


@dataclass(frozen=True, slots=True)
class ResolvedReading:
    """The reading of a request's text by one checkpoint."""

    language: str | None  # its code; None: detected for each segment
    speaker: str | None  # None: the default one
    follows_text: bool  # the text's language may have another default speaker
    reading: Reading  # in the accent that was asked for, with the speaker's words
    work: Work = field(repr=False, compare=False)  # what the request comes to, counted


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The abilities of a running checkpoint."""

    checkpoint: str  # its name, no path
    backend: str
    sample_rate_hz: int
    default_speaker: str
    can_continue_text: bool  # mode "continuous"
    languages: tuple[str, ...]  # ISO 639 codes
    limits: WorkLimits  # of one request
    voice_modes: tuple[VoiceMode, ...] = ("zero_shot", "cross_lingual", "instruct", "sft")
    num_speech_ids: int = 6561  # speech tokens are below it
    token_rate_hz: int = 25
    accents: tuple[str, ...] = ()  # beside its own
    default_speakers: Mapping[str, str] = field(default_factory=dict, hash=False)  # by language, where others

    @property
    def takes_instruct(self) -> bool:
        return "instruct" in self.voice_modes

    def speaker_of(self, request: SynthesisRequest) -> str:
        """Return who speaks a request; "" where the language of its text decides.

        Raises InvalidRequest for a language that is unknown or not spoken.
        """
        voice = request.voice
        if voice.reference is not None:
            return REFERENCE
        if voice.speaker is not None or request.speech is not None or not self.default_speakers:
            return voice.speaker or self.default_speaker
        language = self.language_of(voice.language)
        return "" if language is None else self.default_speakers.get(language, self.default_speaker)

    def check(self, request: SynthesisRequest) -> None:
        """Raise InvalidRequest for what the checkpoint cannot do, TextTooLong."""
        voice = request.voice
        if not request.delivery.is_background:
            self.limits.check_text(len(request.text or ""))
        if request.mode == "continuous" and not self.can_continue_text:
            raise InvalidRequest(
                f"{self.checkpoint} cannot speak while its text comes; use mode segments", "mode"
            )
        if voice.instruct is not None and not self.takes_instruct:
            raise InvalidRequest(f"{self.checkpoint} takes no instructions; leave instruct out", "instruct")
        if voice.reference is not None and voice.speaker is not None:
            raise InvalidRequest("speaker and a reference recording were both given; give one", "speaker")
        if voice.mode is not None and voice.mode not in self.voice_modes:
            raise InvalidRequest(
                f"{self.checkpoint} has no mode {voice.mode}; it has {', '.join(self.voice_modes)}",
                "voice_mode",
            )
        if voice.mode is not None and (voice.mode == "instruct") != (voice.instruct is not None):
            given = "no instruct was given" if voice.mode == "instruct" else "an instruct was given"
            raise InvalidRequest(
                f"mode {voice.mode}, but {given}; mode instruct and the field instruct come together",
                "voice_mode",
            )
        if isinstance(request.speech, tuple):
            self._check_tokens(request.speech)

    def _check_tokens(self, speech: tuple[int, ...]) -> None:
        if not speech:
            raise InvalidRequest("there are no speech tokens; send 1 or more", "tokens")
        self.limits.check_given(len(speech), self.token_rate_hz, "speech tokens", "tokens")
        foreign = next((id for id in speech if not 0 <= id < self.num_speech_ids), None)
        if foreign is not None:
            raise InvalidRequest(
                f"speech token {foreign}; {self.checkpoint} has 0 to {self.num_speech_ids - 1}", "tokens"
            )

    def language_of(self, given: str | None) -> str | None:
        """Return the code of a language by its code, tag or English name; None: it is to be detected.

        Raises InvalidRequest for one that is unknown or not spoken.
        """
        name = _language_name(given)
        if name == "auto":
            return None
        tag = _TAG.fullmatch(name)
        code = CODES.get(name) or (CODES.get(tag[1], tag[1]) if tag else None)
        if code in self.languages:
            return code
        spoken = ", ".join(f"{code} ({NAMES[code]})" if code in NAMES else code for code in self.languages)
        reason = f"unknown language {(given or '')[:60]!a}"
        if code in NAMES:
            reason = f"{self.checkpoint} does not speak {NAMES[code]}"
        raise InvalidRequest(f"{reason}; choose one of {spoken}, or leave it out", "language")

    def accent_of(self, language: str | None, of_speaker: str | None = None) -> str:
        """Return the accent that is spoken; "" for the checkpoint's own.

        language: as it was asked for; where it names no region, the speaker's own tag decides.
        """
        name = _language_name(language)
        if name in ("auto", "en"):
            name = _language_name(of_speaker)
        accent = _ACCENTS_OF_TAGS.get(name, "")
        return accent if accent in self.accents else ""


def _language_name(given: str | None) -> str:
    name = " ".join((given or "auto").replace("_", "-").lower().split())
    primary, dash, region = name.partition("-")
    return f"{CODES.get(primary, primary)}{dash}{region}"
