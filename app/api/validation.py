"""Turns what pydantic and the router refuse into our own errors, which name the field and what came."""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.api.errors import INTERNAL, MethodNotAllowed, PathNotFound, error_response, route_of, row_of
from app.engine.interface import InvalidRequest, TtsError

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
