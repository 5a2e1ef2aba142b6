"""Kill engines of Ray under four contexts of one socket, again and again, and look for what that leaves.

    python -m tests.cluster.deaths [--count 200]

The engines stand in for ours: a first piece after 20 ms. The next one is killed once the engine that Ray
starts in the dead one's place answers.
"""

import argparse
import asyncio
import gc
import json
import logging
import os
import signal
import statistics
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from ray.serve.handle import DeploymentResponseGenerator
from websockets.asyncio.client import ClientConnection, connect

from firstword.app.hosts.ray.link import RayLink
from firstword.app.hosts.ray.serving import cluster, opening_of
from firstword.app.postgresql import Postgres, migrate
from firstword.app.service import running
from firstword.app.settings import Settings
from tests.cluster.standin import SPEAKERS, standin
from tests.hosts.ray.test_remote import num_files
from tests.support.fake_speakers import ANNA, FakeSpeakers
from tests.support.postgres import postgres_server
from tests.support.serving import serving
from tests.support.toy_engine import asked

WORDS = "x" * 60  # six seconds
ENGINES: dict[str, Any] = {"engines": 2, "cpus": 0.1}


@dataclass(frozen=True, slots=True)
class Front:
    url: str
    engine: Any


@asynccontextmanager
async def front(handle: Any, store: str) -> AsyncIterator[Front]:
    """A server in front of the engines, in this process, with the speakers of the stand-in."""
    settings = Settings(speakers={"store": store})
    postgres = await asyncio.to_thread(Postgres, store)
    try:
        async with running(settings, None, postgres, opening_of(handle, settings)) as service:
            known = FakeSpeakers({name: replace(ANNA, name=name) for name in SPEAKERS})
            service.engine._speakers = known
            async with serving(replace(service, speakers=known)) as url:
                yield Front(url, service.engine)
    finally:
        await asyncio.to_thread(postgres.close)


async def owners(handle: Any) -> dict[int, list[str]]:
    """The process of each engine, and the speakers it has: three of each engine."""
    found: dict[int, list[str]] = {}
    link = RayLink(handle)
    for number in range(32):
        name = f"voice-{number}"
        async with aclosing(link.stream(name, 0, "speak", asked("x", speaker=name), (), True)) as items:
            replica = (await anext(items))[0].replica
        found.setdefault(replica, []).append(name)
    pids = {one.replica: int(one.info.checkpoint.split()[1]) for one in await link.describe()}
    return {pids[replica]: names for replica, names in found.items()}


async def two_engines(handle: Any) -> dict[int, list[str]]:
    """The same twice: an engine may come while they are asked."""
    last: dict[int, list[str]] = {}
    async with asyncio.timeout(120):
        while len(found := await owners(handle)) < 2 or found != last:
            last = found
            await asyncio.sleep(0.2)
    return found


@dataclass(frozen=True, slots=True)
class Death:
    """Seconds from a kill to the errors of its two contexts, and from their speaker's next text to sound."""

    errors_s: tuple[float, ...]
    again_s: float


async def kill_one(handle: Any, socket: ClientConnection) -> Death:
    """Kill one of two engines under four contexts of a socket, two of each engine."""
    (victim, names), (_, others) = (await two_engines(handle)).items()
    speaking = {f"c{n}": name for n, name in enumerate([*names[:2], *others[:2]])}
    for context, name in speaking.items():
        await socket.send(json.dumps({"type": "start", "context": context, "speaker": name}))
        await socket.send(json.dumps({"type": "text", "context": context, "text": WORDS}))
    begun: set[str] = set()
    while len(begun) < 4:
        said = await _said(socket)
        begun |= {said["context"]} if said["type"] == "audio" else set()
    os.kill(victim, signal.SIGKILL)
    killed_s = time.monotonic()
    errors_s: dict[str, float] = {}
    while len(errors_s) < 2:
        said = await _said(socket)
        if said["type"] == "error":
            assert said["error"]["code"] == "restarting", said
            errors_s[said["context"]] = time.monotonic() - killed_s
    assert errors_s.keys() == {"c0", "c1"}
    asked_s = time.monotonic()
    await socket.send(json.dumps({"type": "start", "context": "again", "speaker": names[0]}))
    await socket.send(json.dumps({"type": "text", "context": "again", "text": "xx"}))
    heard: dict[str, float] = {}
    while not {"again", "c2", "c3"} <= heard.keys():
        said = await _said(socket)
        if said["type"] == "audio":
            heard.setdefault(said["context"], time.monotonic() - asked_s)
    for context in ("again", "c2", "c3"):
        await socket.send(json.dumps({"type": "cancel", "context": context}))
    left = {"again", "c2", "c3"}
    while left:
        said = await _said(socket)
        left -= {said["context"]} if said["type"] in {"done", "cancelled"} else set()
    return Death(tuple(errors_s.values()), heard["again"])


async def _said(socket: ClientConnection) -> dict[str, Any]:
    """The next message that is no sound."""
    async with asyncio.timeout(30):
        while not isinstance(message := await socket.recv(), str):
            pass
    said: dict[str, Any] = json.loads(message)
    return said


@dataclass(frozen=True, slots=True)
class Held:
    """What the server in front holds, and the slots that its engines say are taken."""

    streams: int
    slots: int
    tasks: int
    responses: int
    files: int


def is_left(before: Held, after: Held) -> bool:
    """Whether more is held than before; a few files come and go with Ray's own connections."""
    return replace(after, files=0) != replace(before, files=0) or after.files > before.files + 3


async def held(handle: Any, engine: Any) -> Held:
    """What is held once it has not changed for a second."""
    last, since_s = Held(0, 0, 0, 0, 0), time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() - since_s < 1:
            await asyncio.sleep(0.05)
            slots = sum(one.num_streams for one in await RayLink(handle).describe())
            gc.collect()
            responses = sum(type(one) is DeploymentResponseGenerator for one in gc.get_objects())
            now = Held(len(engine._streams), slots, len(asyncio.all_tasks()), responses, num_files())
            if now != last:
                last, since_s = now, time.monotonic()
    return last


async def kill_many(handle: Any, store: str, count: int, warm_up: int = 3) -> tuple[list[Death], Held, Held]:
    """The deaths, and what was held behind the first ones and behind the last."""
    async with (
        front(handle, store) as there,
        connect(there.url.replace("http", "ws") + "/tts/stream", max_size=None) as socket,
    ):
        deaths = [await kill_one(handle, socket) for _ in range(warm_up)]
        await two_engines(handle)
        before = await held(handle, there.engine)
        for number in range(count):
            deaths.append(await kill_one(handle, socket))
            if number % 20 == 19:
                logging.warning("%d deaths: %s", number + 1, await held(handle, there.engine))
        await two_engines(handle)
        return deaths, before, await held(handle, there.engine)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.deaths", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=200, help="of deaths")
    count = parser.parse_args().count
    warnings.simplefilter("ignore")  # of Ray's own
    with postgres_server() as server:
        store = server.new_database()
        migrate(store)
        with cluster(Settings(ray=ENGINES, speakers={"store": store}), standin) as handle:
            deaths, before, after = asyncio.run(kill_many(handle, store, count))
    for what, seconds in (
        ("error of a context", [second for death in deaths for second in death.errors_s]),
        ("first sound of its speaker again", [death.again_s for death in deaths]),
    ):
        print(  # noqa: T201
            f"{what}: median {statistics.median(seconds):.3f} s, at most {max(seconds):.3f} s"
        )
    print(f"held before: {before}\nheld after {count}: {after}")  # noqa: T201
    raise SystemExit(is_left(before, after))


if __name__ == "__main__":
    main()
