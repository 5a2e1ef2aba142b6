"""What many requests come to: good ones, goodput, capacity, listeners without a gap."""

import pytest

from firstword.bench.client import Outcome
from firstword.bench.levels import Goal, Level, capacity_hz, goodput, level_of, listeners_without_a_gap
from firstword.bench.load import Load, LoadKind
from tests.bench.outcomes import outcome

GOAL = Goal(max_ttfa_s=0.5, max_gap_s=0.02)


def level(kind: LoadKind, amount: float, outcomes: list[Outcome]) -> Level:
    return level_of(Load(kind, amount, seconds=10.0), outcomes, GOAL, lag_s=0.0)


@pytest.mark.parametrize(
    ("given", "is_good"),
    [
        (outcome(), True),
        (outcome(ttfa_s=0.51), False),
        (outcome(underrun_s=0.021), False),
        (outcome("refused"), False),
        (outcome("failed"), False),
    ],
)
def test_good_is_served_soon_and_without_a_gap(given: Outcome, is_good: bool) -> None:
    assert GOAL.is_met(given) == is_good


def test_refused_and_failed_ones_count_against_the_good_share() -> None:
    found = level("poisson", 1, [outcome()] * 8 + [outcome("refused"), outcome("failed", why="silent: 2 s")])
    assert found.good is not None
    assert found.good.value == pytest.approx(0.8)
    assert (found.counts.num_served, found.counts.num_refused, found.counts.num_failed) == (8, 1, 1)
    assert found.counts.faults == {"silent: 2 s": 1}


def test_throughput_is_what_was_served_until_the_last_was_heard() -> None:
    found = level("closed", 2, [outcome(asked_s=at_s, total_s=8.0) for at_s in (0.0, 0.0, 8.0, 8.0)])
    assert found.requests_per_s == pytest.approx(4 / 16)
    assert found.realtime == pytest.approx(8 / 16)


def test_level_without_requests_has_no_figures() -> None:
    found = level("poisson", 0.01, [])
    assert found.good is None
    assert found.quantiles.ttfb == ()


def test_goodput_is_the_highest_rate_below_the_first_bad_one() -> None:
    good, bad = [outcome()] * 100, [outcome()] * 98 + [outcome(ttfa_s=2)] * 2
    levels = [level("poisson", rate, mix) for rate, mix in ((4, good), (1, good), (3, bad), (2, good))]
    best = goodput(levels)
    assert best is not None
    assert best.load.amount == 2


def test_no_rate_is_good_where_the_lowest_is_not() -> None:
    assert goodput([level("poisson", 1, [outcome(ttfa_s=2)]), level("poisson", 2, [outcome()])]) is None


def test_closed_loops_tell_the_capacity_and_listeners_how_many_had_no_gap() -> None:
    smooth, stalled = [outcome()] * 4, [outcome()] * 3 + [outcome(underrun_s=0.5)]
    levels = [
        level("closed", 1, [outcome()] * 2),
        level("closed", 2, [outcome()] * 5),
        level("listeners", 1, smooth),
        level("listeners", 2, smooth),
        level("listeners", 3, stalled),
        level("listeners", 4, smooth),
    ]
    assert capacity_hz(levels) == pytest.approx(0.5)
    assert listeners_without_a_gap(levels) == 2


def test_listeners_who_were_refused_were_not_served() -> None:
    assert listeners_without_a_gap([level("listeners", 1, [outcome(), outcome("refused")])]) == 0
