"""The way to engines over Ray's handles and router, whose parts stand in for themselves here."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")

from firstword.app.hosts.ray.order import session_of
from firstword.app.hosts.ray.router import SpeakerRouter

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]  # of Ray's own

ROUTER: Any = None  # whose state choosing does not read


async def test_the_router_gives_the_replicas_in_the_order_of_the_session() -> None:
    candidates = [SimpleNamespace(replica_id=SimpleNamespace(unique_id=name)) for name in "abc"]

    async def chosen(session: str) -> list[Any]:
        pending = SimpleNamespace(metadata=SimpleNamespace(session_id=session))
        return [only for (only,) in await SpeakerRouter.choose_replicas(ROUTER, candidates, pending)]

    own = await chosen(session_of("anna", 0, ()))
    assert await chosen(session_of("anna", 1, ())) == [*own[1:], own[0]]
    silent = own[1].replica_id.unique_id
    assert await chosen(session_of("anna", 1, [silent])) == [own[2], own[0], own[1]]
    without = await SpeakerRouter.choose_replicas(ROUTER, candidates)
    assert sorted(only.replica_id.unique_id for (only,) in without) == ["a", "b", "c"]
