"""A registration survives `kill -9` whole or not at all."""

import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from firstword.app.speakers.bundle import unpack
from firstword.app.speakers.store import SpeakerStore
from tests.speakers.enrolling_process import DURATION_S, enroll_forever
from tests.speakers.fakes import FakeNetworks
from tests.speakers.recordings import RATE_HZ, recording, voice

NUM_KILLS = 20

# Processes forked from one that has imported everything: the imports take longer than the registrations.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.speakers.enrolling_process"])


def killed_on_its_way(path: Path, first: int, draw: random.Random) -> list[str]:
    """-> the names that the process had said before it was killed, a few ms behind one of them."""
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=enroll_forever, args=(path, first, sender))
    process.start()
    sender.close()
    said = [receiver.recv() for _ in range(draw.randrange(1, 4))]
    process.join(draw.uniform(0, 0.03))
    process.kill()
    process.join()
    with receiver, suppress(EOFError):
        while True:
            said.append(receiver.recv())
    assert process.exitcode == -signal.SIGKILL
    return said


def assert_whole(store: SpeakerStore) -> list[str]:
    """-> the names, each of a speaker that lacks nothing."""
    expected = FakeNetworks().read_features(np.round(voice(DURATION_S) * 32767) / 32767, RATE_HZ)
    upload, names = recording(DURATION_S), []
    for row in store.rows():
        stored = store.read(row.id)
        assert stored is not None
        assert stored.recording == upload
        assert row.prompt.transcript == f"Number {row.name[1:]}."
        (tokens,) = unpack(stored.features)[0].values()
        assert len(tokens) == row.prompt.num_tokens == len(expected.prompt_tokens)
        names.append(row.name)
    return names


def test_twenty_kills_leave_every_registration_whole_or_absent(tmp_path: Path) -> None:
    path, draw = tmp_path / "speakers.sqlite", random.Random(7)
    names: list[str] = []
    for _ in range(NUM_KILLS):
        said = names + killed_on_its_way(path, len(names), draw)
        with closing(SpeakerStore(path)) as store:
            names = assert_whole(store)
        assert set(said) <= set(names)
        assert len(names) - len(said) <= 1  # one may have been written and not yet said
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


KILLED_BEFORE_COMMIT = """
import os, signal, sys
from dataclasses import replace
from pathlib import Path
from firstword.app.speakers.store import SpeakerStore

store = SpeakerStore(Path(sys.argv[1]))
stored = store.read(store.rows()[0].id)
statements = []

def end_at(statement):
    statements.append(statement)
    if statement == sys.argv[2]:
        print(len(statements), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

store._writer.connection.set_trace_callback(end_at)
store.insert(replace(stored, row=replace(stored.row, name="late")))
"""


@pytest.mark.parametrize(("statement", "place"), [("BEGIN IMMEDIATE", 1), ("COMMIT", 6)])
def test_a_kill_before_the_commit_leaves_nothing(tmp_path: Path, statement: str, place: int) -> None:
    path = tmp_path / "speakers.sqlite"
    killed_on_its_way(path, 0, random.Random(1))
    with closing(SpeakerStore(path)) as store:
        before = store.rows()

    command = [sys.executable, "-c", KILLED_BEFORE_COMMIT, str(path), statement]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGKILL, f"{place}\n")
    assert os.path.exists(f"{path}-wal")
    with closing(SpeakerStore(path)) as store:
        assert store.rows() == before
        assert_whole(store)
