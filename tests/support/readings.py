"""Reads values from the exposition, as a scrape sees them."""

from prometheus_client.parser import text_string_to_metric_families

from firstword.app.telemetry.metrics import Metrics

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]  # value by name and labels


def series(exposition: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
    }


def samples(metrics: Metrics) -> Series:
    body, _ = metrics.exposition()
    return series(body.decode())


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[name, frozenset(labels.items())]
