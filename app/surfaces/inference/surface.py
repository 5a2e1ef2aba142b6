"""The Open Inference Protocol as one surface, over HTTP and over gRPC."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.responses import Response
from starlette.routing import BaseRoute

from firstword.app.http.errors import ErrorResponse, error_message, row_of
from firstword.app.http.service import Service
from firstword.app.http.surface import HttpSurface, RpcServices
from firstword.app.surfaces.inference import http
from firstword.app.surfaces.inference.inference import Inference


class InferenceSurface(HttpSurface):
    def __init__(self) -> None:
        super().__init__("inference", http.router.routes, http.PREFIX)
        self._inference: Inference | None = None

    @property
    def inference(self) -> Inference:
        assert self._inference is not None, "its routes were not asked for"
        return self._inference

    def routes(self, service: Service) -> Sequence[BaseRoute]:
        self._over(service)
        return super().routes(service)

    def rpc_services(self, service: Service) -> RpcServices:
        from firstword.app.surfaces.inference.rpc import InferenceService  # grpcio is an extra

        return InferenceService(self._over(service)).methods()

    @asynccontextmanager
    async def running(self, service: Service) -> AsyncIterator[None]:
        inference = self._over(service)
        try:
            yield
        finally:
            inference.close()

    def error(self, error: Exception) -> Response:
        """Return the message as plain text, as the protocol has it."""
        return ErrorResponse(error, {"error": error_message(error), "code": row_of(error).code})

    def _over(self, service: Service) -> Inference:
        """One for both protocols: they share the models' statistics and the sessions of token2wav."""
        if self._inference is None or self._inference.service is not service:
            self._inference = Inference(service)
        return self._inference
