"""Figures of few values say how few they are."""

import random

import pytest

from firstword.bench.estimates import quantile, ratio_of_medians, ratio_of_pairs, share_interval


def test_quantile_is_the_value_at_its_share() -> None:
    values = [float(value) for value in range(1, 101)]
    found = quantile(values, 0.95)
    assert found is not None
    assert found.value == 95
    assert found.is_resolved
    assert found.low is not None
    assert found.high is not None
    assert found.low < 95 < found.high


def test_quantile_of_few_values_is_only_a_bound() -> None:
    found = quantile([3.0, 1.0, 2.0], 0.95)
    assert found is not None
    assert found.value == 3
    assert not found.is_resolved
    assert found.high is None
    assert str(found) == "≥3"


def test_quantile_of_nothing_is_none() -> None:
    assert quantile([], 0.5) is None


def test_interval_of_a_median_holds_the_true_one_about_as_often_as_it_says() -> None:
    generator, hits = random.Random(1), 0
    for _ in range(300):
        found = quantile([generator.expovariate(1) for _ in range(25)], 0.5)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.6931 <= found.high
    assert hits / 300 >= 0.93


def test_bootstrap_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    generator, hits = random.Random(2), 0
    for seed in range(100):
        pairs = [(1.0, 1.5 * generator.lognormvariate(0, 0.2)) for _ in range(30)]
        found = ratio_of_pairs(pairs, seed)
        hits += found.low <= 1.5 <= found.high
    assert hits >= 88


def test_ratio_of_pairs_does_not_see_what_hits_both() -> None:
    noise = [1.0, 5.0, 1.2, 9.0, 0.7]
    found = ratio_of_pairs([(level, 2 * level) for level in noise])
    assert found.value == pytest.approx(2)
    assert found.low == pytest.approx(2)
    assert found.high == pytest.approx(2)


def test_same_seed_gives_the_same_interval() -> None:
    early, late = [1.0, 1.1, 0.9, 1.3], [1.2, 1.0, 1.4]
    assert ratio_of_medians(early, late, seed=3) == ratio_of_medians(early, late, seed=3)
    assert ratio_of_medians(early, late).value == pytest.approx(1.2 / 1.05)


def test_share_of_none_of_few_is_not_surely_none() -> None:
    found = share_interval(0, 10)
    assert found.value == 0
    assert found.low == 0
    assert 0.2 < found.high < 0.35
