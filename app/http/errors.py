"""Translate errors to HTTP statuses, JSON bodies, WebSocket close codes and metrics, by one table."""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final, Literal

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Receive, Scope, Send

from firstword.app.bounded_json import TOO_MANY
from firstword.app.errors import (
    AudioTooLong,
    AudioTooShort,
    BadAudio,
    CancelReason,
    Draining,
    ExpectationFailed,
    HeadersTooLarge,
    InvalidApiKey,
    InvalidRequest,
    InvalidSignature,
    MethodNotAllowed,
    MissingScope,
    ModelNotFound,
    OriginNotAllowed,
    Overloaded,
    PathNotFound,
    RateLimited,
    Refused,
    Restarting,
    SpeakerChanged,
    SpeakerDamaged,
    SpeakerExists,
    SpeakerIncompatible,
    SpeakerNotFound,
    SpeakerNotYours,
    StoreFull,
    StoreUnavailable,
    StreamTimeout,
    StringTooLong,
    TextTooLong,
    TtsError,
    UnsupportedCoding,
    UpgradeRequired,
    UploadTooLarge,
    UrlTooLong,
)
from firstword.app.telemetry.metrics import Metrics, Outcome, RejectReason

INTERNAL_MESSAGE = "the server failed on this request; retry, and if it fails again report its X-Request-Id"
MAX_SHOWN_CHARS = 60  # of a value that came
MAX_SHOWN_FAULTS = 8  # of one message
ELSEWHERE: Final[Mapping[str, Sequence[str]]] = {
    "input": ("text",),
    "text": ("input",),
    "voice_id": ("speaker", "voice"),
    "response_format": ("format",),
    "output_format": ("format",),
    "instructions": ("instruct",),
    "language_code": ("language",),
    "prompt_wav": ("reference_audio",),
    "prompt_text": ("reference_text",),
}
"""What other servers call a field of ours, by their name."""

