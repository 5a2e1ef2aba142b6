"""What comes while a server talks to the database of the quotas; without one."""

import asyncio
import threading
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from firstword.app.database import DatabaseError
from firstword.app.errors import RateLimited
from firstword.app.http.shared_quotas import IDLE_S, SharedQuotas
from firstword.app.server_options import Limits
from tests.support.clock import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

LIMIT = 10


class SlowStore:
    """Grants nothing, once it may answer."""

    def __init__(self) -> None:
        self.was_asked = threading.Event()
        self.may_answer = threading.Event()
        self.failure: Exception | None = None
        self.owed = 0.0  # that it has taken

    def lease(self, owner: str, owed: float, wanted: float) -> float:
        self.was_asked.set()
        assert self.may_answer.wait(30)
        if self.failure is not None:
            raise self.failure
        self.owed += owed
        return 0.0


def quotas_of(store: SlowStore) -> tuple[SharedQuotas, Clock]:
    postgres: Any = SimpleNamespace(database=lambda name: None, replica="one", num_replicas=1)
    clock = Clock()
    quotas = SharedQuotas(Limits(requests_per_minute=LIMIT), clock, postgres)
    quotas._store = store  # type: ignore[assignment]
    return quotas, clock


async def answered(store: SlowStore, exchange: Awaitable[None]) -> None:
    store.may_answer.set()
    await exchange
    store.may_answer.clear()
    store.was_asked.clear()


async def begun(quotas: SharedQuotas, store: SlowStore) -> Awaitable[None]:
    """An exchange that waits for the database."""
    exchange = asyncio.create_task(quotas._exchange())
    await asyncio.to_thread(store.was_asked.wait, 30)
    return exchange


def spend(quotas: SharedQuotas, count: int) -> None:
    for _ in range(count):
        quotas.charge("anna")


async def test_requests_that_come_during_an_exchange_are_counted() -> None:
    store = SlowStore()
    quotas, _ = quotas_of(store)
    spend(quotas, 6)
    exchange = await begun(quotas, store)
    spend(quotas, LIMIT - 6)
    await answered(store, exchange)
    with pytest.raises(RateLimited):
        spend(quotas, 1)


@pytest.mark.parametrize("failure", [None, DatabaseError("gone")])
async def test_key_that_comes_back_while_its_slice_is_given_back_begins_again(
    failure: Exception | None,
) -> None:
    store = SlowStore()
    quotas, clock = quotas_of(store)
    spend(quotas, 4)
    clock.pass_s(IDLE_S + 1)
    store.failure = failure
    exchange = await begun(quotas, store)
    spend(quotas, 1)
    await answered(store, exchange)
    spend(quotas, LIMIT - 1)
    with pytest.raises(RateLimited):
        spend(quotas, 1)
    store.failure = None
    await answered(store, await begun(quotas, store))
    assert store.owed == 4 + LIMIT, "all that was taken, and nothing twice"
