"""Each attack for two seconds: the server's loop stays free and its memory bounded."""

from collections.abc import Iterator

import pytest

from tests.hostile.attacks import ATTACKS
from tests.hostile.harness import MAX_GAP_S, MAX_GROWN_MB, MAX_LAG_S, Outcome, Victim, victim

SECONDS = 2


@pytest.fixture(scope="module")
def server() -> Iterator[Victim]:
    """One for all attacks: what an attack leaves behind counts for those after it."""
    with victim() as server:
        yield server


@pytest.fixture(scope="module")
def unattacked(server: Victim) -> Outcome:
    """What the machine does to the server by itself, with whatever else runs on it."""
    return server.attacked(None, SECONDS)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ATTACKS)
def test_one_attacker_does_not_keep_others_waiting(name: str, server: Victim, unattacked: Outcome) -> None:
    outcome = server.attacked(name, SECONDS)
    assert outcome.answers
    assert not outcome.lost_calls
    assert outcome.lag_p99_s <= MAX_LAG_S + 4 * unattacked.lag_p99_s
    assert outcome.gap_s <= MAX_GAP_S + 4 * unattacked.gap_s
    assert outcome.grown_mb <= MAX_GROWN_MB
