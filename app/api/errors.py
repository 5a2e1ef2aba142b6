"""Translate errors to HTTP statuses, JSON bodies, WebSocket close codes and metrics.

Turns what pydantic and the router refuse into our own errors, which name the field and what came.

The one table from what went wrong to what a client sees: status, type, code, WebSocket close code.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    CancelReason,
    Draining,
    InvalidRequest,
    Overloaded,
    RateLimited,
    Refused,
    Restarting,
    SpeakerExists,
    SpeakerIncompatible,
    SpeakerNotFound,
    StreamTimeout,
    TextTooLong,
    TtsError,
    UploadTooLarge,
)
from firstword.app.telemetry.metrics import Metrics, Outcome, RejectReason

MAX_SHOWN_CHARS = 60  # of what came

logger = logging.getLogger(__name__)

Fault = Mapping[str, Any]  # one of pydantic's `ValidationError.errors()`


def install_error_handlers(app: FastAPI) -> None:
    """For everything that is the client's fault; FaultMiddleware answers the rest."""
    app.add_exception_handler(TtsError, _answer)
    app.add_exception_handler(RequestValidationError, _answer)
    app.add_exception_handler(HTTPException, _answer)


def invalid_request(faults: Sequence[Fault]) -> InvalidRequest:
    """faults: pydantic's, at least one; `loc` counts from the message's own fields."""
    path = faults[0]["loc"]
    return InvalidRequest("; ".join(map(_described, faults)), param=_shown(path[0]) if path else None)


async def _answer(request: Request, error: Exception) -> Response:
    match error:
        case TtsError() if row_of(error) is INTERNAL:
            logger.error("%s %s failed", request.method, route_of(request.scope), exc_info=error)
        case RequestValidationError():
            # `loc` begins with where the field stands: body, query, path.
            error = invalid_request([fault | {"loc": fault["loc"][1:]} for fault in error.errors()])
        case HTTPException():
            error = _own(error, request)
    return error_response(error)


def _own(error: HTTPException, request: Request) -> TtsError:
    """The router's exceptions are these three, a body that cannot be parsed being the last."""
    path = _shown(request.url.path)
    match error.status_code:
        case 404:
            return PathNotFound(f"{path} is no path of this server; GET /docs lists them.")
        case 405:
            allow = (error.headers or {}).get("Allow", "")
            return MethodNotAllowed(f"{path} knows {allow}, not {request.method}.", allow)
    return InvalidRequest("The body cannot be read as what its Content-Type says; check both.")


def _described(fault: Fault) -> str:
    path, kind = fault["loc"], fault["type"]
    field = "The body" if not path else f"`{_shown('.'.join(map(str, path)))}`"
    match kind:
        case "json_invalid":
            return f"The body is no JSON at character {path[0]}: {fault['ctx']['error']}."
        case "missing":
            return f"{field} is missing."
        case "extra_forbidden":
            return f"{field} is no known field; leave it out."
    hint = "" if path else " Send a JSON object with Content-Type: application/json."
    return f"{field}: {fault['msg']}; {_came(fault['input'])} came.{hint}"


def _came(value: object) -> str:
    match value:
        case str() | bytes() if len(value) > MAX_SHOWN_CHARS:
            return f"a string of {len(value)}"
        case str() | int() | float() | None:
            return _shown(json.dumps(value))
        case dict():
            return "an object"
        case list():
            return "a list"
    return "something else"


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"


ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "not_found_error",
    "conflict_error",
    "rate_limit_error",
    "overloaded_error",
    "server_error",
]

INTERNAL_MESSAGE = "The server failed on this request. Try again; if it fails again, report its X-Request-Id."


class InvalidApiKey(TtsError):
    """No key came, or one that nobody has."""


class ModelNotFound(TtsError):
    param = "model"


class PathNotFound(TtsError):
    pass


