"""What a route declares of itself, and the table where a request finds its route before it is read."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from firstword.app.http.errors import not_found
from firstword.app.http.limits import BodyLimit, LimitOfBody, text_body
from firstword.app.server_options import Limits

if TYPE_CHECKING:
    from firstword.app.http.surface import Surface

RouteScope = Literal["public", "any key", "speak", "enrol", "admin"]
Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UndeclaredRoute(Exception):
    """A surface has a route that does not say who may use it; the server does not start with it."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may use a route, and how much one request of it may be.

    As a decorator, below the router's own, it declares this of an endpoint. It is enforced on the matched
    route, before any of a body is read. scope: "public" needs no key, "any key" a known one, and the others
    one that is for this. is_list: public as well where FIRSTWORD_PUBLIC_LISTS says so. in_address: what may
    stand in the address, for browsers and players that can be given nothing else; in other places a key would
    end up in logs. checks_origin: other pages' requests and unknown names of this server are refused.
    """

    scope: RouteScope
    body: LimitOfBody = text_body
    is_list: bool = False
    in_address: Literal["nothing", "key", "key or signature"] = "nothing"
    checks_origin: bool = True

    def __call__(self, endpoint: Endpoint) -> Endpoint:
        endpoint.__dict__["guard"] = self
        return endpoint


UNMATCHED: Final = Guard("any key")
"""The guard of a path that no route has: who has no key does not learn which paths there are."""


def guard_of(route: BaseRoute) -> Guard | None:
    """Return what a route's endpoint, or the application mounted at it, declares; None: nothing."""
    endpoint = getattr(route, "endpoint", None) or getattr(route, "app", None)
    guard: Guard | None = getattr(endpoint, "guard", None)
    return guard


@dataclass(frozen=True, slots=True)
class Matched:
    """What a request was matched to. route: with its path, if not with its method, which it then refuses."""

    guard: Guard
    body_limit: BodyLimit
    surface: "Surface | None" = None  # None: the path is nobody's
    route: BaseRoute | None = None


class RouteTable:
    """All routes of an application in order, each with what it declares."""

    def __init__(self, surfaces: Sequence[tuple["Surface", Sequence[BaseRoute]]], limits: Limits) -> None:
        """Raise UndeclaredRoute."""
        self._entries: list[tuple[BaseRoute, Matched]] = []
        self._unmatched = Matched(UNMATCHED, UNMATCHED.body(limits))
        self._surfaces = [surface for surface, _ in surfaces if surface.prefix]
        for surface, routes in surfaces:
            for route in routes:
                guard = guard_of(route)
                if guard is None:
                    raise UndeclaredRoute(
                        f"the route {getattr(route, 'path', route)} of the surface {surface.name} does not "
                        'say who may use it; put @Guard("speak"), or another scope, over its endpoint'
                    )
                self._entries.append((route, Matched(guard, guard.body(limits), surface, route)))

    def match(self, scope: Scope) -> Matched:
        """Return the first route that a request fits, or else the first that has its path.

        A path with a control character fits none: a route's expression may end before a newline.
        """
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        same_path: Matched | None = None
        if not _CONTROL_CHARACTERS.search(path):
            for route, matched in self._entries:
                match, _ = route.matches(scope)
                if match is Match.FULL:
                    return matched
                if match is Match.PARTIAL and same_path is None:
                    same_path = matched
        if same_path is None:
            surface = next((one for one in self._surfaces if _is_below(path, one.prefix)), None)
            return replace(self._unmatched, surface=surface)
        if same_path.guard.scope == "public":
            return same_path
        return replace(self._unmatched, surface=same_path.surface, route=same_path.route)

    async def dispatch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request by the route that it was matched to, and no other."""
        if scope["type"] == "lifespan":
            await scope["app"].router.app(scope, receive, send)
            return
        route = matched_of(scope).route
        if route is None:
            await not_found(scope, receive, send)
        else:
            _, child_scope = route.matches(scope)
            scope.update(child_scope)
            await route.handle(scope, receive, send)


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")


class RouteMiddleware:
    """Match each request to its route, once: who may come in, what is read and who handles it go by that.

    A path with trailing slashes is the one without, and HEAD is GET without a body. It puts `matched` into
    scope["state"], and `is_head`, for a route whose body costs something.
    """

    def __init__(self, app: ASGIApp, table: RouteTable) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self._app(scope, receive, send)
        scope["path"] = scope["path"].rstrip("/") or "/"
        is_head = scope.get("method") == "HEAD"
        if is_head:
            scope = {**scope, "method": "GET"}  # a copy: uvicorn sends no body for its own, which stays HEAD
        matched = self._table.match(scope)
        scope["state"] = {**scope.get("state", {}), "matched": matched, "is_head": is_head}
        if matched.route is not None:
            scope["route"] = matched.route

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        await self._app(scope, receive, send_without_body if is_head else send)


def matched_of(scope: Scope) -> Matched:
    matched: Matched = scope["state"]["matched"]
    return matched
