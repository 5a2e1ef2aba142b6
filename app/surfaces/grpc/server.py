"""The gRPC server: its services, reflection, health, TLS, and its end."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2

from firstword.app.http.rpc.messages import POOL, handler_of
from firstword.app.http.surface import RpcHandler
from firstword.app.options import InvalidOptions
from firstword.app.surfaces.grpc.options import GrpcOptions

MAX_CALLS: Final = 1024  # at once; more are refused with RESOURCE_EXHAUSTED
MAX_MESSAGE_BYTES: Final = 32 << 20  # 30 s of 16 kHz float32 is 2 MB, a recording to register 10 MB
STOP_S: Final = 1.0  # for what is still being sent once the streams have ended
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class GrpcServer:
    """It serves within the event loop that made it, until `stop`."""

    def __init__(self, services: Mapping[str, Mapping[str, RpcHandler]]) -> None:
        """services: handlers of the methods, by the full name of their service and by their own."""
        self._server = grpc.aio.server(
            maximum_concurrent_rpcs=MAX_CALLS,
            options=[
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", -1),
                ("grpc.so_reuseport", 0),  # a port that is taken is an error
            ],
        )
        self._server.add_generic_rpc_handlers(
            tuple(handler_of(service, methods) for service, methods in services.items())
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
        POOL.AddSerializedFile(reflection_pb2.DESCRIPTOR.serialized_pb)
        self._names = (*services, "grpc.health.v1.Health", reflection.SERVICE_NAME)
        reflection.enable_server_reflection(self._names, self._server, POOL)

    async def start(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Return the port. Raises InvalidOptions where it cannot listen."""
        try:
            if credentials is None:
                port: int = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise InvalidOptions(
                f"gRPC cannot listen on {address}: stop what listens there, or set FIRSTWORD_GRPC_PORT to "
                "another"
            ) from error
        await self._server.start()
        await self._set_health(_SERVING)
        return port

    async def refuse(self) -> None:
        """Say that nothing more should come; what runs goes on."""
        await self._set_health(_NOT_SERVING)

    async def stop(self) -> None:
        await self._server.stop(STOP_S)

    async def _set_health(self, status: int) -> None:
        for name in ("", *self._names):
            await self._health.set(name, status)


def tls_credentials(options: GrpcOptions) -> grpc.ServerCredentials | None:
    """None: without TLS. Raises InvalidOptions."""
    certificate, key = options.tls_certificate, options.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InvalidOptions("set both FIRSTWORD_GRPC_TLS_CERTIFICATE and FIRSTWORD_GRPC_TLS_KEY, or neither")
    return grpc.ssl_server_credentials([(_read(key), _read(certificate))])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidOptions(f"{path} cannot be read: {error.strerror}; give a PEM file") from error