logger = logging.getLogger(__name__)

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "conflict_error",
    "rate_limit_error",
    "overloaded_error",
    "server_error",
]


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How one kind of error looks on the wire. close_code None: a WebSocket stays open."""

    status: int
    type: ErrorType
    code: str
    close_code: int | None = None
    counted_as: RejectReason | None = None  # in tts_rejected_total


INTERNAL: Final = ErrorRow(500, "server_error", "internal", close_code=1011)

# A kind that is not listed is treated as its nearest listed ancestor, any other exception as our own fault.
TABLE: Final[dict[type[Exception], ErrorRow]] = {
    InvalidRequest: ErrorRow(400, "invalid_request_error", "invalid_request"),
    TextTooLong: ErrorRow(413, "invalid_request_error", "text_too_long", counted_as="too_long"),
    StringTooLong: ErrorRow(400, "invalid_request_error", "string_above_max_length", counted_as="too_long"),
    SpeakerNotFound: ErrorRow(404, "not_found_error", "speaker_not_found"),
    ModelNotFound: ErrorRow(404, "not_found_error", "model_not_found"),
    PathNotFound: ErrorRow(404, "not_found_error", "not_found"),
    MethodNotAllowed: ErrorRow(405, "invalid_request_error", "method_not_allowed"),
    UrlTooLong: ErrorRow(414, "invalid_request_error", "url_too_long"),
    HeadersTooLarge: ErrorRow(431, "invalid_request_error", "headers_too_large"),
    UnsupportedCoding: ErrorRow(501, "invalid_request_error", "unsupported_transfer_coding"),
    ExpectationFailed: ErrorRow(417, "invalid_request_error", "expectation_failed"),
    UpgradeRequired: ErrorRow(426, "invalid_request_error", "upgrade_required"),
    SpeakerExists: ErrorRow(409, "conflict_error", "speaker_exists"),
    SpeakerChanged: ErrorRow(409, "conflict_error", "speaker_changed"),
    SpeakerIncompatible: ErrorRow(409, "conflict_error", "speaker_incompatible"),
    SpeakerDamaged: ErrorRow(410, "not_found_error", "speaker_damaged"),
    BadAudio: ErrorRow(400, "invalid_request_error", "bad_audio"),
    AudioTooShort: ErrorRow(400, "invalid_request_error", "audio_too_short"),
    AudioTooLong: ErrorRow(400, "invalid_request_error", "audio_too_long"),
    UploadTooLarge: ErrorRow(413, "invalid_request_error", "upload_too_large", counted_as="too_long"),
    InvalidApiKey: ErrorRow(
        401, "authentication_error", "invalid_api_key", close_code=1008, counted_as="auth"
    ),
    InvalidSignature: ErrorRow(401, "authentication_error", "invalid_signature", counted_as="auth"),
    MissingScope: ErrorRow(403, "permission_error", "missing_scope", counted_as="auth"),
    SpeakerNotYours: ErrorRow(403, "permission_error", "speaker_not_yours"),
    OriginNotAllowed: ErrorRow(403, "permission_error", "origin_not_allowed", counted_as="auth"),
    RateLimited: ErrorRow(429, "rate_limit_error", "rate_limited", counted_as="rate_limit"),
    Overloaded: ErrorRow(503, "overloaded_error", "overloaded", close_code=1013, counted_as="queue_full"),
    Restarting: ErrorRow(503, "overloaded_error", "restarting", counted_as="restarting"),
    Draining: ErrorRow(503, "overloaded_error", "draining", close_code=1012, counted_as="draining"),
    StoreUnavailable: ErrorRow(503, "server_error", "store_unavailable"),
    StoreFull: ErrorRow(507, "server_error", "store_full"),
    StreamTimeout: ErrorRow(408, "invalid_request_error", "timeout"),
    Exception: INTERNAL,
}


def row_of(error: Exception) -> ErrorRow:
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def count_rejection(metrics: Metrics, error: Exception) -> None:
    """Count what is refused without a StreamRecord, which would count it."""
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
    """Return how a stream ended that this error ended, as StreamRecord.end takes it."""
    row = row_of(error)
    if isinstance(error, StreamTimeout):
        return "cancelled", "timeout"
    return ("failed", None) if row is INTERNAL else ("rejected", row.counted_as)


def error_body(error: Exception) -> dict[str, dict[str, str | None]]:
    """Return the JSON body for a client. It says nothing of our own faults but that they were ours."""
    row = row_of(error)
    param = None if row is INTERNAL else getattr(error, "param", None)
    return {"error": {"message": error_message(error), "type": row.type, "param": param, "code": row.code}}


def error_message(error: Exception) -> str:
    """Return what a client may read of an error."""
    if isinstance(error, TtsError) and row_of(error) is not INTERNAL:
        return error.message
    return INTERNAL_MESSAGE


def error_headers(error: Exception) -> dict[str, str]:
    match error:
        case Refused():
            return {"Retry-After": str(error.retry_after_s)}
        case InvalidApiKey():
            return {"WWW-Authenticate": "Bearer"}
        case MissingScope():
            return {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{error.scope}"'}
        case MethodNotAllowed():
            return {"Allow": error.allow}
        case UpgradeRequired():
            return {"Upgrade": "websocket", "Connection": "Upgrade"}
    return {}


class ErrorResponse(Response):
    """The body of an error, as all surfaces have it that do not say otherwise."""

    media_type = "application/json"

    def __init__(self, error: Exception, content: object = None) -> None:
        """content: of a surface with another form."""
        # ASCII only, so that a lone surrogate in a message cannot break the encoding.
        headers = error_headers(error) | {"Cache-Control": "no-store"}
        super().__init__(json.dumps(content or error_body(error)), row_of(error).status, headers)


def error_response(error: Exception, scope: Scope) -> Response:
    """Return the answer in the form of the surface whose path it is."""
    matched = scope.get("state", {}).get("matched")  # None: the error came before it was looked for
    surface = None if matched is None else matched.surface
    response: Response = ErrorResponse(error) if surface is None else surface.error(error)
    return response


def route_of(scope: Scope) -> str:
    """Return the path as it is declared, without values that a client put into it."""
    route: Any = scope.get("route")
    return getattr(route, "path", "(no route)")


def install_error_handlers(app: FastAPI) -> None:
    """Install handlers for all that is the client's fault; InternalErrorMiddleware handles the rest."""
    app.add_exception_handler(TtsError, _respond)
    app.add_exception_handler(RequestValidationError, _respond)
    app.add_exception_handler(HTTPException, _respond)


