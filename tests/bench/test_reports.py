"""What long runs come to: targets, and what a soak leaves behind."""

import pytest

from firstword.bench.server import Footing
from firstword.bench.soak import Reading, Soak
from firstword.bench.targets import TARGETS, Target, Verdict, as_json, table_of

FOOTING = {"threads": 10, "file_handles": 20, "tasks": 2, "requests": 0, "sockets": 0, "contexts": 0}


@pytest.mark.parametrize(
    ("reached", "verdict"), [(50, "aim"), (60, "aim"), (61, "must"), (150, "must"), (151, "missed")]
)
def test_less_is_better(reached: float, verdict: Verdict) -> None:
    assert Target("t", "first byte", 150, 60, "ms").verdict(reached) == verdict


@pytest.mark.parametrize(
    ("reached", "verdict"), [(12, "aim"), (4, "must"), (3, "missed"), (None, "not measured")]
)
def test_more_is_better(reached: float | None, verdict: Verdict) -> None:
    assert Target("t", "listeners", 4, 12, more_is_better=True).verdict(reached) == verdict


def test_every_target_stands_in_the_table_measured_or_not() -> None:
    reached = {"ttfb_ms": (100.0, "n=9")}
    assert table_of(reached).row_count == len(TARGETS) == 5
    rows = {row["key"]: row for row in as_json(reached)}
    assert rows["ttfb_ms"]["verdict"] == "must"
    assert rows["rtf"]["verdict"] == "not measured"


def soak(*memory_mb: float, **last: int) -> Soak:
    readings = [Reading(index, Footing(memory, **FOOTING)) for index, memory in enumerate(memory_mb)]
    readings[-1] = Reading(len(memory_mb), Footing(memory_mb[-1], **FOOTING | last))
    return Soak(tuple(readings), {"heard": 3}, {}, 1.0)


def test_memory_is_told_from_the_first_tenth_on() -> None:
    assert soak(500.0, 800.0, 820.0, 840.0).memory_ratio == pytest.approx(1.05)


def test_what_is_left_behind_is_named() -> None:
    assert soak(500, 800, 800).leaks == []
    assert soak(500, 800, 800, threads=14, file_handles=24).leaks == []
    assert soak(500, 800, 800, file_handles=25, tasks=3, requests=1).leaks == [
        "file_handles: 20, then 25",
        "tasks: 2, then 3",
        "requests: 0, then 1",
    ]
