import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from firstword.app.http.middleware import TimingMiddleware
from tests.support.clock import Clock

START: Message = {"type": "http.response.start", "status": 200}


async def state_of_request(request: Request) -> JSONResponse:
    state = request.state
    return JSONResponse({"id": state.request_id, "received_s": state.received_s, "own": state.own})


async def fails(request: Request) -> JSONResponse:
    raise RuntimeError("broken")


async def timed_by_its_route(request: Request) -> JSONResponse:
    return JSONResponse({}, headers={"Server-Timing": "queue;dur=1.0", "X-Request-Id": "wrong"})


async def socket(websocket: WebSocket) -> None:
    await websocket.accept(headers=[(b"x-own", b"1")])
    await websocket.send_text(websocket.state.request_id)
    await websocket.close()


async def refused_socket(websocket: WebSocket) -> None:
    await websocket.send_denial_response(JSONResponse({"error": "key"}, status_code=401))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(clock: Clock) -> TestClient:
    app = Starlette(
        routes=[
            Route("/state", state_of_request),
            Route("/fails", fails),
            Route("/timed", timed_by_its_route),
            WebSocketRoute("/socket", socket),
            WebSocketRoute("/refused", refused_socket),
        ]
    )
    client = TestClient(TimingMiddleware(app, clock), raise_server_exceptions=False)
    client.app_state["own"] = "of the lifespan"
    return client


@pytest.mark.parametrize("theirs", ["a", "req-1.2_3", "x" * 128])
def test_sane_id_of_the_client_is_kept(client: TestClient, theirs: str) -> None:
    answer = client.get("/state", headers={"X-Request-Id": theirs})
    assert answer.headers["X-Request-Id"] == answer.json()["id"] == theirs


@pytest.mark.parametrize("theirs", [None, "", "x" * 129, "a b", "a;b", "a\tb", "é", 'a"', "../etc"])
def test_other_ids_are_replaced_by_a_new_one(client: TestClient, theirs: str | None) -> None:
    headers = {} if theirs is None else {"X-Request-Id": theirs.encode()}
    answers = [client.get("/state", headers=headers) for _ in range(2)]
    ids = {answer.headers["X-Request-Id"] for answer in answers}
    assert ids == {answer.json()["id"] for answer in answers}
    assert len(ids) == 2
    assert all(re.fullmatch("[0-9a-f]{32}", id) for id in ids)


def test_route_finds_when_the_request_came_beside_the_lifespans_state(
    client: TestClient, clock: Clock
) -> None:
    answer = client.get("/state").json()
    assert (answer["received_s"], answer["own"]) == (clock.now_s, "of the lifespan")


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/fails", 500)])
def test_answers_to_failures_bear_the_headers_too(client: TestClient, path: str, status: int) -> None:
    answer = client.get(path, headers={"X-Request-Id": "mine"})
    assert answer.status_code == status
    assert answer.headers["X-Request-Id"] == "mine"
    assert answer.headers["Server-Timing"] == "total;dur=0.0"


def test_routes_own_timing_stays_and_the_id_is_the_requests(client: TestClient) -> None:
    answer = client.get("/timed", headers={"X-Request-Id": "mine"})
    assert answer.headers.get_list("Server-Timing") == ["queue;dur=1.0"]
    assert answer.headers.get_list("X-Request-Id") == ["mine"]


def test_accepted_websocket_bears_the_headers_beside_its_own(client: TestClient) -> None:
    with client.websocket_connect("/socket", headers={"X-Request-Id": "mine"}) as session:
        headers = dict(session.extra_headers)
        assert session.receive_text() == "mine"
    assert headers == {
        b"x-own": b"1",
        b"x-request-id": b"mine",
        b"server-timing": b"total;dur=0.0",
    }


def test_refused_websocket_bears_the_headers(client: TestClient) -> None:
    with (
        pytest.raises(WebSocketDenialResponse) as refusal,
        client.websocket_connect("/refused", headers={"X-Request-Id": "mine"}),
    ):
        pass
    assert refusal.value.status_code == 401
    assert refusal.value.headers["X-Request-Id"] == "mine"


def http_scope() -> Scope:
    return {"type": "http", "method": "GET", "path": "/", "headers": ()}


async def never() -> Message:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def drop(message: Message) -> None:
    pass


async def call(app: ASGIApp, send: Send, receive: Receive = never, clock: Clock | None = None) -> None:
    await TimingMiddleware(app, clock or Clock())(http_scope(), receive, send)


def sends(*messages: Message) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


@pytest.mark.anyio
async def test_total_is_the_time_up_to_the_answers_start() -> None:
    clock, sent = Clock(), list[Message]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        clock.pass_s(0.0425)
        await send(START)
        clock.pass_s(1)
        await send({"type": "http.response.body"})

    async def send(message: Message) -> None:
        sent.append(message)

    await call(app, send, clock=clock)
    assert (b"server-timing", b"total;dur=42.5") in sent[0]["headers"]


@pytest.mark.anyio
async def test_requests_of_a_server_that_shares_its_state_do_not_meet() -> None:
    shared = {"own": "of the lifespan"}
    scopes = [{**http_scope(), "state": shared} for _ in range(2)]
    for scope in scopes:
        await TimingMiddleware(sends())(scope, never, drop)
    one, other = (scope["state"] for scope in scopes)
    assert one["request_id"] != other["request_id"]
    assert one["own"] == other["own"] == "of the lifespan"
    assert shared == {"own": "of the lifespan"}


@pytest.mark.anyio
async def test_each_piece_of_a_body_goes_out_before_the_next_is_made() -> None:
    made, order = 0, list[str]()
    pieces: list[Message] = [
        {"type": "http.response.body", "body": bytes([n]), "more_body": n < 2} for n in range(3)
    ]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal made
        await send(START)
        for piece in pieces:
            made += 1
            await send(piece)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            order.append(f"{message['body'].hex()} of {made}")

    await call(app, send)
    assert order == ["00 of 1", "01 of 2", "02 of 3"]


@pytest.mark.anyio
async def test_message_of_the_app_is_not_written_into() -> None:
    start: Message = {**START, "headers": [(b"content-type", b"audio/wav")]}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await call(sends(start), send)
    assert start["headers"] == [(b"content-type", b"audio/wav")]
    assert sent[0]["headers"][0] == (b"content-type", b"audio/wav")


@pytest.mark.anyio
async def test_cancel_reaches_the_app_and_the_caller() -> None:
    has_started, was_cancelled = asyncio.Event(), False

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal was_cancelled
        await send(START)
        has_started.set()
        try:
            await receive()
        except asyncio.CancelledError:
            was_cancelled = True
            raise

    task = asyncio.create_task(call(app, drop))
    await has_started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert was_cancelled


@pytest.mark.anyio
async def test_app_learns_that_the_client_left() -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(await receive())

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await call(app, send, receive)
    assert heard == [{"type": "http.disconnect"}]


@pytest.mark.anyio
async def test_error_of_a_lost_connection_comes_back_to_the_app() -> None:
    errors: list[OSError] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(START)
        except OSError as error:
            errors.append(error)
            raise

    async def send(message: Message) -> None:
        raise OSError("gone")

    with suppress(OSError):
        await call(app, send)
    assert [str(error) for error in errors] == ["gone"]


@pytest.mark.anyio
async def test_lifespan_passes_untouched() -> None:
    scopes: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)

    async def send(message: Message) -> None:
        raise AssertionError(message)

    with anyio.fail_after(5):
        await TimingMiddleware(app)({"type": "lifespan"}, never, send)
    assert scopes == [{"type": "lifespan"}]
