"""The settings of gRPC."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from firstword.app.option_values import HomePath


@dataclass(frozen=True, slots=True)
class GrpcOptions:
    """Where gRPC listens, and its certificate. Their variables begin with FIRSTWORD_GRPC_."""

    port: Annotated[
        int | None,
        Field(
            ge=0,
            le=65535,
            description="TCP port of gRPC, which needs the extra `grpc`; 0 takes a free one, empty is none",
        ),
    ] = None
    tls_certificate: Annotated[
        HomePath | None,
        Field(description="PEM file with the certificate chain of gRPC; empty is no TLS"),
    ] = None
    tls_key: Annotated[HomePath | None, Field(description="PEM file with the key of that certificate")] = None
