"""Speakers without recordings, for tests of the transport."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from firstword.app.clients import Access, Client
from firstword.app.errors import InvalidRequest, SpeakerChanged, SpeakerExists, SpeakerNotFound
from firstword.app.speakers.interface import (
    KnownSpeaker,
    PromptInfo,
    Quality,
    RequestKey,
    SentRecording,
    SpeakerChange,
    StoreHealth,
)

HUM = KnownSpeaker(
    name="hum",
    kind="builtin",
    created_at="2025-01-01T00:00:00Z",
    prompt=PromptInfo(5.0, "Hum.", "en", 125),
    quality=None,
    cached=True,
)
ANNA = replace(
    HUM,
    name="anna",
    kind="registered",
    prompt=replace(HUM.prompt, transcript="I am Anna."),
    quality=Quality(40.0, 0.0, 0.9),
)

HEALTHY = StoreHealth(is_available=True)


@dataclass(eq=False)
class FakeSpeakers:
    """Keeps speakers in a dict; a recording is whatever bytes come, a bundle is the name it holds."""

    speakers: dict[str, KnownSpeaker] = field(default_factory=lambda: {"hum": HUM, "anna": ANNA})
    failure: Exception | None = None  # raised by whatever writes
    store_health: StoreHealth = HEALTHY

    @property
    def builtin_names(self) -> dict[str, str]:
        return {name: name for name, info in self.speakers.items() if info.kind == "builtin"}

    def list(self, client: Client) -> list[KnownSpeaker]:
        return sorted(self.speakers.values(), key=lambda speaker: (speaker.kind != "builtin", speaker.name))

    def page(
        self, client: Client, after: str | None, limit: int
    ) -> tuple[Sequence[KnownSpeaker], str | None]:
        behind = [speaker for speaker in self.list(client) if after is None or speaker.name > after]
        return behind[:limit], behind[limit - 1].name if behind[limit:] else None

    async def once(
        self, request: RequestKey, client: Client, enrol: Callable[[], Awaitable[KnownSpeaker]]
    ) -> KnownSpeaker:
        return await enrol()

    def count(self) -> int:
        return len(self.speakers)

    def health(self) -> StoreHealth:
        return self.store_health

    def get(self, name: str, client: Client | None = None) -> KnownSpeaker:
        if name not in self.speakers:
            raise SpeakerNotFound(f"No speaker is named {name!r}; GET /speakers lists them.")
        return self.speakers[name]

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
        if self.failure is not None:
            raise self.failure
        if name in self.speakers:
            raise SpeakerExists(f"A speaker is named {name!r} already; take another name or delete it first.")
        owner, access = client.name or None, access or client.access
        return self._keep(
            replace(
                ANNA,
                name=name,
                prompt=replace(ANNA.prompt, transcript=transcript, language=language),
                owner=owner,
                access=access,
                lexicon=lexicon or {},
            )
        )

    async def update(self, name: str, change: SpeakerChange, *, client: Client) -> KnownSpeaker:
        old = self._registered(name)
        if change.version not in (None, old.version):
            raise SpeakerChanged(f"speaker {name!r} has version {old.version}")
        del self.speakers[name]
        return self._keep(
            replace(
                old,
                prompt=replace(old.prompt, **_given(change, "transcript", "language")),
                **_given(change, "access", "lexicon", "name"),
            )
        )

    async def delete(self, name: str, *, client: Client) -> None:
        del self.speakers[self._registered(name).name]

    async def export(self, name: str, *, client: Client) -> bytes:
        return self.get(name).name.encode()

    async def import_bundle(
        self, bundle: bytes, name: str | None = None, *, client: Client, access: Access | None = None
    ) -> KnownSpeaker:
        return await self.enrol(
            name or bundle.decode(),
            bundle,
            ANNA.prompt.transcript,
            ANNA.prompt.language,
            client=client,
            access=access,
        )

    async def source_tokens(self, recording: SentRecording, client: Client) -> tuple[int, ...]:
        return tuple(recording.content[:25])

    def _registered(self, name: str) -> KnownSpeaker:
        if self.get(name).kind == "builtin":
            raise InvalidRequest(f"{name!r} is built in and cannot be changed.", param="name")
        return self.get(name)

    def _keep(self, speaker: KnownSpeaker) -> KnownSpeaker:
        self.speakers[speaker.name] = speaker
        return speaker


def _given(change: SpeakerChange, *names: str) -> dict[str, Any]:
    return {one: getattr(change, one) for one in names if getattr(change, one) is not None}
