"""Registry of speakers, built-in and registered, with a cache of prepared ones."""

import asyncio
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from firstword.app.clients import ANYBODY, STRANGER, Access, Client
from firstword.app.errors import (
    Overloaded,
    SpeakerNotFound,
)
from firstword.app.speakers.enrolment import (
    Enrolment,
    SpeakerNetworks,
    builtin_info,
    decode_upload,
)
from firstword.app.speakers.interface import (
    KnownSpeaker,
    PreparedSpeaker,
    SentRecording,
    checked_language,
    checked_name,
    checked_transcript,
)
from firstword.app.speakers.listing import SpeakerListing
from firstword.app.speakers.prepared_cache import PreparedCache
from firstword.app.speakers.tables import SpeakerRow, SpeakerTables, StoredSpeaker

P = ParamSpec("P")
Result = TypeVar("Result")

RETRY_AFTER_S = 5
MAX_WAITING_EACH = 8  # recordings for each thread that reads them

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RegistryHooks:
    """What is called as speakers are used.

    on_hit, on_miss: when one is wanted, by whether it is ready in memory. on_registered: with the identity of
    a new speaker and what it speaks with. threads: makes those that compute. num_readers: how many of them
    there are, so recordings that are read side by side.
    """

    on_hit: Callable[[], None] = lambda: None
    on_miss: Callable[[], None] = lambda: None
    on_registered: Callable[[str, PreparedSpeaker], object] = lambda identity, speaker: None
    threads: Callable[[int], ThreadPoolExecutor] = lambda num_readers: ThreadPoolExecutor(
        num_readers, "speakers"
    )
    num_readers: int = 1


