"""The comparison of two precisions by the words that are lost."""

from training.precisions import difference


def test_the_difference_of_two_rates_has_an_interval_around_it() -> None:
    same = [[10, 1, 1], [8, 0, 0], [12, 3, 3]] * 40
    assert difference(same) == (0.0, 0.0, 0.0)
    worse = [[10, 1, 2], [10, 0, 0]] * 100  # one word more of twenty
    change, low, high = difference(worse)
    assert change == 0.05
    assert 0.03 < low < 0.05 < high < 0.07
