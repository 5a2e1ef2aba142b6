"""PromQL over the server's own families: an expression names a metric by the attribute that counts it."""

from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import Counter, Gauge, Histogram, Info
from prometheus_client.metrics import MetricWrapperBase

from firstword.app.telemetry.metrics import Metrics

FAMILIES = Metrics()
TARGET = 'job=~"$job", instance=~"$instance"'  # the variables of every dashboard
WINDOW = "$__rate_interval"


def series(name: str, labels: str = "") -> str:
    """Return the selector of what this dashboard looks at. labels: further matchers."""
    return f"{name}{{{', '.join(filter(None, [TARGET, labels]))}}}"


def gauge(family: Gauge, labels: str = "") -> str:
    return series(_name_of(family), labels)


def info(family: Info) -> str:
    return series(f"{_name_of(family)}_info")


def rate(family: Counter, labels: str = "") -> str:
    """Return the increase per second of a counter."""
    return rate_of(f"{_name_of(family)}_total", labels)


def rate_of(name: str, labels: str = "") -> str:
    """Return the same of a series that is not ours."""
    return f"rate({series(name, labels)}[{WINDOW}])"


def total(expression: str, by: Sequence[str] = ()) -> str:
    """Return the sum over all instances, or one for each value of some labels."""
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram by the name of its series; `labels` are further matchers."""

    name: str
    labels: str = ""

    @classmethod
    def of(cls, family: Histogram, labels: str = "") -> "Distribution":
        return cls(_name_of(family), labels)

    def buckets(self, by: Sequence[str] = ()) -> str:
        return total(rate_of(f"{self.name}_bucket", self.labels), ["le", *by])

    def sum(self, by: Sequence[str] = ()) -> str:
        """Return the sum of what was observed, per second."""
        return total(rate_of(f"{self.name}_sum", self.labels), by)

    def count(self, by: Sequence[str] = ()) -> str:
        """Return the number of observations per second."""
        return total(rate_of(f"{self.name}_count", self.labels), by)

    def quantile(self, share: float, by: Sequence[str] = ()) -> str:
        return f"histogram_quantile({share}, {self.buckets(by)})"

    def mean(self, by: Sequence[str] = ()) -> str:
        return f"{self.sum(by)} / {self.count(by)}"

    def share_over(self, bound: float) -> str:
        """Return the share of observations above one of the bounds of the buckets."""
        within = series(f"{self.name}_bucket", ", ".join(filter(None, [self.labels, f'le="{bound}"'])))
        return f"1 - sum(rate({within}[{WINDOW}])) / {self.count()}"


def _name_of(family: MetricWrapperBase) -> str:
    (described,) = family.describe()
    return described.name
