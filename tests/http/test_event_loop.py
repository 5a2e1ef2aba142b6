"""What takes long is not done on the event loop."""

import asyncio
import json
import threading
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from firstword.app.clients import ANYBODY
from firstword.app.http import encoding
from firstword.app.http.bodies import BLOCK_BYTES, BodyLimitMiddleware
from firstword.app.http.routes import Guard, Matched
from firstword.app.surfaces import speakers
from tests.support.serving import HELLO, LIMITS, in_process, make_services

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@pytest.mark.parametrize("format", ["wav", "pcm", "mp3"])
async def test_a_complete_body_is_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    threads = []
    encode_whole = encoding.encode_whole

    def watched(*given: Any) -> bytes:
        threads.append(threading.current_thread())
        return encode_whole(*given)

    monkeypatch.setattr(encoding, "encode_whole", watched)
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json={"text": HELLO, "stream": False, "format": format})
    assert answer.status_code == 200
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_metrics_are_written_in_a_thread() -> None:
    services, threads = make_services(), []

    def watched() -> float:
        threads.append(threading.current_thread())
        return 1

    services.metrics.speakers.set_function(watched)
    async with in_process(services) as client:
        assert (await client.get("/metrics")).status_code == 200
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


@pytest.mark.parametrize("num_bytes", [0, 1, BLOCK_BYTES, BLOCK_BYTES + 1, 10 * MIB])
async def test_a_body_reaches_the_application_in_pieces_and_others_run_between(num_bytes: int) -> None:
    body = (b"0123456789abcdef" * (num_bytes // 16 + 1))[:num_bytes]
    pieces: list[Message] = []
    turns = 0
    turns_at_pieces = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        while not pieces or pieces[-1]["more_body"]:
            pieces.append(await receive())
            turns_at_pieces.append(turns)
        assert await receive() == {"type": "http.disconnect"}

    given = iter([{"type": "http.request", "body": body}, {"type": "http.disconnect"}])

    async def receive() -> Message:
        return next(given)

    async def send(message: Message) -> None:
        pytest.fail(f"{message} was sent")

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    guard: Guard = speakers.enrol.__dict__["guard"]
    state = {"matched": Matched(guard, guard.body(LIMITS)), "client": ANYBODY}
    middleware = BodyLimitMiddleware(application, make_services())
    turning = asyncio.ensure_future(other())
    await middleware({"type": "http", "headers": [], "state": state}, receive, send)
    turning.cancel()
    assert b"".join(piece["body"] for piece in pieces) == body
    assert max(len(piece["body"]) for piece in pieces) <= BLOCK_BYTES
    assert turns_at_pieces == sorted(set(turns_at_pieces))


async def test_a_body_that_comes_in_pieces_is_parsed() -> None:
    content = json.dumps({"text": HELLO}).ljust(LIMITS.max_body_bytes)
    async with in_process(make_services()) as client:
        headers = {"Content-Type": "application/json"}
        answer = await client.post("/tts", content=content.encode(), headers=headers)
    assert answer.status_code == 200
