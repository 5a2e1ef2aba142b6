"""Registry of speakers: built-in and enrolled, with a cache of prompt states.

Prepared speakers in memory: each computed once, the least recently used out when there are too many.

Everyone who can speak: the checkpoint's own speakers and the registered ones, prepared in memory.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, ParamSpec, Protocol, Self, TypeVar

from firstword.app.errors import InvalidRequest, Overloaded, SpeakerExists, SpeakerNotFound
from firstword.app.speakers.enrolment import SpeakerWorkshop, with_warnings
from firstword.app.speakers.interface import (
    SpeakerInfo,
    checked_language,
    checked_name,
    checked_transcript,
    is_name,
    max_bundle_bytes,
)
from firstword.app.speakers.store import SpeakerRow, SpeakerStore, StoredSpeaker

if TYPE_CHECKING:
    from firstword.app.speakers.enrolment import Enroller, PreparedSpeaker


Key = str | int  # a built-in speaker's name, a stored one's id


class Sized(Protocol):
    @property
    def state_bytes(self) -> int: ...


Value = TypeVar("Value", bound=Sized)


class PreparedCache(Generic[Value]):
    """Used within one event loop.

    pinned: keys that leave only when they alone, with the newest entry, are over `max_bytes`. An entry
    that is too large by itself is not kept.
    """

    def __init__(
        self,
        max_bytes: int,
        pinned: frozenset[Key],
        on_hit: Callable[[], None],
        on_miss: Callable[[], None],
    ) -> None:
        self._max_bytes = max_bytes
        self._pinned = pinned
        self._on_hit = on_hit
        self._on_miss = on_miss
        self._entries: OrderedDict[Key, Value] = OrderedDict()  # the newest last
        self._flights: dict[Key, asyncio.Task[Value]] = {}
        self._dropped: set[Key] = set()  # of those in flight

    @property
    def num_bytes(self) -> int:
        return sum(value.state_bytes for value in self._entries.values())

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    async def get(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        """What is held, or what `compute` gives: it runs once for all who wait, and to its end even if
        they leave. Raises what it raises; the next call tries again. To wait for another's is a miss too.
        """
        if key in self._entries:
            self._entries.move_to_end(key)
            self._on_hit()
            return self._entries[key]
        self._on_miss()
        if key not in self._flights:
            self._flights[key] = asyncio.create_task(self._fly(key, compute))
        return await asyncio.shield(self._flights[key])

    def put(self, key: Key, value: Value) -> None:
        self._entries[key] = value
        self._entries.move_to_end(key)
        while self.num_bytes > self._max_bytes:
            del self._entries[self._first_to_go()]

    def drop(self, key: Key) -> None:
        """Nor will it come back from a computation that is under way."""
        self._entries.pop(key, None)
        if key in self._flights:
            self._dropped.add(key)

    async def close(self) -> None:
        """Whoever still waits is cancelled."""
        flights = list(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        self._entries.clear()

    async def _fly(self, key: Key, compute: Callable[[], Awaitable[Value]]) -> Value:
        try:
            value = await compute()
            if key not in self._dropped:
                self.put(key, value)
            return value
        finally:
            del self._flights[key]
            self._dropped.discard(key)

    def _first_to_go(self) -> Key:
        *others, newest = self._entries
        return next((key for key in others if key not in self._pinned), others[0] if others else newest)


P = ParamSpec("P")
Result = TypeVar("Result")
NewSpeaker = tuple[StoredSpeaker, "PreparedSpeaker"]

RETRY_AFTER_S = 5
DEFAULT_MAX_WAITING = 8
DEFAULT_MAX_BUNDLE_BYTES = max_bundle_bytes(10 << 20)

logger = logging.getLogger(__name__)


def _ignore() -> None:
    pass


class SpeakerRegistry:
    """`Speakers` for the routes, `prepared` for the engine. Used within one event loop, but for `count`.

    `async with` warms the built-in speakers and, at its end, stops all work and closes the store. What
    computes runs on one worker thread, one after the other. A stored speaker keeps its recording: if its
    features are of another checkpoint, they are read again when it is first wanted.

    default_speaker: None is the first built-in one. max_cache_bytes: of prepared speakers in memory.
    max_waiting: enrolments and imports at once, the one at work included.
    """

    def __init__(
        self,
        store: SpeakerStore,
        enroller: "Enroller",
        *,
        max_cache_bytes: int,
        default_speaker: str | None = None,
        max_waiting: int = DEFAULT_MAX_WAITING,
        max_bundle_bytes: int = DEFAULT_MAX_BUNDLE_BYTES,
        on_hit: Callable[[], None] = _ignore,
        on_miss: Callable[[], None] = _ignore,
    ) -> None:
        self.default_speaker = default_speaker or next(iter(enroller.builtin), None)
        self._store = store
        self._enroller = enroller
        self._workshop = SpeakerWorkshop(store, enroller, max_bundle_bytes)
        self._cache: PreparedCache[PreparedSpeaker] = PreparedCache(
            max_cache_bytes, frozenset(enroller.builtin), on_hit, on_miss
        )
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="speakers")
        self._max_waiting = max_waiting
        self._num_waiting = 0

    async def __aenter__(self) -> Self:
        try:
            for name in self._enroller.builtin:
                self._cache.put(name, await self._prepare_builtin(name))
        except BaseException:
            await self._close()
            raise
        cold = [name for name in self._enroller.builtin if name not in self._cache]
        if cold:
            logger.warning("the memory for speakers is too small to keep the built-in %s", ", ".join(cold))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def list(self) -> list[SpeakerInfo]:
        builtin = self._enroller.builtin
        stored = [self._info(row) for row in self._store.rows() if row.name not in builtin]
        return [*map(self._builtin_info, sorted(builtin)), *stored]

    def count(self) -> int:
        builtin = self._enroller.builtin
        return len(builtin) + sum(row.name not in builtin for row in self._store.rows())

    def get(self, name: str) -> SpeakerInfo:
        return self._builtin_info(name) if name in self._enroller.builtin else self._info(self._row(name))

    async def enrol(
        self, name: str, recording: bytes, transcript: str = "", language: str | None = None
    ) -> SpeakerInfo:
        """Raises, beside what the Protocol names, Overloaded. A caller who leaves before the speaker is
        written leaves nothing behind; of two who want one name the first to be written wins."""
        transcript, language = checked_transcript(transcript), checked_language(language)
        self._check_free(checked_name(name))
        return await self._register(partial(self._workshop.enrol, name, recording, transcript, language))

    async def import_bundle(self, bundle: bytes, name: str | None = None) -> SpeakerInfo:
        """Raises, beside what the Protocol names, UploadTooLarge and Overloaded."""
        if name is not None:
            self._check_free(checked_name(name))
        return await self._register(partial(self._workshop.import_bundle, bundle, name))

    async def update(
        self, name: str, transcript: str | None = None, language: str | None = None
    ) -> SpeakerInfo:
        """An empty language removes it."""
        self._check_registered(name, "changed")
        new_transcript = None if transcript is None else checked_transcript(transcript)
        new_language = language and checked_language(language)
        row = await asyncio.to_thread(self._store.update, name, new_transcript, new_language)
        if row is None:
            raise _unknown(name)
        return self._info(row)

    async def delete(self, name: str) -> None:
        self._check_registered(name, "deleted")
        row = await asyncio.to_thread(self._store.delete, name)
        if row is None:
            raise _unknown(name)
        self._cache.drop(row.id)

    async def export(self, name: str) -> bytes:
        """Raises InvalidRequest for a built-in speaker, which every server of the checkpoint has."""
        self._check_registered(name, "exported")
        return await self._compute(self._workshop.export, self._row(name).id)

    async def prepared(self, name: str | None = None) -> "PreparedSpeaker":
        """Of a speaker, None: of the default one; computed if it is not in memory, once for all who wait.

        Raises SpeakerNotFound, and SpeakerIncompatible where a speaker of another checkpoint cannot be
        read again.
        """
        name = self.default_speaker if name is None else name
        if name is None:
            raise SpeakerNotFound("there is no default speaker; register one and name it")
        if name in self._enroller.builtin:
            return await self._cache.get(name, partial(self._prepare_builtin, name))
        row = self._row(name)
        compute = partial(self._compute, self._workshop.prepare, row.id)
        prepared = await self._cache.get(row.id, compute)
        if prepared.transcript == row.transcript:
            return prepared
        prepared = prepared.with_transcript(row.transcript)
        if row.id in self._cache:
            self._cache.put(row.id, prepared)
        return prepared

    async def _register(self, make: Callable[[], NewSpeaker]) -> SpeakerInfo:
        with self._place():
            stored, prepared = await self._compute(make)
            self._check_free(stored.row.name)
            row = await asyncio.to_thread(self._store.insert, stored)
        self._cache.put(row.id, prepared)
        return self._info(row)

    @contextmanager
    def _place(self) -> Iterator[None]:
        if self._num_waiting >= self._max_waiting:
            raise Overloaded(
                f"{self._num_waiting} recordings wait to be read already; come again in {RETRY_AFTER_S} s",
                RETRY_AFTER_S,
            )
        self._num_waiting += 1
        try:
            yield
        finally:
            self._num_waiting -= 1

    async def _compute(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """On the worker thread. Work whose caller leaves before its turn is not begun."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._worker, partial(function, *args, **kwargs))

    async def _prepare_builtin(self, name: str) -> "PreparedSpeaker":
        return await self._compute(self._enroller.prepare, self._enroller.builtin[name].speaker)

    async def _close(self) -> None:
        await self._cache.close()
        await asyncio.to_thread(self._worker.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._store.close)

    def _row(self, name: str) -> SpeakerRow:
        row = self._store.row(name) if is_name(name) else None
        if row is None:
            raise _unknown(name)
        return row

    def _check_free(self, name: str) -> None:
        """A quick look before the work; that a name is free when it is written, the store sees to."""
        if name in self._enroller.builtin:
            raise SpeakerExists(f"{name!r} is a built-in speaker; choose another name")
        if self._store.row(name) is not None:
            raise SpeakerExists(f"there is a speaker {name!r} already; choose another name, or delete it")

    def _check_registered(self, name: str, verb: str) -> None:
        if name in self._enroller.builtin:
            raise InvalidRequest(f"{name!r} is a built-in speaker and cannot be {verb}", param="name")
        self._row(name)

    def _info(self, row: SpeakerRow) -> SpeakerInfo:
        return SpeakerInfo(
            name=row.name,
            kind="registered",
            created_at=row.created_at,
            duration_s=row.duration_s,
            transcript=row.transcript,
            language=row.language,
            quality=with_warnings(row.quality, row.duration_s, row.transcript),
            prompt_tokens=row.prompt_tokens,
            cached=row.id in self._cache,
        )

    def _builtin_info(self, name: str) -> SpeakerInfo:
        builtin = self._enroller.builtin[name]
        return SpeakerInfo(
            name=name,
            kind="builtin",
            created_at=builtin.created_at,
            duration_s=builtin.duration_s,
            transcript=builtin.transcript,
            language=None,
            quality=None,
            prompt_tokens=len(builtin.speaker.prompt_tokens),
            cached=name in self._cache,
        )


def _unknown(name: str) -> SpeakerNotFound:
    return SpeakerNotFound(f"no speaker is called {name[:64]!a}; list the speakers to see who is there")
