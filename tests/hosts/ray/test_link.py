"""The way to engines over Ray's handles and router, whose parts stand in for themselves here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs Ray Serve: pip install 'firstword[ray]'")

from ray.exceptions import ActorUnavailableError, RayTaskError
from ray.serve.exceptions import RayServeException

from firstword.app.hosts.ray.link import RayLink
from firstword.app.hosts.ray.messages import EngineGone
from firstword.app.hosts.ray.order import session_of
from firstword.app.hosts.ray.router import SpeakerRouter
from tests.hosts.ray.local_link import linked
from tests.support.fake_engine import FakeEngine

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


class Handle:
    """Of engines that answer after so many seconds each, which Ray names after some."""

    def __init__(self, told: Sequence[Any]) -> None:
        self.told = told
        self.named_after_s = 0.0
        self.after_s = [0.0 for _ in told]
        self.sessions: list[str] = []
        self.failure: Exception | None = None  # of a call
        self.ending: set[int] = set()  # which Ray takes away, and does not ask any more
        self.on_named: Callable[[], None] = lambda: None
        self.by_reference = False

    def broadcast(self, method: str) -> Any:
        async def results() -> list[Any]:
            await asyncio.sleep(self.named_after_s)
            self.on_named()
            return [Answer(self, number) for number in range(len(self.told)) if number not in self.ending]

        return SimpleNamespace(_fetch_replica_results_async=results)

    async def answer(self, number: int) -> Any:
        await asyncio.sleep(self.after_s[number])
        if isinstance(self.told[number], Exception):
            raise self.told[number]
        return self.told[number]

    def options(self, stream: bool = False, session_id: str = "", _by_reference: bool = False) -> Any:
        self.by_reference = _by_reference
        if not stream:
            return self
        self.sessions.append(session_id)
        return SimpleNamespace(ask=SimpleNamespace(remote=lambda *given: Items(self.failure)))


class Answer:
    """What one engine answers, as a call of its actor."""

    def __init__(self, handle: Handle, number: int) -> None:
        self._handle, self._number = handle, number

    async def get_async(self) -> Any:
        return await self._handle.answer(self._number)

    def to_object_ref(self) -> Any:
        if not self._handle.by_reference:
            raise RuntimeError("Converting result to object ref is not supported by value")
        actor = SimpleNamespace(hex=lambda: f"actor {self._number}")
        return SimpleNamespace(task_id=lambda: SimpleNamespace(actor_id=lambda: actor))


class Items:
    """None, of a call, or its failure."""

    def __init__(self, failure: Exception | None) -> None:
        self._failure = failure

    async def __aiter__(self) -> AsyncIterator[list[Any]]:
        if self._failure is not None:
            raise self._failure
        for _ in ():
            yield []

    def cancel(self) -> None:
        """There is nothing to cancel."""


async def test_engines_that_answer_are_found_within_one_deadline_and_requests_name_the_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.link.DESCRIBES_WITHIN_S", 0.5)
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.01)
    async with linked(FakeEngine(), FakeEngine()) as local:
        handle = Handle(await local.describe())
    link = RayLink(handle)
    one, other = handle.told
    assert await link.describe() == [one, other]
    assert [news async for news in link.stream("anna", 0, "ask")] == []
    assert link.silent == ()
    handle.after_s = [0, 60]
    assert await link.describe() == [one]
    assert link.silent == (other.replica,)
    assert [news async for news in link.stream("anna", 0, "ask")] == []
    assert handle.by_reference
    assert handle.sessions == ["0||anna", f"0|{other.replica}|anna"]
    handle.named_after_s = 60
    with pytest.raises(EngineGone):
        await link.describe()


async def test_what_ray_takes_to_name_the_engines_is_taken_from_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.link.DESCRIBES_WITHIN_S", 30.0)
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.01)
    loop = asyncio.get_running_loop()
    leapt_s, time_s = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: time_s() + leapt_s)

    def leap() -> None:
        nonlocal leapt_s
        leapt_s = 60.0

    async with linked(FakeEngine(), FakeEngine()) as local:
        handle = Handle(await local.describe())
    handle.on_named, handle.after_s = leap, [0, 60]
    began_s = time_s()
    assert await RayLink(handle).describe() == handle.told[:1]
    assert time_s() - began_s < 20  # not 30 more


async def test_an_engine_that_ray_cannot_ask_is_silent_and_not_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.link.DESCRIBES_WITHIN_S", 0.1)
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.01)
    async with linked(FakeEngine(), FakeEngine()) as local:
        handle = Handle(await local.describe())
    link = RayLink(handle)
    one, other = await link.describe()
    handle.told = [one, ActorUnavailableError("connection refused", b"x" * 16)]
    assert await link.describe() == [one]
    assert (link.silent, link.late) == ((other.replica,), ())
    handle.after_s = [0, 60]
    assert await link.describe() == [one]
    assert (link.silent, link.late) == ((other.replica,), (other.replica,))


async def test_an_engine_that_ends_beside_one_that_is_silent_is_not_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("firstword.app.hosts.ray.link.DESCRIBES_WITHIN_S", 0.1)
    monkeypatch.setattr("firstword.app.hosts.ray.deadline.TICK_S", 0.01)
    async with linked(FakeEngine(), FakeEngine(), FakeEngine()) as local:
        handle = Handle(await local.describe())
    link = RayLink(handle)
    one, silent, _ = await link.describe()
    handle.after_s, handle.ending = [0, 60, 60], {2}
    assert await link.describe() == [one]
    assert link.silent == (silent.replica,)


async def test_an_engine_that_fails_without_words_is_gone() -> None:
    handle = Handle([])
    handle.failure = RayTaskError("ask", "ray::ServeReplica: ask()", MemoryError()).as_instanceof_cause()
    with pytest.raises(EngineGone, match="MemoryError"):
        await anext(RayLink(handle).stream("anna", 0, "ask"))


async def test_an_engine_of_another_release_is_gone_with_words() -> None:
    handle = Handle([])
    said = RayServeException("Tried to call a method 'ask' that does not exist. Available methods: [].")
    handle.failure = RayTaskError("ask", "ray::ServeReplica: ask()", said).as_instanceof_cause()
    with pytest.raises(EngineGone, match=r"a method 'ask' that does not exist.*of one release"):
        await anext(RayLink(handle).stream("anna", 0, "ask"))
