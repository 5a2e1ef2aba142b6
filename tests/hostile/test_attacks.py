"""Each attack for two seconds: the server's loop stays free and its memory bounded."""

import pytest

from tests.hostile.__main__ import attack
from tests.hostile.attacks import ATTACKS


@pytest.mark.hostile
@pytest.mark.parametrize("name", ATTACKS)
def test_one_attacker_does_not_keep_others_waiting(name: str) -> None:
    outcome = attack(name, seconds=2)
    assert outcome.faults == []
