"""The gRPC server: its services, reflection, health, TLS, and its end."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import aio as health
from grpc_reflection.v1alpha import reflection, reflection_pb2
from grpc_reflection.v1alpha.reflection import aio as aio_reflection

from firstword.app.http import connection_limits as limits
from firstword.app.http.routes import Guard
from firstword.app.http.rpc.call import Call
from firstword.app.http.rpc.door import Door
from firstword.app.http.rpc.messages import POOL
from firstword.app.http.service import Service
from firstword.app.http.surface import RpcMethod, RpcServices
from firstword.app.options import InvalidOptions
from firstword.app.surfaces.grpc.options import GrpcOptions

HEALTH: Final = "grpc.health.v1.Health"
ROOM_BYTES: Final = 64 * 1024  # beyond the largest message: what is too large is told so in our words
STOP_S: Final = 1.0  # for what is still being sent once the streams have ended
_SERVING = health_pb2.HealthCheckResponse.SERVING
_NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


class GrpcServer:
    """It serves within the event loop that made it, until `stop`."""

    def __init__(self, service: Service, services: RpcServices) -> None:
        """services: what it serves beside its health and the description of itself."""
        POOL.AddSerializedFile(health_pb2.DESCRIPTOR.serialized_pb)
        POOL.AddSerializedFile(reflection_pb2.DESCRIPTOR.serialized_pb)
        self._health = health.HealthServicer()
        self._names = (*services, HEALTH, reflection.SERVICE_NAME)
        described = _reflection(self._names)
        self.door = Door(service, {**services, HEALTH: self._health_methods(), **described})
        self._server = grpc.aio.server(options=_options(service, self.door.max_message_bytes))
        self._server.add_generic_rpc_handlers(self.door.handlers())

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

    def _health_methods(self) -> Mapping[str, RpcMethod]:
        async def check(request: Any, call: Call) -> Any:
            return await self._health.Check(request, call.context)

        async def watch(request: Any, call: Call) -> None:
            await self._health.Watch(request, call.context)

        return {"Check": RpcMethod(Guard("public"), check), "Watch": RpcMethod(Guard("public"), watch)}

    async def _set_health(self, status: int) -> None:
        for name in ("", *self._names):
            await self._health.set(name, status)


def _options(service: Service, max_message_bytes: int) -> list[tuple[str, int]]:
    """The limits that are gRPC's own."""
    return [
        ("grpc.max_receive_message_length", max_message_bytes + ROOM_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.so_reuseport", 0),  # a port that is taken is an error
        ("grpc.http2.lookahead_bytes", limits.WINDOW_BYTES),
        ("grpc.http2.bdp_probe", 0),  # it widens that window to 4 MB, for messages that nobody reads too
        ("grpc.max_concurrent_streams", limits.MAX_CALLS),  # of a connection
        ("grpc.max_allowed_incoming_connections", limits.max_grpc_connections()),
        ("grpc.server_handshake_timeout_ms", round(1000 * limits.HEAD_TIMEOUT_S)),
        ("grpc.max_connection_idle_ms", round(1000 * service.limits.idle_timeout_s)),  # without a call
        ("grpc.keepalive_time_ms", 1000 * limits.KEEPALIVE_S),
    ]


def _reflection(names: tuple[str, ...]) -> RpcServices:
    servicer = aio_reflection.ReflectionServicer(names, POOL)

    async def of_library(requests: Any) -> AsyncIterator[Any]:
        """The same message is another class in another pool."""
        async for request in requests:
            yield reflection_pb2.ServerReflectionRequest.FromString(request.SerializeToString())

    async def describe(requests: Any, call: Call) -> None:
        async for answer in servicer.ServerReflectionInfo(of_library(requests), call.context):
            await call.write(answer)

    return {reflection.SERVICE_NAME: {"ServerReflectionInfo": RpcMethod(Guard("public"), describe)}}


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
