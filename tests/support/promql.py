"""Which series PromQL expressions name, and which a server has."""

import re

from firstword.app.telemetry.metrics import Metrics
from tests.support.readings import samples

_NAME = re.compile(r"(?<![\w:])((?:tts|process|vllm|job|instance)(?:_\w+|:[\w:]+)|up\b)(?=[{\[) \n/]|$)")
_STRING = re.compile(r'"[^"]*"')


def names_in(expression: str) -> set[str]:
    """Names of series, those of recording rules too; labels and what stands in quotes are none."""
    return set(_NAME.findall(_STRING.sub('""', expression)))


def known_names() -> set[str]:
    """Every series of a server that has just started, without vLLM's.

    A label's values are there from the start (Metrics), so the series of a histogram are too.
    """
    return {name for name, _ in samples(Metrics())} | {"tts_build_info"}
