"""Speakers as the routes and the engine see them, and the checks of what a client says about one."""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from firstword.app.clients import Access, Client
from firstword.app.errors import InvalidRequest

MAX_FEATURES_BYTES = 2 << 20  # what a bundle holds beside its recording, at the very most


def max_bundle_bytes(max_recording_bytes: int) -> int:
    """Return a limit within which whatever can be registered can be exported and imported again."""
    return max_recording_bytes + MAX_FEATURES_BYTES


@dataclass(frozen=True, slots=True)
class Quality:
    """Measured at enrolment, of the recording as it was uploaded: its owner is told what to do better.

    Of a built-in speaker it is estimated from its prompt's spectrogram.
    """

    snr_db: float
    clipping: float | None  # share of samples at full scale; None: not known
    speech_ratio: float  # share of 20 ms windows with speech
    transcript_fit: float | None = None  # of the transcript it was registered with; None: not known
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Description:
    """A speaker as a person, for people who choose one; language: a tag, of its own way to speak."""

    sex: Literal["female", "male"]
    age: Literal["child", "young", "adult", "old"]
    manner: str
    accent: str
    language: str

    def __str__(self) -> str:
        who = {"child": "child", "young": f"young {self._noun}", "old": f"old {self._noun}"}
        return f"{who.get(self.age, self._noun)}, {self.manner}, {self.accent}"

    @property
    def _noun(self) -> str:
        return "woman" if self.sex == "female" else "man"


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A speaker's reference recording."""

    duration_s: float
    transcript: str  # "" where it is not known
    language: str | None  # None: nobody has said
    num_tokens: int  # speech tokens


@dataclass(frozen=True, slots=True)
class KnownSpeaker:
    name: str
    kind: Literal["builtin", "registered"]
    created_at: str  # ISO 8601, UTC; of a built-in one, when its checkpoint was made
    prompt: PromptInfo
    quality: Quality | None  # None: built-in and without a prompt
    cached: bool  # the flow prompt state is in memory
    damaged: bool = False  # what is stored of it cannot be used; it can be deleted
    owner: str | None = None  # the name of the key that registered it
    access: Access = "shared"
    lexicon: Mapping[str, str] = field(default_factory=dict, hash=False)  # what it says for a word
    version: int = 1  # one more with each change by `update`
    description: Description | None = None  # None: nobody has said; of registered ones never


@dataclass(frozen=True, slots=True)
class SpeakerChange:
    """A field is changed unless it is None; an empty language or lexicon is removed.

    version: the one that it is a change of; None: whichever there is.
    """

    transcript: str | None = None
    language: str | None = None
    access: Access | None = None
    lexicon: Mapping[str, str] | None = None
    version: int | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class RequestKey:
    """An Idempotency-Key with the digest of its request: what was made with it is not made again."""

    key: str
    digest: bytes

    def refuse_other(self, digest: bytes) -> None:
        """Raises InvalidRequest where it came with another request before."""
        if digest != self.digest:
            raise InvalidRequest(
                f"the Idempotency-Key {self.key[:64]!a} came with another request before; give each request "
                "its own",
                "Idempotency-Key",
            )


def key_of(name: str, private_to: str | None) -> str:
    """Return what a speaker is stored as. private_to: its owner; None if it is not private."""
    return name if private_to is None else f"{private_to}/{name}"  # no name has a slash


@dataclass(frozen=True, slots=True)
class StoreHealth:
    is_available: bool  # what is registered would be found after a restart
    damaged: tuple[str, ...] = ()  # names of speakers found damaged so far


@dataclass(slots=True, eq=False)
class SentRecording:
    """A recording that came with a request: in memory only, and no longer than until it is read."""

    content: bytes = field(repr=False)  # the file as uploaded
    transcript: str = field(default="", repr=False)  # what is said in it; "": not known

    def release(self) -> None:
        self.content = b""


@dataclass(frozen=True, slots=True, eq=False)
class PreparedSpeaker:
    """What a stream needs of its speaker: read-only, shared by its streams, opaque outside the networks."""

    transcript: str  # of the reference recording; "" where it is not known
    features: Any = field(repr=False)  # `SpeakerFeatures` of models, with the transcript's text tokens
    prompt_state: Any = field(repr=False)  # of the flow, as the checkpoint's token2wav computes and takes it
    state_bytes: int  # of both in memory
    gain: float = 1.0  # that brings its samples to the wanted loudness


