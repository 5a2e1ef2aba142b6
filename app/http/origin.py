"""Refuse what web pages of other origins ask for, and names of this server that are not its own."""

import re
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.types import Scope

from firstword.app.errors import InvalidRequest, OriginNotAllowed

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK_HOST = re.compile(r"localhost|.+\.localhost|127(\.\d{1,3}){3}|\[::1\]")


class OriginCheck:
    """Refuses web pages of other origins, which a browser lets send requests without asking the server.

    A page may change something or open a WebSocket only if its `Origin` is an allowed one, or this server's
    own by the `Host` header (the scheme is ignored, as proxies end TLS). That would not help against a page
    whose name resolves to this server (DNS rebinding), so `Host` itself is checked as well.
    """

    def __init__(
        self, allowed_origins: Sequence[str] = (), allowed_hosts: Sequence[str] | None = None
    ) -> None:
        """allowed_origins: "*" for all. allowed_hosts: besides loopback names, without ports; None: any."""
        self._allowed_origins = {origin.lower().rstrip("/") for origin in allowed_origins}
        self._allowed_hosts = None if allowed_hosts is None else {host.lower() for host in allowed_hosts}

    def check(self, scope: Scope) -> None:
        """Raise InvalidRequest and OriginNotAllowed."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1:
            raise InvalidRequest(f"the request has {len(hosts)} Host headers; send one")
        host = hosts[0].lower()
        name = re.sub(r":\d*$", "", host)
        is_known = (
            self._allowed_hosts is None or name in self._allowed_hosts or _LOOPBACK_HOST.fullmatch(name)
        )
        if not is_known:
            raise OriginNotAllowed(
                f"the server does not answer to the host {name[:60]!r}; add it to FIRSTWORD_ALLOWED_HOSTS"
            )
        origin = headers.get("origin", "").lower()
        if not origin or "*" in self._allowed_origins or scope.get("method", "upgrade") in _SAFE_METHODS:
            return
        if origin.partition("://")[2] != host and origin not in self._allowed_origins:
            raise OriginNotAllowed(
                f"a web page of {origin[:60]!r} may not do this; add the origin to FIRSTWORD_CORS_ORIGINS"
            )
