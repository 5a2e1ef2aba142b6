"""Kill a process while three threads write into its stores, again and again, and look for what is lost.

Each thread goes through writes whose results are known beforehand, and says how many have returned. After the
kill the stores hold what came of these, or of one more, and nothing in between.
"""

import multiprocessing
import random
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path

from firstword.app.clients import Client
from firstword.app.speakers.interface import SpeakerChange
from firstword.app.surfaces.batches.store import NewItem
from tests.store.conftest import Replica
from tests.store.values import speaker

ADMIN = Client("admin", frozenset({"admin"}))
RECORDING = bytes(range(256)) * 100  # many pages, so that there is a middle to be killed in
NUM_ITEMS = 5
MAX_WRITES = 40  # that are waited for before a kill

# Forked from a process that has imported everything.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.hostile.kills"])

State = Mapping[str, object]
"""What a kind of thing is, by name: as far as writes change it."""


@dataclass(frozen=True, slots=True)
class Writer:
    """One thread's writes, in rounds of four: make, change, change again, and delete every other one."""

    kind: str
    steps: Callable[[Replica, str], Callable[[int], None]]
    read: Callable[[Replica], State]
    changed: tuple[object, object, object]  # what one thing is after each of the first three

    def expected(self, owner: str, num_steps: int) -> State:
        found: dict[str, object] = {}
        for step in range(num_steps):
            name = f"{owner}-{step // 4}"
            if step % 4 < 3:
                found[name] = self.changed[step % 4]
            elif step // 4 % 2:
                del found[name]
        return found


def _speaker_steps(replica: Replica, owner: str) -> Callable[[int], None]:
    store = replica.speakers()

    def step(number: int) -> None:
        name = f"{owner}-{number // 4}"
        if number % 4 == 0:
            store.insert(speaker(name, RECORDING))
        elif number % 4 == 1:
            store.update(name, SpeakerChange("Changed."))
        elif number % 4 == 2:
            store.update(name, SpeakerChange(lexicon={"Nguyen": "win"}))
        elif number // 4 % 2:
            store.delete(name)

    return step


def _speakers(replica: Replica) -> State:
    store, found = replica.speakers(), {}
    for row in store.rows():
        stored = store.read(row.id)
        assert stored is not None
        assert stored.recording == RECORDING
        found[row.name] = row.prompt.transcript, dict(row.lexicon)
    return found


def _consent_steps(replica: Replica, owner: str) -> Callable[[int], None]:
    store, ids = replica.consents(), {}

    def step(number: int) -> None:
        name = f"{owner}-{number // 4}"
        if number % 4 == 0:
            ids[name] = store.add(name, "en", RECORDING, Client(name)).id
        elif number % 4 < 3:
            store.rename(ids[name], f"{name} {number % 4}", ADMIN)
        elif number // 4 % 2:
            store.delete(ids[name], ADMIN)

    return step


def _consents(replica: Replica) -> State:
    found, _ = replica.consents().list(None, 1_000_000, ADMIN)
    return {one.owner: one.name.removeprefix(one.owner) for one in found}


def _batch_steps(replica: Replica, owner: str) -> Callable[[int], None]:
    store, ids = replica.batches(1 << 30), {}

    def step(number: int) -> None:
        name = f"{owner}-{number // 4}"
        if number % 4 == 0:
            items = [NewItem(f"{name} {item}", "wav", "{}") for item in range(NUM_ITEMS)]
            ids[name] = store.add(name, items).id
        elif number % 4 < 3:
            store.cancel(ids[name])
        elif number // 4 % 2:
            store.delete(ids[name])

    return step


def _batches(replica: Replica) -> State:
    found = {}
    for batch in replica.batches(1 << 30).owned_by(None, 1_000_000):
        assert batch.num_items == NUM_ITEMS
        found[batch.owner] = batch.progress, batch.num_queued
    return found


WRITERS = (
    Writer(
        "speakers",
        _speaker_steps,
        _speakers,
        (
            (speaker().row.prompt.transcript, {}),
            ("Changed.", {}),
            ("Changed.", {"Nguyen": "win"}),
        ),
    ),
    Writer("consents", _consent_steps, _consents, ("", " 1", " 2")),
    Writer("batches", _batch_steps, _batches, (("queued", NUM_ITEMS), ("cancelled", 0), ("cancelled", 0))),
)


def write_forever(directory: Path, owner: str, said: "Connection[str, str]") -> None:
    """said: gets the kind of each write that has returned, and what a write raised."""
    replica = Replica(directory, None)
    saying = threading.Lock()

    def run(writer: Writer, step: Callable[[int], None]) -> None:
        number = 0
        while True:
            try:
                step(number)
            except Exception as error:
                with saying:
                    said.send(f"{writer.kind}, write {number}: {error!r}")
                return
            with saying:
                said.send(writer.kind)
            number += 1

    steps = [writer.steps(replica, owner) for writer in WRITERS]
    threads = [threading.Thread(target=run, args=given) for given in zip(WRITERS, steps, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def killed_after(directory: Path, owner: str, num_writes: int, seconds: float) -> dict[str, int]:
    """Kill a process so long after that many of its writes; return how many of each kind had returned.

    Raises AssertionError where a write failed.
    """
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=write_forever, args=(directory, owner, sender))
    process.start()
    sender.close()
    counts = dict.fromkeys([writer.kind for writer in WRITERS], 0)
    killing = threading.Timer(seconds, process.kill)
    failures: list[str] = []
    with receiver, suppress(EOFError):
        while True:
            kind = receiver.recv()
            if kind not in counts:
                failures.append(kind)
                break
            counts[kind] += 1
            if sum(counts.values()) == num_writes:
                killing.start()
    killing.cancel()
    process.kill()
    process.join()
    assert not failures, failures
    assert sum(counts.values()) >= num_writes, f"the process ended by itself after {counts}"
    return counts


@dataclass
class Kills:
    """What so many kills did so far."""

    kills: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0  # writes that had not returned and are there, which they may be
    faults: tuple[str, ...] = ()


def kill(directory: Path, num_kills: int, draw: random.Random) -> Kills:
    """Kill so many processes, one after the other, over the same stores."""
    done = Kills()
    before: dict[str, dict[str, object]] = {writer.kind: {} for writer in WRITERS}
    for number in range(num_kills):
        owner = f"k{number}"
        counts = killed_after(directory, owner, 1 + draw.randrange(MAX_WRITES), draw.uniform(0, 0.01))
        replica = Replica(directory, None)
        for writer in WRITERS:
            found, count = dict(writer.read(replica)), counts[writer.kind]
            acknowledged, one_more = (
                before[writer.kind] | dict(writer.expected(owner, steps)) for steps in (count, count + 1)
            )
            if found not in (acknowledged, one_more):
                lost = {name for name, value in acknowledged.items() if found.get(name) != value}
                done.faults += (f"kill {number}, {writer.kind}: {sorted(lost)[:4]} of {count} writes",)
            done.unacknowledged += found != acknowledged
            before[writer.kind] = found
        replica.close()
        done = replace(done, kills=number + 1, acknowledged=done.acknowledged + sum(counts.values()))
    return done
