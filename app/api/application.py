"""Puts the routes, the middlewares and the error handlers together into one application."""

from collections.abc import Sequence

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from app.api import openai, operations, speakers, speech, websocket
from app.api.auth import AuthMiddleware
from app.api.bodies import BodyLimitMiddleware
from app.api.errors import FaultMiddleware
from app.api.services import Services
from app.api.validation import install_error_handlers
from app.telemetry.middleware import TimingMiddleware

EXPOSED_HEADERS = ("X-Request-Id", "X-Sample-Rate", "X-Channels", "Server-Timing", "Retry-After")


def build_app(
    services: Services, *, cors_origins: Sequence[str] = (), metrics_on_main_port: bool = True
) -> FastAPI:
    """The transport over the given parts. It starts and stops none of them.

    cors_origins: whose pages may call from a browser; "*" for all.
    """
    app = FastAPI(title="Firstword", description="Low-latency text to speech.", redoc_url=None)
    app.state.services = services
    install_error_handlers(app)
    routers = [speech.router, websocket.router, openai.router, speakers.router, operations.router]
    if metrics_on_main_port:
        routers.append(operations.metrics_router)
    for router in routers:
        app.include_router(router)
    _add_middlewares(app, services, cors_origins)
    return app


def _add_middlewares(app: FastAPI, services: Services, cors_origins: Sequence[str]) -> None:
    """Innermost first. A key is asked for before a body is read; every answer gets an id and a time."""
    app.add_middleware(BodyLimitMiddleware, limits=services.limits, metrics=services.metrics)
    app.add_middleware(AuthMiddleware, keys=services.keys, metrics=services.metrics)
    app.add_middleware(FaultMiddleware)
    if cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST", "PATCH", "DELETE"],
            allow_headers=["*"],
            expose_headers=list(EXPOSED_HEADERS),
        )
    app.add_middleware(TimingMiddleware, clock=services.clock)
