"""Estimates quantiles, shares and ratios from few values, each with its interval; all draws are seeded."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
_RESAMPLES = 4000


@dataclass(frozen=True, slots=True)
class Quantile:
    """low, high: where the true one lies with 95 %; None where so few values do not bound it on that side.

    value: of `num_values` sorted ones the one at that share, so p95 of ten values is their largest.
    """

    share: float
    value: float
    low: float | None
    high: float | None
    num_values: int

    @property
    def is_resolved(self) -> bool:
        """Whether at least one value lies beyond it; else it is the largest that was seen."""
        return self.num_values * (1 - self.share) >= 1 - 1e-9

    def __str__(self) -> str:
        return f"{self.value:.3g}" if self.is_resolved else f"≥{self.value:.3g}"


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate, and where the true value lies with 95 %."""

    value: float
    low: float
    high: float
    num_values: int

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g}, n={self.num_values})"


def quantile(values: Sequence[float], share: float) -> Quantile | None:
    """Return a quantile by order statistics, of any distribution. None: no values."""
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    below = _binomial_cdf(count, share)  # below[k]: at most k values are under the true quantile
    tail = (1 - CONFIDENCE) / 2
    low = max((k for k in range(count) if (below[k - 1] if k else 0.0) <= tail), default=0)
    high = min((k for k in range(count) if below[k] >= 1 - tail), default=None)
    return Quantile(
        share,
        ordered[min(count - 1, max(0, math.ceil(share * count) - 1))],
        ordered[low - 1] if low else None,
        None if high is None else ordered[high],
        count,
    )


def share_interval(num_hits: int, num_all: int) -> Interval:
    """Return Wilson's interval of a share. num_all: at least 1."""
    z = 1.96
    share, weight = num_hits / num_all, z * z / num_all
    middle = (share + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(share * (1 - share) / num_all + weight / (4 * num_all))
    return Interval(share, max(0.0, middle - half), min(1.0, middle + half), num_all)


def ratio_of_pairs(pairs: Sequence[tuple[float, float]], seed: int = 0) -> Interval:
    """Return the median of b / a over pairs (a, b), with its bootstrap interval. At least one pair."""
    ratios = np.array([b / a for a, b in pairs])
    drawn = _resampled(ratios, seed)
    return _interval(float(np.median(ratios)), np.median(drawn, axis=1), len(pairs))


def ratio_of_medians(early: Sequence[float], late: Sequence[float], seed: int = 0) -> Interval:
    """Return the median of `late` over that of `early`, which are no pairs. At least one value of each."""
    a, b = np.array(early), np.array(late)
    drawn = np.median(_resampled(b, seed), axis=1) / np.median(_resampled(a, seed + 1), axis=1)
    return _interval(float(np.median(b) / np.median(a)), drawn, min(len(a), len(b)))


def _resampled(values: np.ndarray, seed: int) -> np.ndarray:
    """Return rows (R, N), each drawn from the values (N,) with replacement."""
    generator = np.random.default_rng(seed)
    return values[generator.integers(0, len(values), (_RESAMPLES, len(values)))]


def _interval(value: float, drawn: np.ndarray, num_values: int) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(value, float(low), float(high), num_values)


def _binomial_cdf(count: int, share: float) -> list[float]:
    """Return P(at most k of `count` are hits) for k from 0 to count. share: of a hit, in (0, 1)."""
    logs = math.lgamma(count + 1)
    total, sums = 0.0, []
    for k in range(count + 1):
        log_choose = logs - math.lgamma(k + 1) - math.lgamma(count - k + 1)
        total += math.exp(log_choose + k * math.log(share) + (count - k) * math.log1p(-share))
        sums.append(min(1.0, total))
    return sums
