"""Quotas of a key over all servers that share a database: leased from it in slices, ahead of the requests."""

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from firstword.app.database import DatabaseError
from firstword.app.errors import RateLimited, StoreFull, StoreUnavailable
from firstword.app.http.limits import Quotas
from firstword.app.postgresql import Postgres
from firstword.app.server_options import Limits
from firstword.app.supervisor import Supervisor

EXCHANGE_S: Final = 1.0  # how often the database hears of the keys in use
MIN_PAUSE_S: Final = 0.05  # between two exchanges
IDLE_S: Final = 60.0  # after which a key's slice goes back

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Slice:
    """What this server may give of one key's requests, and what it has open of its streams."""

    balance: float  # requests
    owed: float  # requests that were taken before the database was asked; less than 0: to be given back
    used_at_s: float
    refilled_at_s: float
    streams: int = 0
    streams_elsewhere: int = 0  # when last heard
    is_given_back: bool = False  # or is about to be


class QuotaStore:
    """The database's side: what is left of each key's requests, and who speaks how many of its streams."""

    def __init__(self, postgres: Postgres, requests_per_minute: int) -> None:
        self._database = postgres.database("quotas")
        self._replica = postgres.replica
        self._limit = requests_per_minute

    def lease(self, owner: str, owed: float, wanted: float) -> float:
        """Take what is owed, in any case, and of what is wanted as much as there is, which is returned."""
        values = {"owner": owner, "limit": self._limit, "rate": self._limit / 60, "owed": owed}
        with self._database.writing():
            self._database.execute(
                """INSERT INTO quotas VALUES (:owner, :limit, clock_timestamp())
                ON CONFLICT (owner) DO NOTHING""",
                values,
            )
            (level,) = self._database.execute(
                """UPDATE quotas SET updated_at = clock_timestamp(), level = least(:limit, least(:limit,
                level + :rate * extract(epoch FROM clock_timestamp() - updated_at)) - :owed)
                WHERE owner = :owner RETURNING level""",
                values,
            ).fetchone()
            granted = max(0.0, min(wanted, float(level)))
            self._database.execute("UPDATE quotas SET level = level - ? WHERE owner = ?", (granted, owner))
        return granted

    def exchange_streams(self, own: Mapping[str, int]) -> dict[str, int]:
        """Say how many streams this server speaks of each key; return how many others do."""
        with self._database.writing():
            for owner, count in sorted(own.items()):
                self._database.execute(
                    """INSERT INTO streams VALUES (?, ?, ?)
                    ON CONFLICT (owner, replica) DO UPDATE SET num = excluded.num""",
                    (owner, self._replica, count),
                )
            found = self._database.execute(
                "SELECT owner, sum(num) FROM streams WHERE replica <> ? GROUP BY owner", (self._replica,)
            ).fetchall()
        return {owner: int(count) for owner, count in found}