class Speakers(Protocol):
    """Every method that takes a name raises SpeakerNotFound where the client sees no speaker of that name.

    Another owner's private speaker is seen by nobody but administrators: its name is free for others, and of
    two with one name a client means its own. Methods that write raise StoreFull and StoreUnavailable, those
    that change or copy a speaker SpeakerNotYours, `update` and `export` also SpeakerDamaged.
    """

    def list(self, client: Client) -> list[KnownSpeaker]:
        """Those that the client sees, sorted by name, the built-in ones first."""
        ...

    def page(
        self, client: Client, after: str | None, limit: int
    ) -> tuple[Sequence[KnownSpeaker], str | None]:
        """Return those of `list` behind the one that `after` says, and what says the last of them.

        after: what an earlier call returned, None is the beginning; the speaker may be gone meanwhile. The
        second is None where there are no more.
        """
        ...

    async def once(
        self, request: RequestKey, client: Client, enrol: Callable[[], Awaitable[KnownSpeaker]]
    ) -> KnownSpeaker:
        """Return what `enrol` gives, a call of that method; if the client's same request was served before,
        the speaker that it made. Raises InvalidRequest where the key came with another request."""
        ...

    def count(self) -> int:
        """How many there are, whoever sees them; thread-safe."""
        ...

    def health(self) -> StoreHealth:
        """Thread-safe; it may wait for a disk."""
        ...

    def get(self, name: str, client: Client) -> KnownSpeaker: ...

    async def enrol(
        self,
        name: str,
        recording: bytes,
        transcript: str = "",
        language: str | None = None,
        *,
        client: Client,
        access: Access | None = None,
        lexicon: Mapping[str, str] | None = None,
    ) -> KnownSpeaker:
        """Return when the speaker is durable and its prompt state is computed.

        recording: the file as uploaded. access None: as the client's key says. lexicon: a checked one.

        Raises InvalidRequest (name), SpeakerExists, BadAudio and kin.
        """
        ...

    async def update(self, name: str, change: SpeakerChange, *, client: Client) -> KnownSpeaker:
        """Change it; it keeps its owner, under whatever name.

        change: its lexicon is a checked one. Raises InvalidRequest for a built-in speaker, SpeakerExists
        where the name is taken among those who would see it now, and SpeakerChanged for another version.
        """
        ...

    async def delete(self, name: str, *, client: Client) -> None:
        """Delete it; its running streams finish. Raises InvalidRequest for a built-in speaker."""
        ...

    async def export(self, name: str, *, client: Client) -> bytes:
        """Return its bundle, a safetensors file."""
        ...

    async def import_bundle(
        self, bundle: bytes, name: str | None = None, *, client: Client, access: Access | None = None
    ) -> KnownSpeaker:
        """Raises InvalidRequest (no bundle), SpeakerExists, SpeakerIncompatible."""
        ...

    async def source_tokens(self, recording: SentRecording, client: Client) -> tuple[int, ...]:
        """Return the speech tokens of what is said in it. Raises BadAudio and kin, and Overloaded."""
        ...


class PreparedSpeakers(Protocol):
    """The speakers as the engine sees them."""

    def get(self, name: str | None, client: Client, takes_alias: bool = False) -> KnownSpeaker:
        """name None: the default one, whoever owns it. takes_alias: one of OpenAI's voices is a name too,
        where no speaker has it. Raises SpeakerNotFound."""
        ...

    async def prepared(
        self,
        name: str | None,
        client: Client,
        reference: SentRecording | None = None,
        on_miss: Callable[[], None] = lambda: None,
    ) -> PreparedSpeaker:
        """name None: the default one, whoever owns it. reference: a recording whose voice is taken instead.
        on_miss: called where it is not ready in memory.

        Raises SpeakerNotFound; of a reference BadAudio and kin, and Overloaded.
        """
        ...

    async def identity(self, name: str | None, client: Client, reference: SentRecording | None = None) -> str:
        """Return what tells a speaker, as it is now, from every other one and from its own past.

        Raises SpeakerNotFound.
        """
        ...

    async def source_tokens(self, recording: SentRecording, client: Client) -> tuple[int, ...]:
        """As `Speakers` has it."""
        ...


MAX_TRANSCRIPT_CHARS = 1000  # of 30 s: a fast reader of English comes to 750
MAX_LANGUAGE_CHARS = 35

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)  # BCP 47, its usual part


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def checked_name(name: str) -> str:
    if not is_name(name):
        raise InvalidRequest(
            f"name {_shown(name)}; expected 1 to 64 of the characters A-Z a-z 0-9 _ and -", param="name"
        )
    return name


def checked_transcript(transcript: str, param: str = "transcript") -> str:
    """Return it with every run of white space as one blank and none at its ends."""
    text = " ".join(transcript.split())
    if len(text) > MAX_TRANSCRIPT_CHARS:
        raise InvalidRequest(
            f"a transcript of {len(text)} characters; expected {MAX_TRANSCRIPT_CHARS} at most, what is said "
            "in the recording",
            param=param,
        )
    foreign = next((c for c in text if unicodedata.category(c) in ("Cc", "Cs")), None)
    if foreign is not None:
        raise InvalidRequest(
            f"the transcript holds the character {foreign!a}; expected readable text", param=param
        )
    return text


def checked_language(language: str | None) -> str | None:
    """Return None for an empty one."""
    if not language:
        return None
    if len(language) > MAX_LANGUAGE_CHARS or not _LANGUAGE.fullmatch(language):
        raise InvalidRequest(
            f"language {_shown(language)}; expected a tag such as en, zh or pt-BR", param="language"
        )
    return language


def _shown(text: str) -> str:
    """Return it as it was written and short, what cannot be printed escaped."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r} and more"
