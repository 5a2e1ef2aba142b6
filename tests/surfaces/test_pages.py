"""The console and the API's pages: served by ourselves, open, and bound to this server."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from firstword.app.http import context_messages
from firstword.app.surfaces.console.pages import SWAGGER_UI
from firstword.app.surfaces.websocket import messages
from firstword.app.surfaces.websocket.asyncapi import EXAMPLES, SERVER_MESSAGES
from tests.support.serving import error_of, in_process, make_services

pytestmark = pytest.mark.anyio

STATIC = Path(messages.__file__).parent.parent / "console" / "static"
PAGES = ["/", "/console", "/docs", "/asyncapi"]
MAX_CONSOLE_BYTES = 300_000
ADDRESS = re.compile(r"""(?:src|href|from|addModule\()\s*=?\s*"([^"#]+)\"""")


def assets() -> list[str]:
    return [f"/assets/{path.relative_to(STATIC).as_posix()}" for path in STATIC.rglob("*") if path.is_file()]


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_is_open_and_may_load_from_its_own_server_alone(path: str) -> None:
    async with in_process(make_services(keys=["anna:sesame"])) as client:
        page = await client.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "script-src" not in policy
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]
    assert not re.search(r"<script(?![^>]*\ssrc=)|\son\w+=|\sstyle=", page.text)


async def test_whatever_pages_and_modules_name_is_there_and_open() -> None:
    async with in_process(make_services(keys=["anna:sesame"])) as client:
        named = set(assets())
        for path in [*PAGES, *assets()]:
            text = (await client.get(path)).text
            for address in ADDRESS.findall(text):
                assert not address.startswith(("http:", "https:", "//")), f"{path} names {address}"
                folder = path.rpartition("/")[0]
                named.add(f"{folder}/{address[2:]}" if address.startswith("./") else address)
        closed = {"/openapi.json", "/asyncapi.json", "/metrics"}
        for address in named - closed:
            answer = await client.get(address)
            assert (answer.status_code, answer.headers.get("x-content-type-options")) == (200, "nosniff"), (
                address
            )
        for address in closed:
            assert (await client.get(address)).status_code == 401, address


async def test_operations_are_named_as_people_say_and_there_is_an_icon() -> None:
    async with in_process(make_services()) as client:
        paths = (await client.get("/openapi.json")).json()["paths"]
        icon = await client.get("/favicon.ico")
    names = [operation["summary"] for operations in paths.values() for operation in operations.values()]
    assert {"Speak a text", "Speak a text to a player", "List models"} <= set(names)
    assert not [name for name in names if re.search(r" [A-Z][a-z]+ [A-Z][a-z]", name)]
    assert (icon.status_code, icon.headers["content-type"]) == (200, "image/svg+xml")


async def test_an_unchanged_file_is_not_sent_again() -> None:
    async with in_process(make_services()) as client:
        first = await client.get("/assets/console/main.js")
        second = await client.get("/assets/console/main.js", headers={"If-None-Match": first.headers["etag"]})
    assert first.headers["cache-control"] == "no-cache"
    assert (second.status_code, second.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    ["/assets", "/assets/none.js", "/assets/console", "/assets/../../pages.py", "/assets/..%2f..%2fpages.py"],
)
async def test_the_open_folder_holds_nothing_else(path: str) -> None:
    async with in_process(make_services(keys=["anna:sesame"])) as client:
        answer = await client.get(path)
    assert answer.status_code in (401, 404)
    error_of(answer)


def test_the_console_is_light() -> None:
    sizes = {path.name: path.stat().st_size for path in (STATIC / "console").iterdir()}
    assert {"index.html", "style.css", "main.js"} <= set(sizes)
    assert sum(sizes.values()) <= MAX_CONSOLE_BYTES


def test_swagger_ui_comes_with_the_package_that_is_installed() -> None:
    assert {"swagger-ui-bundle.js", "swagger-ui.css"} <= {path.name for path in SWAGGER_UI.iterdir()}


def references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [found for item in node for found in references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [found for item in node.values() for found in references(item)]


def follow(document: dict[str, Any], reference: str) -> Any:
    node: Any = document
    for key in reference.removeprefix("#/").split("/"):
        node = node[key]
    return node


async def test_asyncapi_describes_every_message() -> None:
    async with in_process(make_services()) as client:
        document = (await client.get("/asyncapi.json")).json()
    assert document["asyncapi"] == "3.0.0"
    for reference in references(document):
        assert follow(document, reference), reference

    def names(action: str) -> list[str]:
        operation = document["operations"][action]
        assert operation["action"] == action
        return [reference.rpartition("/")[2] for reference in references(operation["messages"])]

    def types(models: Any) -> list[str]:
        return [model.model_fields["type"].default for model in models]

    assert names("receive") == types(get_args(messages.ClientMessage))
    kinds = {
        kind
        for kind in (*vars(messages).values(), *vars(context_messages).values())
        if isinstance(kind, type) and issubclass(kind, messages.Message)
    }
    typed = {kind for kind in kinds if not kind.model_fields["type"].is_required()}
    sent = typed - set(get_args(messages.ClientMessage))
    assert set(SERVER_MESSAGES) == sent
    assert set(names("send")) == {"frame", *types(sent)}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=str)
def test_an_example_is_a_message(example: dict[str, object]) -> None:
    assert messages.parse_message(json.dumps(example)).type == example["type"]