class SharedQuotas(Quotas):
    """Decides from memory: no request waits for the database. Used within one event loop.

    Each server begins a key with its share, the limit by the number of servers, and fetches more as it is
    used up. What all began with counts, so that the limit holds over minutes; within one a key that begins
    everywhere at once may have its shares of the other servers beside it. Of streams
    it knows what the others had open a second ago at most: so long may a key have more.
    Without the database each server keeps to its share.
    """

    def __init__(self, limits: Limits, clock: Callable[[], float], postgres: Postgres) -> None:
        super().__init__(limits, clock)
        self._postgres = postgres
        self._store = QuotaStore(postgres, limits.requests_per_minute)
        self._slices: dict[str, Slice] = {}
        self._is_short = asyncio.Event()
        self._is_connected = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Lease while it lives, and give back at the end."""
        workers = Supervisor()
        workers.start("quotas", self._lease)
        try:
            yield
        finally:
            await workers.stop()
            for part in self._slices.values():
                part.used_at_s, part.streams = -math.inf, 0
            await self._exchange()

    def charge(self, owner: str) -> None:
        limit = self._limits.requests_per_minute
        if not limit:
            return
        part = self._slice(owner)
        if not self._is_connected:
            self._refill(part)
        if part.balance < 1:
            self._is_short.set()
            retry_after_s = max(1, math.ceil(60 / limit))
            raise RateLimited(
                f"more than {limit} requests within a minute; retry in {retry_after_s} s", retry_after_s
            )
        part.balance -= 1
        if part.balance < self._share / 2:
            self._is_short.set()

    @contextmanager
    def admitted(self, owner: str) -> Iterator[None]:
        limit = self._limits.streams_per_key
        part = self._slice(owner)
        if limit:
            is_full = (
                part.streams + part.streams_elsewhere >= limit
                if self._is_connected
                else part.streams >= max(1, limit // self._postgres.num_replicas)
            )
            if is_full:
                raise RateLimited(
                    f"{limit} streams of this API key are open already; wait for one to end", retry_after_s=1
                )
        self.charge(owner)
        part.streams += 1
        try:
            yield
        finally:
            part.streams -= 1

    @property
    def _share(self) -> float:
        return max(1.0, self._limits.requests_per_minute / self._postgres.num_replicas)

    def _slice(self, owner: str) -> Slice:
        now = self._clock()
        if owner not in self._slices:
            self._slices[owner] = Slice(self._share, self._share, now, now)
            self._is_short.set()
        part = self._slices[owner]
        part.used_at_s = now
        if part.is_given_back:  # the key begins again
            part.is_given_back = False
            part.balance, part.owed = self._share, part.owed + self._share
            self._is_short.set()
        return part

    def _refill(self, part: Slice) -> None:
        now = self._clock()
        rate = self._limits.requests_per_minute / 60 / self._postgres.num_replicas
        part.balance = min(self._share, part.balance + rate * (now - part.refilled_at_s))
        part.refilled_at_s = now

    async def _lease(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(EXCHANGE_S):
                    await self._is_short.wait()
            self._is_short.clear()
            if self._slices:
                await self._exchange()
            await asyncio.sleep(MIN_PAUSE_S)

    async def _exchange(self) -> None:
        try:
            if self._limits.requests_per_minute:
                for owner, part in list(self._slices.items()):
                    await self._exchange_requests(owner, part)
            if self._limits.streams_per_key:
                own = {owner: part.streams for owner, part in self._slices.items()}
                elsewhere = await asyncio.to_thread(self._store.exchange_streams, own)
                for owner, part in self._slices.items():
                    part.streams_elsewhere = elsewhere.get(owner, 0)
        except (DatabaseError, StoreFull, StoreUnavailable) as error:
            if self._is_connected:
                logger.warning("quotas are this server's share while the database cannot be used: %s", error)
                for part in self._slices.values():
                    part.refilled_at_s = self._clock()
            self._is_connected = False
            return
        self._is_connected = True
        self._forget_idle()

    async def _exchange_requests(self, owner: str, part: Slice) -> None:
        is_idle = self._clock() - part.used_at_s > IDLE_S and not part.streams
        if is_idle:
            part.owed, part.balance, part.is_given_back = part.owed - part.balance, 0.0, True
        wanted = 0.0 if is_idle else max(0.0, self._share - part.balance)
        if not part.owed and wanted < self._share / 2:
            return
        owed, part.owed = part.owed, 0.0
        try:
            granted = await asyncio.to_thread(self._store.lease, owner, owed, wanted)
        except BaseException:
            part.owed += owed
            raise
        part.balance += granted  # to what is left now: requests came meanwhile

    def _forget_idle(self) -> None:
        now = self._clock()
        idle = [
            owner
            for owner, part in self._slices.items()
            if now - part.used_at_s > IDLE_S and not part.streams and not part.owed
        ]
        for owner in idle:
            del self._slices[owner]
