"""The services that the routes share.

What the routes are given: the parts of the service behind their interfaces, and plain values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from firstword.app.api.limits import Quotas
from firstword.app.api.middleware import KeyRing
from firstword.app.engine.interface import Engine
from firstword.app.options import Limits
from firstword.app.speakers.interface import Speakers
from firstword.app.telemetry.metrics import Metrics

Clock = Callable[[], float]  # seconds, monotonic


@dataclass(frozen=True, slots=True)
class Services:
    engine: Engine
    speakers: Speakers
    metrics: Metrics
    keys: KeyRing
    limits: Limits
    quotas: Quotas
    model_id: str  # what OpenAI's clients call our model
    voices: Mapping[str, str]  # OpenAI's names of voices -> our speakers
    clock: Clock


def services_of(connection: HTTPConnection) -> Services:
    """A dependency of the routes, HTTP and WebSocket."""
    services: Services = connection.app.state.services
    return services


ServicesHere = Annotated[Services, Depends(services_of)]