async def _respond(request: Request, error: Exception) -> Response:
    match error:
        case TtsError() if row_of(error) is INTERNAL:
            logger.error("%s %s failed", request.method, route_of(request.scope), exc_info=error)
        case RequestValidationError():
            # `loc` begins with the part of the request: body, query, path.
            faults = [fault | {"loc": fault["loc"][1:]} for fault in error.errors()]
            error = invalid_request(faults, _body_fields(request.scope.get("route")))
        # The router raises these two.
        case HTTPException(status_code=405):
            allow = ", ".join(_allowed_methods(request))
            message = f"{request.method} not allowed on {_shorten(request.url.path)}; allowed: {allow}"
            error = MethodNotAllowed(message, allow)
        case HTTPException(status_code=404):  # of the static files
            error = PathNotFound(f"no such path: {_shorten(request.url.path)}; GET /docs lists all")
        case HTTPException():
            said = (
                error.__cause__ if isinstance(error.__cause__, InvalidRequest) else None
            )  # FastAPI wraps it
            error = said or InvalidRequest("the body cannot be parsed as its Content-Type says; check both")
    return error_response(error, request.scope)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes with the request's path, of which the router names the first's."""
    routes = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    methods = {method for route in routes for method in getattr(route, "methods", None) or ()}
    methods = methods or {"GET"}  # of static files, whose paths are no routes
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


async def not_found(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a request or a WebSocket for an unknown path; a WebSocket by the denial response extension."""
    error = PathNotFound(f"no such path: {_shorten(scope['path'])}; GET /docs lists all")
    await error_response(error, scope)(scope, receive, send)


def _body_fields(route: object) -> Iterable[str]:
    """Return the names of the fields that a route's body may have."""
    if not isinstance(route, APIRoute):
        return ()
    models = [parameter.field_info.annotation for parameter in route.dependant.body_params]
    return [name for model in models for name in getattr(model, "model_fields", ())]


Fault = Mapping[str, Any]  # one of pydantic's `ValidationError.errors()`


def invalid_request(faults: Sequence[Fault], known_fields: Iterable[str] = ()) -> InvalidRequest:
    """faults: pydantic's, at least one; `loc` counts from the message's own fields.

    known_fields: those that the message may have, to suggest one for a misspelled one.
    """
    path = () if faults[0]["type"] == "json_invalid" else faults[0]["loc"]  # where it is not an offset
    message = "; ".join(_describe(fault, known_fields) for fault in faults[:MAX_SHOWN_FAULTS])
    if len(faults) > MAX_SHOWN_FAULTS:
        message += f"; and {len(faults) - MAX_SHOWN_FAULTS} more"
    return InvalidRequest(message, param=_shorten(path[0]) if path else None)


def _describe(fault: Fault, known_fields: Iterable[str]) -> str:
    path = fault["loc"]
    field = f"`{_shorten('.'.join(map(str, path)))}`" if path else "the body"
    match fault["type"]:
        case "json_invalid" if fault["ctx"]["error"].startswith(TOO_MANY):
            return f"the body is refused: {fault['ctx']['error']}"
        case "json_invalid":
            place = f" at character {path[0]}" if path else ""  # FastAPI names it, pydantic alone does not
            return f"the body is not valid JSON{place}: {fault['ctx']['error']}"
        case "missing":
            return f"{field} is missing"
        case "extra_forbidden":
            return unknown_field(str(path[-1]), known_fields)
    hint = "" if path else "; send a JSON object with Content-Type: application/json"
    return f"{field}: {fault['msg']}; got {_describe_value(fault['input'])}{hint}"


def unknown_field(name: str, known_fields: Iterable[str]) -> str:
    """Return a message that suggests the known field with the most similar name, if one is similar."""
    name = _shorten(name)
    known = list(known_fields)
    nearest = get_close_matches(name, known, n=1, cutoff=0.75)
    nearest = nearest or [ours for ours in ELSEWHERE.get(name, ()) if ours in known][:1]
    return f"unknown field `{name}`; {f'did you mean `{nearest[0]}`?' if nearest else 'remove it'}"


def _describe_value(value: object) -> str:
    match value:
        case str() | bytes() if len(value) > MAX_SHOWN_CHARS:
            return f"a string of length {len(value)}"
        case str() | int() | float() | None:
            return _shorten(json.dumps(value))
        case dict():
            return "an object"
        case list():
            return "an array"
    return "another type"


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
