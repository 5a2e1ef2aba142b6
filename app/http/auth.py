"""Who is let in: the one check of keys, signatures and scopes, of HTTP, WebSockets and gRPC alike."""

from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, QueryParams
from starlette.types import ASGIApp, Receive, Scope, Send

from firstword.app.clients import ANYBODY, STRANGER, Client
from firstword.app.errors import InvalidApiKey, MissingScope, TtsError
from firstword.app.http.errors import count_rejection, error_response
from firstword.app.http.keys import KeyRing, UrlSigner
from firstword.app.http.origin import OriginCheck
from firstword.app.http.routes import Guard, matched_of
from firstword.app.telemetry.metrics import Metrics

HEADERS_WANTED: Final = "send one as `Authorization: Bearer KEY` or `X-API-Key: KEY`"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a caller showed: two headers of HTTP, or the same in gRPC's metadata, and the address's query."""

    authorization: str = ""
    api_key: str = ""
    query: str = ""

    @property
    def key(self) -> str:
        scheme, _, credentials = self.authorization.partition(" ")
        if scheme.lower() == "bearer" and credentials.strip():
            return credentials.strip()
        return self.api_key


class Authenticator:
    """Tells whose request it is, and refuses who may not make it."""

    def __init__(self, keys: KeyRing, signer: UrlSigner, has_public_lists: bool = False) -> None:
        """has_public_lists: models, voices and speakers are listed without a key."""
        self.keys = keys
        self.signer = signer
        self._has_public_lists = has_public_lists

    async def client_of(self, shown: Credentials, guard: Guard) -> Client:
        """Return who may use what has that guard. Raise InvalidApiKey, InvalidSignature, MissingScope."""
        if self.keys.is_open:
            return ANYBODY
        if guard.scope == "public":
            return STRANGER
        await self.keys.refresh()
        key = shown.key
        query = QueryParams("" if key else shown.query)
        if guard.in_address != "nothing":
            key = key or query.get("api_key", "")
        if key:
            client = self.keys.client_of(key)
            if client is None:
                raise InvalidApiKey("unknown API key; check it, or ask for a new one")
        elif guard.in_address == "key or signature" and "signature" in query:
            client = self.signer.client_of(shown.query)
        elif guard.is_list and self._has_public_lists:
            return STRANGER
        elif "api_key" in query and guard.in_address == "nothing":
            raise InvalidApiKey(f"only GET /tts and WebSockets take a key in the address; {HEADERS_WANTED}")
        else:
            raise InvalidApiKey(f"no API key; {HEADERS_WANTED}")
        if guard.scope != "any key" and not client.may(guard.scope):
            scopes = " and ".join(sorted(client.scopes))
            raise MissingScope(
                f"the key of {client.name!a} has the scope {scopes}, and this takes {guard.scope}; ask for "
                "a key with it",
                guard.scope,
            )
        return client

    async def check_again(self, client: Client) -> None:
        """Raise InvalidApiKey once the key of who was let in is removed, or allows something else."""
        await self.keys.refresh()
        if not self.keys.knows(client):
            raise InvalidApiKey("the API key was removed or changed; connect again, with another one")


class GuardMiddleware:
    """Let in who may use the matched route, over HTTP and WebSockets, before any of a body is read.

    Pages of other origins get 403, who has no known key 401, whose key is not for the route 403. It puts
    `client` into scope["state"].
    """

    def __init__(self, app: ASGIApp, auth: Authenticator, origins: OriginCheck, metrics: Metrics) -> None:
        self._app = app
        self._auth = auth
        self._origins = origins
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket"):
            guard = matched_of(scope).guard
            headers = Headers(scope=scope)
            shown = Credentials(
                headers.get("authorization", ""),
                headers.get("x-api-key", ""),
                scope["query_string"].decode("latin-1"),
            )
            try:
                if guard.checks_origin:
                    self._origins.check(scope)
                client = await self._auth.client_of(shown, guard)
            except TtsError as error:
                count_rejection(self._metrics, error)
                return await error_response(error, scope)(scope, receive, send)
            scope["state"]["client"] = client
        await self._app(scope, receive, send)
