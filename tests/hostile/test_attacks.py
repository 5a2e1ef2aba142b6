"""Each attack for two seconds: the server's loop stays free and its memory bounded."""

from collections.abc import Iterator

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.harness import Outcome, Victim, victim

SECONDS = 2


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    """One for all attacks: what an attack leaves behind counts for those after it."""
    with victim() as server:
        yield server


@pytest.fixture(scope="module")
def unattacked(server: Victim) -> Outcome:
    return server.attacked(None, SECONDS)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ATTACKS)
def test_one_attacker_does_not_keep_others_waiting(name: str, server: Victim, unattacked: Outcome) -> None:
    assert server.attacked(name, SECONDS).faults(unattacked) == []
