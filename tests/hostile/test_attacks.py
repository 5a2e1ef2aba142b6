"""Each attack for two seconds: the server's loop stays free and its memory bounded."""

from collections.abc import Iterator

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.harness import Outcome, Victim, victim

SECONDS = 2
LARGE = ("held_bodies", "held_at_all_doors")


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    """One for all attacks: what an attack leaves behind counts for those after it."""
    with victim() as server:
        yield server


@pytest.fixture(scope="module")
def unattacked(server: Victim) -> Outcome:
    return server.attacked(None, SECONDS)


@pytest.mark.hostile
@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in LARGE])
def test_one_attacker_does_not_keep_others_waiting(name: str, server: Victim, unattacked: Outcome) -> None:
    assert server.attacked(name, SECONDS).faults(unattacked) == []


@pytest.mark.hostile
@pytest.mark.parametrize("name", LARGE)
def test_bodies_that_are_held_take_little_memory(name: str, server: Victim, unattacked: Outcome) -> None:
    """How long others wait for the megabytes to be read goes by the cores that are free."""
    faults = server.attacked(name, SECONDS).faults(unattacked)
    assert [fault for fault in faults if fault.startswith("memory") or "not answered" in fault] == []
