"""The service as its surfaces see it: the parts of the server behind their interfaces, and plain values."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends
from starlette.requests import HTTPConnection

from firstword.app.core.interface import Engine, Stages
from firstword.app.http.auth import Authenticator
from firstword.app.http.connection_limits import Bounds
from firstword.app.http.limits import Quotas
from firstword.app.provenance import NO_MARKS, Provenance
from firstword.app.server_options import Limits
from firstword.app.speakers.interface import Speakers
from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.tracing import NO_TRACING, Tracing
from firstword.app.telemetry.usage import Usage

Clock = Callable[[], float]  # seconds, monotonic


@dataclass(frozen=True, slots=True)
class Service:
    engine: Engine
    speakers: Speakers
    stages: Stages
    auth: Authenticator
    limits: Limits
    quotas: Quotas
    usage: Usage
    metrics: Metrics
    clock: Clock
    tracing: Tracing = NO_TRACING
    provenance: Provenance = NO_MARKS
    bounds: Bounds = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", Bounds(self.limits.max_bodies_bytes))


def service_of(connection: HTTPConnection) -> Service:
    """Dependency of HTTP and WebSocket routes."""
    service: Service = connection.app.state.service
    return service


ServiceHere = Annotated[Service, Depends(service_of)]
