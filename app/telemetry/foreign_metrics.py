"""Metrics that a library counts in prometheus_client's own registry, shown beside ours."""

from collections.abc import Iterable

from prometheus_client import REGISTRY, Metric
from prometheus_client.registry import Collector


class ForeignMetrics(Collector):
    """The families whose names begin with `prefix`. What the process counts of itself is ours already."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def describe(self) -> Iterable[Metric]:
        """Nothing: its families come and go with the library's engine."""
        return []

    def collect(self) -> Iterable[Metric]:
        return [family for family in REGISTRY.collect() if family.name.startswith(self._prefix)]
