"""Summarizes the requests of one load, and finds the highest load that is still good."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeVar

from firstword.bench.client import Outcome
from firstword.bench.estimates import Interval, Quantile, quantile, share_interval
from firstword.bench.hearing import Heard
from firstword.bench.load import Load

Item = TypeVar("Item", Heard, Outcome)
SHARES = (0.5, 0.9, 0.95, 0.99)
GOOD_SHARE = 0.99


@dataclass(frozen=True, slots=True)
class Goal:
    """A request is good if it was served, heard by `max_ttfa_s`, and never stood still for `max_gap_s`."""

    max_ttfa_s: float = 0.5
    max_gap_s: float = 0.02

    def is_met(self, outcome: Outcome) -> bool:
        found = outcome.heard
        if outcome.status != "ok" or found is None or found.ttfa_s is None:
            return False
        return found.ttfa_s <= self.max_ttfa_s and found.underrun_s <= self.max_gap_s


@dataclass(frozen=True, slots=True)
class ServerTimes:
    """Means of the requests of a load, by the server's own account. compute_s: of all stages together."""

    queue_s: float
    compute_s: float
    num_requests: int


def server_times(before: Mapping[str, float], after: Mapping[str, float]) -> ServerTimes | None:
    """Return the means between two counts; None: nothing was counted, or the server does not count."""
    count = round(after.get("count", 0) - before.get("count", 0))
    if count <= 0:
        return None
    queue_s, compute_s = (after.get(name, 0) - before.get(name, 0) for name in ("queue", "compute"))
    return ServerTimes(queue_s / count, compute_s / count, count)


@dataclass(frozen=True, slots=True)
class Counts:
    """How the requests of a load ended; faults: how often, by what the client or the server says."""

    num_asked: int
    num_refused: int
    num_failed: int
    num_stalled: int
    faults: dict[str, int]

    @property
    def num_served(self) -> int:
        return self.num_asked - self.num_refused - self.num_failed


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Quantiles of served requests, in seconds, in the order of SHARES.

    rtf: request to last byte over audio, as the client has it; compute_rtf: the server's own, empty but for
    WebSockets.
    """

    ttfb: tuple[Quantile, ...]
    ttfa: tuple[Quantile, ...]
    second_chunk: tuple[Quantile, ...]
    underrun: tuple[Quantile, ...]
    total: tuple[Quantile, ...]
    rtf: tuple[Quantile, ...]
    compute_rtf: tuple[Quantile, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """The figures of one load, in seconds.

    realtime: seconds of audio served in a second. refused_after_s: the longest wait for a refusal. lag_s: how
    late this process was at worst.
    """

    load: Load
    counts: Counts
    quantiles: Quantiles
    requests_per_s: float  # served
    realtime: float
    worst_underrun_s: float
    good: Interval | None  # share of all that asked; None: nobody did
    refused_after_s: float | None
    lag_s: float
    mean_ttfb_s: float | None  # None: nobody was served
    server: ServerTimes | None = None  # None: it does not tell

    def as_json(self) -> dict[str, Any]:
        """Return one flat object, its load and its server's times aside."""
        flat = asdict(self)
        return flat.pop("counts") | flat.pop("quantiles") | flat


def level_of(load: Load, outcomes: Sequence[Outcome], goal: Goal, lag_s: float) -> Level:
    served = [outcome for outcome in outcomes if outcome.status == "ok" and outcome.heard is not None]
    found = [outcome.heard for outcome in served if outcome.heard is not None]
    refused = [outcome for outcome in outcomes if outcome.status == "refused"]
    span_s = max((o.ended_s for o in outcomes), default=0) - min((o.asked_s for o in outcomes), default=0)
    span_s = max(span_s, load.seconds)
    faults = Counter(outcome.why for outcome in outcomes if outcome.status == "failed")
    num_good = sum(goal.is_met(outcome) for outcome in outcomes)
    return Level(
        load,
        Counts(
            num_asked=len(outcomes),
            num_refused=len(refused),
            num_failed=sum(faults.values()),
            num_stalled=sum(one.underrun_s > goal.max_gap_s for one in found),
            faults=dict(faults),
        ),
        Quantiles(
            ttfb=_quantiles(found, lambda one: one.ttfb_s),
            ttfa=_quantiles(found, lambda one: one.ttfa_s),
            second_chunk=_quantiles(found, lambda one: one.second_chunk_s),
            underrun=_quantiles(found, lambda one: one.underrun_s),
            total=_quantiles(found, lambda one: one.total_s),
            rtf=_quantiles(found, lambda one: one.total_s / one.audio_s),
            compute_rtf=_quantiles(served, lambda one: one.compute_rtf),
        ),
        requests_per_s=len(served) / span_s,
        realtime=sum(one.audio_s for one in found) / span_s,
        worst_underrun_s=max((one.underrun_s for one in found), default=0.0),
        good=share_interval(num_good, len(outcomes)) if outcomes else None,
        refused_after_s=max((one.ended_s - one.asked_s for one in refused), default=None),
        lag_s=lag_s,
        mean_ttfb_s=fmean(one.ttfb_s for one in found) if found else None,
    )


def goodput(levels: Sequence[Level]) -> Level | None:
    """Return the highest Poisson rate that, like every lower one, has 99 % good requests; None: no rate."""
    best = None
    for level in sorted(_of_kind(levels, "poisson"), key=lambda level: level.load.amount):
        if level.good is None or level.good.value < GOOD_SHARE:
            break
        best = level
    return best


def capacity_hz(levels: Sequence[Level]) -> float:
    """Return the most requests a second that a closed loop was served; 0: none were."""
    return max((level.requests_per_s for level in _of_kind(levels, "closed")), default=0.0)


def listeners_without_a_gap(levels: Sequence[Level]) -> int:
    """Return the most listeners that, like all fewer ones, were served without a stall; 0: not even one."""
    most = 0
    for level in sorted(_of_kind(levels, "listeners"), key=lambda level: level.load.amount):
        if level.counts.num_stalled or level.counts.num_served < max(1, level.counts.num_asked):
            break
        most = round(level.load.amount)
    return most


def _of_kind(levels: Sequence[Level], kind: str) -> list[Level]:
    return [level for level in levels if level.load.kind == kind]


def _quantiles(items: Sequence[Item], figure: Callable[[Item], float | None]) -> tuple[Quantile, ...]:
    values = [value for value in map(figure, items) if value is not None]
    return tuple(found for share in SHARES if (found := quantile(values, share)) is not None)