class MethodNotAllowed(TtsError):
    def __init__(self, message: str, allow: str) -> None:
        """allow: the methods that the path knows, comma-separated."""
        super().__init__(message)
        self.allow = allow


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How one kind of error looks on the wire. close_code None: a WebSocket stays open."""

    status: int
    type: ErrorType
    code: str
    close_code: int | None = None
    counted_as: RejectReason | None = None  # in tts_rejected_total


INTERNAL: Final = ErrorRow(500, "server_error", "internal", close_code=1011)

# A kind that is not here looks like its nearest ancestor; what is no kin of any is our own fault.
TABLE: Final[dict[type[Exception], ErrorRow]] = {
    InvalidRequest: ErrorRow(400, "invalid_request_error", "invalid_request"),
    TextTooLong: ErrorRow(413, "invalid_request_error", "text_too_long", counted_as="too_long"),
    SpeakerNotFound: ErrorRow(404, "not_found_error", "speaker_not_found"),
    ModelNotFound: ErrorRow(404, "not_found_error", "model_not_found"),
    PathNotFound: ErrorRow(404, "not_found_error", "not_found"),
    MethodNotAllowed: ErrorRow(405, "invalid_request_error", "method_not_allowed"),
    SpeakerExists: ErrorRow(409, "conflict_error", "speaker_exists"),
    SpeakerIncompatible: ErrorRow(409, "conflict_error", "speaker_incompatible"),
    BadAudio: ErrorRow(400, "invalid_request_error", "bad_audio"),
    AudioTooShort: ErrorRow(400, "invalid_request_error", "audio_too_short"),
    AudioTooLong: ErrorRow(400, "invalid_request_error", "audio_too_long"),
    UploadTooLarge: ErrorRow(413, "invalid_request_error", "upload_too_large", counted_as="too_long"),
    InvalidApiKey: ErrorRow(401, "authentication_error", "invalid_api_key", counted_as="auth"),
    RateLimited: ErrorRow(429, "rate_limit_error", "rate_limited", counted_as="rate_limit"),
    Overloaded: ErrorRow(503, "overloaded_error", "overloaded", close_code=1013, counted_as="queue_full"),
    Restarting: ErrorRow(503, "overloaded_error", "restarting", counted_as="restarting"),
    Draining: ErrorRow(503, "overloaded_error", "draining", close_code=1012, counted_as="draining"),
    StreamTimeout: ErrorRow(408, "invalid_request_error", "timeout"),
    Exception: INTERNAL,
}


def row_of(error: Exception) -> ErrorRow:
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def count_rejection(metrics: Metrics, error: Exception) -> None:
    """For what is refused without a record of its own, which would count it."""
    reason = row_of(error).counted_as
    if reason is not None:
        metrics.rejected.labels(reason).inc()


@contextmanager
def rejections_counted(metrics: Metrics) -> Iterator[None]:
    try:
        yield
    except TtsError as error:
        count_rejection(metrics, error)
        raise


def outcome_of(error: Exception) -> tuple[Outcome, RejectReason | CancelReason | None]:
    """How a stream ended that this error ended, as its record wants it."""
    row = row_of(error)
    if isinstance(error, StreamTimeout):
        return "cancelled", "timeout"
    return ("failed", None) if row is INTERNAL else ("rejected", row.counted_as)


def error_body(error: Exception) -> dict[str, dict[str, str | None]]:
    """What a client is told. Of our own faults nothing but that they were ours."""
    row = row_of(error)
    message, param = INTERNAL_MESSAGE, None
    if isinstance(error, TtsError) and row is not INTERNAL:
        message, param = error.message, getattr(error, "param", None)
    return {"error": {"message": message, "type": row.type, "param": param, "code": row.code}}


def error_headers(error: Exception) -> dict[str, str]:
    match error:
        case Refused():
            return {"Retry-After": str(error.retry_after_s)}
        case InvalidApiKey():
            return {"WWW-Authenticate": "Bearer"}
        case MethodNotAllowed():
            return {"Allow": error.allow}
    return {}


def error_json(error: Exception) -> str:
    """ASCII only, so that a lone surrogate in a message cannot break the encoding of the answer."""
    return json.dumps(error_body(error))


def error_response(error: Exception) -> Response:
    return Response(
        error_json(error),
        status_code=row_of(error).status,
        headers=error_headers(error) | {"Cache-Control": "no-store"},
        media_type="application/json",
    )


class FaultMiddleware:
    """Answers what nobody else answered with a 500 that tells nothing; the log tells all.

    It stands below the middlewares that add headers to every response. Once a response has started nothing
    can be said any more: the exception goes on and the server drops the connection.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        has_started = False

        async def note_start(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self.app(scope, receive, note_start)
        except Exception as error:
            if has_started:
                raise
            logger.exception("%s %s failed", scope["method"], route_of(scope))
            await error_response(error)(scope, receive, send)


def route_of(scope: Scope) -> str:
    """The path as the router knows it: without what a client put into it."""
    route: Any = scope.get("route")
    return getattr(route, "path", "(no route)")