class SpeakerRegistry(SpeakerListing):
    """`Speakers` for the routes, `prepared` for the engine. For one event loop, but for `count`.

    `async with` prepares the default speaker, if it is a built-in one, and at its end stops all work and
    closes the store. What computes runs on threads of its own, so many at once as the hooks say. A stored
    speaker keeps its recording: if its features are of another checkpoint, they are read again when it is
    first wanted. The store's row is the truth about a transcript, which another process may change; the
    prompt state does not depend on it.

    default_speaker: None is the first built-in one. max_cache_bytes: of prepared speakers in memory.
    max_waiting: recordings and bundles to be read, those at work included; None: so many for each thread.
    """

    def __init__(
        self,
        store: SpeakerTables,
        networks: SpeakerNetworks,
        *,
        max_cache_bytes: int,
        default_speaker: str | None = None,
        max_waiting: int | None = None,
        hooks: RegistryHooks | None = None,
    ) -> None:
        hooks = hooks or RegistryHooks()
        super().__init__(
            store,
            networks.builtin,
            networks.builtin_names,
            default_speaker or next(iter(networks.builtin), None),
        )
        self._on_registered = hooks.on_registered
        self._networks = networks
        self._enrolment = Enrolment(store, networks)
        self._cache: PreparedCache[PreparedSpeaker] = PreparedCache(
            max_cache_bytes, frozenset(networks.builtin), hooks.on_hit, hooks.on_miss
        )
        self._threads = hooks.threads(hooks.num_readers)
        self._max_waiting = MAX_WAITING_EACH * hooks.num_readers if max_waiting is None else max_waiting
        self._num_waiting: Counter[str] = Counter()  # by client
        self._preparing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._store.on_removed = lambda id: loop.call_soon_threadsafe(self._cache.drop, id)
        try:
            name = self.default_speaker
            if name is not None and name in self._networks.builtin:
                await self._cache.fill(name, partial(self._compute_builtin, name))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def prepare_builtin(self, quiet: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Begin to prepare the built-in speakers, so that the first who wants one of them need not wait.

        quiet: returns once nobody speaks; awaited before each of them.
        """
        self._preparing = asyncio.create_task(self._prepare_builtin(quiet), name="built-in speakers")
        return self._preparing

    async def enrol(
        self,
        name: str,
        recording: bytes,
        transcript: str = "",
        language: str | None = None,
        *,
        client: Client = STRANGER,
        access: Access | None = None,
        lexicon: Mapping[str, str] | None = None,
    ) -> KnownSpeaker:
        """Raises, beside what the Protocol names, Overloaded. A caller who leaves before the speaker is
        written leaves nothing behind; of two who want one name the first to be written wins."""
        transcript, language = checked_transcript(transcript), checked_language(language)
        self._check_free(checked_name(name), client)
        return await self._register(
            partial(self._enrolment.enrol_recording, name, recording, transcript, language),
            client,
            access,
            lexicon,
        )

    async def import_bundle(
        self,
        bundle: bytes,
        name: str | None = None,
        *,
        client: Client = STRANGER,
        access: Access | None = None,
    ) -> KnownSpeaker:
        """Raises, beside what the Protocol names, Overloaded."""
        if name is not None:
            self._check_free(checked_name(name), client)
        return await self._register(partial(self._enrolment.enrol_bundle, bundle, name), client, access)

    async def export(self, name: str, *, client: Client = STRANGER) -> bytes:
        """A built-in speaker can be exported too, for a server that is to have it under another name."""
        if builtin := self._networks.builtin_names.get(name):
            return await self._compute(self._enrolment.export_builtin, builtin)
        found = self._changeable(name, "exported", client)
        return await self._compute(self._enrolment.export_bundle, found.id)

    async def prepared(
        self,
        name: str | None = None,
        client: Client = STRANGER,
        reference: SentRecording | None = None,
        on_miss: Callable[[], None] = lambda: None,
    ) -> PreparedSpeaker:
        """Return a speaker, by None the default one, ready to speak with; computed if it is not in memory.

        reference: instead of a name; what is computed of it is kept in memory like any speaker's. on_miss:
        called where it is not in memory.

        Raises SpeakerNotFound, SpeakerDamaged, and SpeakerIncompatible where a speaker of another checkpoint
        cannot be read again; of a reference BadAudio and kin, and Overloaded.
        """
        if reference is not None:
            digest = await asyncio.to_thread(self._digest, reference)
            return await self._cache.get(digest, partial(self._read_reference, reference, client), on_miss)
        if name is None:
            name, client = self.default_speaker, ANYBODY
        if name is None:
            raise SpeakerNotFound("there is no default speaker; register one and name it")
        if builtin := self._networks.builtin_names.get(name):
            return await self._cache.get(builtin, partial(self._compute_builtin, builtin), on_miss)
        row = self._row(name, client)
        compute = partial(self._compute, self._enrolment.restore, row.id)
        prepared = await self._cache.get(row.id, compute, on_miss)
        if prepared.transcript != row.prompt.transcript:
            prepared = self._networks.with_transcript(prepared, row.prompt.transcript)
            if row.id in self._cache:
                self._cache.put(row.id, prepared)
        return prepared

    async def identity(self, name: str | None, client: Client, reference: SentRecording | None = None) -> str:
        if reference is not None:
            return (await asyncio.to_thread(self._digest, reference)).hex()
        if name is None:
            name, client = self.default_speaker, ANYBODY
        if name is None or name in self._networks.builtin_names:
            return f"built-in {self._networks.builtin_names.get(name or '', name)}"
        return _identity_of(self._row(name, client))

    async def source_tokens(self, recording: SentRecording, client: Client = STRANGER) -> tuple[int, ...]:
        def read() -> tuple[int, ...]:
            return tuple(self._networks.read_source_tokens(*decode_upload(recording.content)))

        with self._waiting(client):
            return await self._compute(read)

    async def _read_reference(self, reference: SentRecording, client: Client) -> PreparedSpeaker:
        def read() -> PreparedSpeaker:
            samples, sample_rate_hz = decode_upload(reference.content)
            features = self._networks.read_speaker(samples, sample_rate_hz)
            return self._networks.with_prompt_state(features, reference.transcript)

        with self._waiting(client):
            return await self._compute(read)

    def _digest(self, reference: SentRecording) -> bytes:
        """Of everything that its prompt depends on."""
        digest = hashlib.sha256(repr((self._networks.fingerprint, reference.transcript)).encode())
        digest.update(reference.content)
        return digest.digest()

    async def bounded(self, function: Callable[[], Result], client: Client) -> Result:
        """Run it on a thread that computes. Raises Overloaded where too many wait for that."""
        with self._waiting(client):
            return await self._compute(function)

    async def _register(
        self,
        enrol: Callable[[], tuple[StoredSpeaker, PreparedSpeaker]],
        client: Client,
        access: Access | None,
        lexicon: Mapping[str, str] | None = None,
    ) -> KnownSpeaker:
        with self._waiting(client):
            stored, prepared = await self._compute(enrol)
            self._check_free(stored.row.name, client)
            owned = replace(stored.row, owner=client.name, access=access or client.access)
            owned = owned if lexicon is None else replace(owned, lexicon=lexicon)
            row = await asyncio.to_thread(self._store.insert, replace(stored, row=owned), self._request.get())
        self._cache.put(row.id, prepared)
        self._on_registered(_identity_of(row), prepared)
        return self._info(row)

    @contextmanager
    def _waiting(self, client: Client) -> Iterator[None]:
        """Count a recording that waits to be read, or is being read.

        Raises Overloaded. Who has a key leaves a quarter of the places to others.
        """
        own, most = self._num_waiting[client.name], self._max_waiting
        if client.name:
            most = max(1, most * 3 // 4)
        for number, limit in ((self._num_waiting.total(), self._max_waiting), (own, most)):
            if number >= limit:
                raise Overloaded(
                    f"{number} recordings wait to be read already; try again in {RETRY_AFTER_S} s",
                    RETRY_AFTER_S,
                )
        self._num_waiting[client.name] += 1
        try:
            yield
        finally:
            self._num_waiting[client.name] -= 1
            if not self._num_waiting[client.name]:
                del self._num_waiting[client.name]

    async def _compute(self, function: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
        """Run it on a thread that computes. Work whose caller leaves before its turn is not begun."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def _compute_builtin(self, name: str) -> PreparedSpeaker:
        builtin = self._networks.builtin[name]
        return await self._compute(self._networks.with_prompt_state, builtin.features, builtin.transcript)

    async def _prepare_builtin(self, quiet: Callable[[], Awaitable[None]]) -> None:
        try:
            for name in self._networks.builtin:
                await quiet()
                await self._cache.fill(name, partial(self._compute_builtin, name))
        except Exception:
            logger.exception("not all built-in speakers could be prepared; each is when it is first wanted")
            return
        cold = [name for name in self._networks.builtin if name not in self._cache]
        if cold:
            logger.warning("the memory for speakers is too small to keep the built-in %s", ", ".join(cold))

    async def _close(self) -> None:
        self._store.on_removed = lambda id: None  # another server may delete one when this loop has ended
        if self._preparing is not None:
            self._preparing.cancel()
            await asyncio.wait([self._preparing])
        await self._cache.close()
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        await asyncio.to_thread(self._store.close)

    def _builtin_info(self, name: str) -> KnownSpeaker:
        return builtin_info(name, self._networks.builtin[name], name in self._cache)

    def _is_ready(self, id: int) -> bool:
        return id in self._cache

    def _deleted(self, id: int) -> None:
        self._cache.drop(id)


def _identity_of(row: SpeakerRow) -> str:
    return f"registered {row.id} {row.prompt.transcript}"
