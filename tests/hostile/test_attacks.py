"""Each attack for two seconds: the server's loop stays free and its memory bounded."""

import pytest

from tests.hostile.__main__ import MAX_GAP_S, MAX_GROWN_MB, MAX_LAG_S, Outcome, attack
from tests.hostile.attacks import ATTACKS

SECONDS = 2


@pytest.fixture(scope="module")
def unattacked() -> Outcome:
    """What the machine does to the server by itself, with whatever else runs on it."""
    return attack(None, SECONDS)


@pytest.mark.hostile
@pytest.mark.parametrize("name", ATTACKS)
def test_one_attacker_does_not_keep_others_waiting(name: str, unattacked: Outcome) -> None:
    outcome = attack(name, SECONDS)
    assert outcome.answers
    assert outcome.lag_p99_s <= MAX_LAG_S + 4 * unattacked.lag_p99_s
    assert outcome.gap_s <= MAX_GAP_S + 4 * unattacked.gap_s
    assert outcome.grown_mb <= MAX_GROWN_MB
