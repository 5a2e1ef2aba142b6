"""Who the speakers are, and who sees and changes them; nothing of what they sound like, and free of torch."""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from itertools import islice

from firstword.app.clients import ANYBODY, STRANGER, Client
from firstword.app.errors import InvalidRequest, SpeakerExists, SpeakerNotFound, SpeakerNotYours
from firstword.app.speakers.interface import (
    KnownSpeaker,
    RequestKey,
    SpeakerChange,
    StoreHealth,
    checked_language,
    checked_name,
    checked_transcript,
    is_name,
    key_of,
)
from firstword.app.speakers.quality import with_warnings
from firstword.app.speakers.tables import RowCheck, SpeakerRow, SpeakerTables


class SpeakerListing(ABC):
    """The part of `Speakers` that needs no network: lists, looks up, changes and deletes.

    For one event loop, but for `count`. Built-in speakers are what a checkpoint has, the others what the
    store has.
    """

    def __init__(
        self,
        store: SpeakerTables,
        builtin: Collection[str],
        builtin_names: Mapping[str, str],
        default_speaker: str | None,
    ) -> None:
        """builtin_names: what is said, to who of the built-in ones speaks."""
        self.aliases: Mapping[str, str] = {}  # OpenAI's voices, to speakers
        self.default_speaker = default_speaker
        self._store = store
        self._builtin = builtin
        self.builtin_names = builtin_names
        self._request: ContextVar[RequestKey | None] = ContextVar("request", default=None)  # of who enrols

    def close(self) -> None:
        self._store.close()

    @abstractmethod
    def _builtin_info(self, name: str) -> KnownSpeaker: ...

    @abstractmethod
    def _is_ready(self, id: int) -> bool:
        """Whether a stored speaker is known to be in memory."""

    @abstractmethod
    def _deleted(self, id: int) -> None:
        """Called with the id of a speaker that is deleted."""

    def list(self, client: Client = STRANGER) -> list[KnownSpeaker]:
        builtin = map(self._builtin_info, sorted(self._builtin))
        return [*builtin, *self._infos(self._seen_by(client, self._store.rows()), client)]

    def page(
        self, client: Client = STRANGER, after: str | None = None, limit: int = 100
    ) -> tuple[Sequence[KnownSpeaker], str | None]:
        owner, _, last = (after or "").rpartition("/")
        builtin, rows = sorted(self._builtin), self._store.rows()
        is_builtin = not owner and last in self._builtin
        chosen: list[KnownSpeaker] = []
        if after is None or is_builtin:
            chosen = [*map(self._builtin_info, builtin[bisect_right(builtin, last) :])]
            behind = 0
        else:
            behind = bisect_right(rows, (last, owner), key=lambda row: row.position)
        stored = [*islice(self._seen_by(client, rows, behind), max(0, limit + 1 - len(chosen)))]
        keys = [*(info.name for info in chosen), *(row.key for row in stored)]
        chosen += self._infos(stored, client)
        return chosen[:limit], keys[limit - 1] if len(keys) > limit else None

    async def once(
        self, request: RequestKey, client: Client, enrol: Callable[[], Awaitable[KnownSpeaker]]
    ) -> KnownSpeaker:
        made = await asyncio.to_thread(self._store.made_with, client.name, request)
        if made is not None:
            return self._info(made)
        token = self._request.set(request)
        try:
            return await enrol()
        except SpeakerExists:  # perhaps the very request, which was being served when this one came
            made = await asyncio.to_thread(self._store.made_with, client.name, request)
            if made is None:
                raise
            return self._info(made)
        finally:
            self._request.reset(token)

    def count(self) -> int:
        names = self.builtin_names
        return len(self._builtin) + sum(row.name not in names for row in self._store.rows())

    def health(self) -> StoreHealth:
        damaged = self._store.damaged
        rows = self._store.rows() if damaged else ()
        names = tuple(row.name for row in rows if row.id in damaged and row.access != "private")
        return StoreHealth(self._store.is_in_place(), names)

    def get(self, name: str | None, client: Client = STRANGER, takes_alias: bool = False) -> KnownSpeaker:
        """name None: the default one. takes_alias: one of `aliases` is a name where no speaker has it."""
        if name is None:
            name, client = self.default_speaker or "", ANYBODY
        if takes_alias and name.lower() in self.aliases:
            with suppress(SpeakerNotFound):
                return self.get(name, client)
            name = self.aliases[name.lower()]
        if builtin := self.builtin_names.get(name):
            return self._builtin_info(builtin)
        return self._info(self._row(name, client))

    async def update(self, name: str, change: SpeakerChange, *, client: Client = STRANGER) -> KnownSpeaker:
        """An empty language or lexicon removes it."""
        found = self._changeable(name, "changed", client)
        is_renamed = change.name not in (None, found.name)
        # Under the name of a private speaker of its owner's, its owner would see it no more.
        if (is_renamed or change.access is not None) and not client.may_share(found.owner):
            raise SpeakerNotYours(
                f"what the speaker {name!r} is called, and who uses it, is said by its owner, or by a key "
                "with the scope admin"
            )
        if is_renamed:
            names_of = Client(found.owner) if found.access == "private" else client
            self._check_free(checked_name(change.name or ""), names_of)
        transcript = None if change.transcript is None else checked_transcript(change.transcript)
        language = change.language and checked_language(change.language)
        checked = replace(change, transcript=transcript, language=language)
        check = _check_of(found, "changed", client)
        row = await asyncio.to_thread(self._store.update, found.key, checked, check)
        if row is None:
            raise unknown_speaker(name)
        return self._info(row)

    async def delete(self, name: str, *, client: Client = STRANGER) -> None:
        found = self._changeable(name, "deleted", client)
        check = _check_of(found, "deleted", client)
        row = await asyncio.to_thread(self._store.delete, found.key, check)
        if row is None:
            raise unknown_speaker(name)
        self._deleted(row.id)

    def _row(self, name: str, client: Client) -> SpeakerRow:
        """Return what a client means by a name: its own private speaker, else a public one.

        For administrators, at last, anybody's private one.
        """
        row = None
        if is_name(name):
            row = self._store.row(key_of(name, client.name))
            if row is None or not client.sees(row.owner, row.access):
                row = self._store.row(name)
            if row is None and client.is_admin:
                private = [row for row in self._store.rows() if row.name == name]
                if len(private) > 1:
                    owners = ", ".join(row.owner for row in private)
                    raise InvalidRequest(
                        f"several owners have a private speaker {name!r}: {owners}; say whose with `owner`",
                        param="owner",
                    )
                row = next(iter(private), None)
        if row is None:
            raise unknown_speaker(name)
        return row

    def _check_free(self, name: str, client: Client) -> None:
        """Look before the work begins; the store checks again when the speaker is written."""
        if name in self.builtin_names:
            raise SpeakerExists(f"{name!r} is a built-in speaker; choose another name")
        if self._store.row(key_of(name, client.name)) or self._store.row(name):
            raise SpeakerExists(f"there is a speaker {name!r} already; choose another name, or delete it")

    def _changeable(self, name: str, verb: str, client: Client) -> SpeakerRow:
        """Return the row of a registered speaker that the client may change, export and delete."""
        if name in self.builtin_names:
            raise InvalidRequest(f"{name!r} is a built-in speaker and cannot be {verb}", param="name")
        row = self._row(name, client)
        _check_of(row, verb, client)(row)
        return row

    def _info(self, row: SpeakerRow) -> KnownSpeaker:
        return KnownSpeaker(
            name=row.name,
            kind="registered",
            created_at=row.created_at,
            prompt=row.prompt,
            quality=with_warnings(row.quality, row.prompt.duration_s, row.prompt.transcript),
            cached=self._is_ready(row.id),
            damaged=row.id in self._store.damaged,
            owner=row.owner or None,
            access=row.access,
            lexicon=row.lexicon,
            version=row.version,
        )

    def _seen_by(
        self, client: Client, rows: "Sequence[SpeakerRow]", begin: int = 0
    ) -> "Iterator[SpeakerRow]":
        """Give the rows of registered speakers that a client sees, from one on."""
        hidden = self.builtin_names
        for row in islice(rows, begin, None):
            if row.name not in hidden and client.sees(row.owner, row.access):
                yield row

    def _infos(self, rows: "Iterable[SpeakerRow]", client: Client) -> "Iterator[KnownSpeaker]":
        for row in rows:
            info = self._info(row)
            # A stranger need not know the names of keys.
            yield replace(info, owner=None) if client == STRANGER else info


def _check_of(found: SpeakerRow, verb: str, client: Client) -> RowCheck:
    """Return what refuses any speaker but the one that was found, and that one where it is not the client's.

    Between a look and a write another server may give the name to another speaker, or take it from others.
    """

    def check(row: SpeakerRow) -> None:
        if row.id != found.id:
            raise unknown_speaker(row.name)
        if not client.may_change(row.owner, row.access):
            raise SpeakerNotYours(
                f"the speaker {row.name!r} can be {verb} by its owner alone, or by a key with the scope admin"
            )

    return check


def unknown_speaker(name: str) -> SpeakerNotFound:
    return SpeakerNotFound(f"no speaker is called {name[:64]!r}; list the speakers to see their names")
