"""The pages for people: the console at `/`, the API's description at `/docs` and `/asyncapi`.

Everything they load comes from this server. They are open to everybody and hold no data: each asks for a key
itself, where the server has keys, and calls the API with it.
"""

from pathlib import Path
from typing import Any, Final

import fastapi_offline
from fastapi import APIRouter
from starlette.responses import FileResponse
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from firstword.app.http.routes import Guard
from firstword.app.http.surface import HttpSurface

router = APIRouter()

STATIC: Final = Path(__file__).parent / "static"
SWAGGER_UI: Final = Path(fastapi_offline.__file__).parent / "static"
ASSETS_PATH: Final = "/assets"

POLICY: Final = (
    "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Swagger UI sets styles and draws its icons from data: addresses; scripts are ours alone there too.
SWAGGER_POLICY: Final = f"{POLICY}; style-src 'self' 'unsafe-inline'; img-src 'self' data:"
HEADERS: Final = {
    "Cache-Control": "no-cache",  # asked again each time, answered by 304 where nothing changed
    "Referrer-Policy": "no-referrer",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
}


def _page(name: str, policy: str = POLICY) -> FileResponse:
    return FileResponse(STATIC / name, headers={**HEADERS, "Content-Security-Policy": policy})


@router.get("/", include_in_schema=False)
@router.get("/console", include_in_schema=False)
@Guard("public")
async def console() -> FileResponse:
    return _page("console/index.html")


@router.get("/favicon.ico", include_in_schema=False)
@Guard("public")
async def favicon() -> FileResponse:
    return FileResponse(STATIC / "console/icon.svg", media_type="image/svg+xml", headers=HEADERS)


@router.get("/docs", include_in_schema=False)
@Guard("public")
async def docs() -> FileResponse:
    return _page("docs/http.html", SWAGGER_POLICY)


@router.get("/asyncapi", include_in_schema=False)
@Guard("public")
async def websocket_docs() -> FileResponse:
    return _page("docs/websocket.html")


class Assets(StaticFiles):
    """Files that browsers ask for again each time; an unchanged one is answered by 304."""

    def file_response(self, *given: Any, **named: Any) -> Any:
        response = super().file_response(*given, **named)
        response.headers["Cache-Control"] = "no-cache"
        return response


CLIENT: Final = (STATIC / "client").resolve()  # in a checkout a link to clients/js/src


def _assets(path: str, directory: Path) -> Mount:
    return Mount(path, Guard("public")(Assets(directory=directory)))


surface = HttpSurface(
    "console",
    [
        *router.routes,
        _assets(f"{ASSETS_PATH}/swagger-ui", SWAGGER_UI),
        _assets(f"{ASSETS_PATH}/client", CLIENT),
        _assets(ASSETS_PATH, STATIC),
    ],
)
