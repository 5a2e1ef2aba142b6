"""Quotas of a key hold over all servers, and each keeps to its share without the database."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from firstword.app import postgresql
from firstword.app.errors import RateLimited, StoreUnavailable
from firstword.app.http.shared_quotas import SharedQuotas
from firstword.app.postgresql import Postgres
from firstword.app.server_options import Limits
from tests.store.conftest import Replicas
from tests.support.clock import Clock

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  another server's change is no event of ours
            await asyncio.sleep(0.01)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql, "BEAT_S", 0.05)


async def two_servers(shared: Replicas) -> list[Postgres]:
    opened = [await asyncio.to_thread(shared.open) for _ in range(2)]
    found = [replica.postgres for replica in opened if replica.postgres is not None]
    await until(lambda: all(postgres.num_replicas == 2 for postgres in found))
    return found


def spend(quotas: SharedQuotas, count: int) -> int:
    admitted = 0
    for _ in range(count):
        try:
            quotas.charge("anna")
        except RateLimited:
            continue
        admitted += 1
    return admitted


async def test_requests_of_a_key_are_limited_over_all_servers(shared: Replicas) -> None:
    one, other = await two_servers(shared)
    limits, clock = Limits(requests_per_minute=60), Clock()
    first, second = SharedQuotas(limits, clock, one), SharedQuotas(limits, clock, other)
    async with first.running(), second.running():
        total = 0
        for _ in range(20):  # most of it at one server
            total += spend(first, 20) + spend(second, 2)
            await asyncio.sleep(0.06)
        # The second's share too, which began before the first had heard of it; and what came meanwhile.
        assert 60 <= total <= 60 + 30 + 4
        with pytest.raises(RateLimited, match="more than 60 requests within a minute"):
            spend_all(first)


def spend_all(quotas: SharedQuotas) -> None:
    for _ in range(100):
        quotas.charge("anna")


async def test_what_a_server_did_not_use_is_given_back_at_its_end(shared: Replicas) -> None:
    one, other = await two_servers(shared)
    limits, clock = Limits(requests_per_minute=60), Clock()
    async with SharedQuotas(limits, clock, one).running():
        pass
    first = SharedQuotas(limits, clock, one)
    async with first.running():
        assert spend(first, 10) == 10
    second = SharedQuotas(limits, clock, other)
    async with second.running():
        total = 0
        for _ in range(10):
            total += spend(second, 60)
            await asyncio.sleep(0.06)
    assert 50 <= total <= 53


async def test_streams_of_a_key_are_limited_over_all_servers(shared: Replicas) -> None:
    one, other = await two_servers(shared)
    limits, clock = Limits(streams_per_key=2), Clock()
    first, second = SharedQuotas(limits, clock, one), SharedQuotas(limits, clock, other)
    async with first.running(), second.running():
        with first.admitted("anna"):
            with second.admitted("anna"):
                await until(lambda: first._slices["anna"].streams_elsewhere == 1)
                with pytest.raises(RateLimited, match="2 streams of this API key"), first.admitted("anna"):
                    pass
            await until(lambda: first._slices["anna"].streams_elsewhere == 0)
            with first.admitted("anna"):
                pass


async def test_without_the_database_each_server_keeps_to_its_share(
    shared: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = await two_servers(shared)
    limits, clock = replace(Limits(), requests_per_minute=60, streams_per_key=2), Clock()
    quotas = SharedQuotas(limits, clock, one)

    def fail(*given: object) -> float:
        raise StoreUnavailable("gone", 1)

    monkeypatch.setattr(quotas._store, "lease", fail)
    async with quotas.running():
        assert spend(quotas, 100) == 30
        await until(lambda: not quotas._is_connected)
        assert spend(quotas, 10) == 0
        clock.pass_s(4.0)
        assert spend(quotas, 10) == 2
        clock.pass_s(4.0)
        with quotas.admitted("anna"), pytest.raises(RateLimited), quotas.admitted("anna"):
            pass
