"""Kills amid writes lose nothing and leave nothing half; `python -m tests.hostile kills` kills more often."""

import random
from pathlib import Path

import pytest

from tests.hostile.kills import kill


@pytest.mark.hostile
def test_what_was_acknowledged_outlives_kills(tmp_path: Path) -> None:
    done = kill(tmp_path, 5, random.Random(7))
    assert done.faults == ()
    assert done.acknowledged >= done.kills == 5
