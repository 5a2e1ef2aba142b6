"""Of a body that is too large or too slow no more is read than shows that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from firstword.app.errors import Overloaded
from firstword.app.http import held_bytes
from firstword.app.http.bodies import LINGER_BYTES
from firstword.app.http.forms import MAX_FIELDS
from firstword.app.http.held_bytes import HeldBytes
from firstword.app.http.limits import speech_body_bytes
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import until
from tests.support.serving import (
    LIMITS,
    PATIENCE_S,
    build_app,
    counted,
    error_of,
    in_process,
    make_services,
    serving,
)

pytestmark = pytest.mark.anyio

MIB = 1024**2
FORM_START = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nbo\r\n' + (
    b'--x\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
)
FORM_END = b"\r\n--x--\r\n"
FORM_TYPE = {"Content-Type": "multipart/form-data; boundary=x"}
JSON = {"Content-Type": "application/json"}


async def zeros(num_bytes: int, taken: list[int] | None = None) -> AsyncIterator[bytes]:
    """A body without Content-Length, in pieces of 64 KiB."""
    for _ in range(num_bytes // 65536):
        if taken is not None:
            taken.append(65536)
        yield b"0" * 65536


@pytest.mark.parametrize("path", ["/tts", "/v1/audio/speech"])
@pytest.mark.parametrize("is_chunked", [True, False])
async def test_ten_megabytes_of_json_are_refused(path: str, is_chunked: bool) -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with serving(services) as url, httpx.AsyncClient(base_url=url) as client:
        content = zeros(10 * MIB) if is_chunked else b"0" * 10 * MIB
        answer = await client.post(path, content=content, headers=JSON)
        after = await client.get("/livez")
    expected = (413, "text_too_long") if path == "/tts" else (400, "string_above_max_length")
    assert (answer.status_code, error_of(answer)["code"]) == expected
    assert answer.headers["connection"] == "close"
    assert after.status_code == 200
    assert not engine.streams
    assert counted(services, "tts_rejected_total", reason="too_long") == 1


async def test_reading_stops_soon_after_the_limit_is_passed() -> None:
    taken: list[int] = []
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", content=zeros(100 * MIB, taken), headers=JSON)
    assert answer.status_code == 413
    assert sum(taken) <= speech_body_bytes(LIMITS) + LINGER_BYTES + 2 * 65536


@pytest.mark.parametrize("head", ["Content-Length: 1000000", "Transfer-Encoding: chunked"])
async def test_a_client_that_sends_and_sends_is_answered_first(head: str) -> None:
    limits = replace(LIMITS, max_body_bytes=0x40000 - 4, max_reference_bytes=1)
    async with serving(make_services(limits=limits)) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"POST /tts HTTP/1.1\r\nHost: test\r\n{head}\r\n\r\n".encode())
        writer.write(b"40001\r\n" + b"0" * 0x40001)  # in either form one more than is read
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_a_body_of_just_the_limit_is_read() -> None:
    """With room for a recording in base64: 30 bytes are 40."""
    limits = replace(LIMITS, max_body_bytes=64, max_reference_bytes=30)
    async with in_process(make_services(limits=limits)) as client:
        at_limit = await client.post("/tts", content=b'{"text":"Hi."}'.ljust(104), headers=JSON)
        over_limit = await client.post("/tts", content=b'{"text":"Hi."}'.ljust(105), headers=JSON)
    assert (at_limit.status_code, over_limit.status_code) == (200, 413)


@pytest.mark.parametrize("path", ["/speakers", "/speakers/import"])
async def test_an_upload_over_its_limit_is_refused(path: str) -> None:
    """A bundle holds a recording and what was read of it."""
    field, max_bytes = ("audio", 10 * MIB) if path == "/speakers" else ("bundle", 12 * MIB)
    async with in_process(make_services()) as client:
        data = {"name": "bo"}
        at_limit = await client.post(path, data=data, files={field: bytes(max_bytes)})
        over_limit = await client.post(path, data={"name": "cy"}, files={field: bytes(max_bytes + 1)})
        far_over = await client.post(path, data=data, files={field: bytes(20 * MIB)})
    assert (at_limit.status_code, over_limit.status_code, far_over.status_code) == (201, 413, 413)
    assert error_of(over_limit)["code"] == error_of(far_over)["code"] == "upload_too_large"


async def test_an_upload_has_its_limit_behind_a_root_path_and_with_a_slash_too() -> None:
    app = FastAPI()
    app.mount("/voice", build_app(make_services()))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        upload = {"data": {"name": "bo"}, "files": {"audio": bytes(MIB)}}
        mounted = await client.post("/voice/speakers", **upload)
        with_slash = await client.post("/voice/speakers/", **upload)
    assert (mounted.status_code, with_slash.status_code) == (201, 409)


async def test_a_body_that_does_not_come_is_given_up() -> None:
    engine = FakeEngine()
    services = make_services(engine, limits=replace(LIMITS, body_timeout_s=0.1))
    async with serving(services) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /tts HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code": "timeout"' in answer


async def test_a_client_that_leaves_within_its_body_is_forgotten() -> None:
    engine = FakeEngine()
    services = make_services(engine)
    async with serving(services) as url:
        host, port = urlsplit(url).hostname, urlsplit(url).port
        _, writer = await asyncio.open_connection(host, port)
        writer.write(b"POST /tts HTTP/1.1\r\nHost: test\r\nContent-Length: 100\r\n\r\n{")
        await writer.drain()
        writer.transport.abort()
    assert not engine.streams


async def test_all_bodies_together_have_a_limit_and_one_alone_has_its_own() -> None:
    limits = replace(LIMITS, max_bodies_bytes=5 * MIB)
    go_on = asyncio.Event()

    async def held() -> AsyncIterator[bytes]:
        """A form that stops in the middle of its file."""
        yield FORM_START + bytes(MIB + MIB // 2)
        await go_on.wait()
        yield FORM_END

    services = make_services(limits=limits)
    async with serving(services) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        first = asyncio.create_task(client.post("/speakers", content=held(), headers=FORM_TYPE))
        await until(lambda: services.bounds.held.num_bytes > MIB + MIB // 2)
        refused = await client.post("/speakers", files={"audio": bytes(MIB)})
        assert refused.status_code == 503
        small = await client.post("/tts", json={"text": "Hi."})
        go_on.set()
        assert (await first).status_code == 201
        alone = await client.post("/speakers", data={"name": "cy"}, files={"audio": bytes(6 * MIB)})
    assert (refused.headers["retry-after"], error_of(refused)["code"]) == ("1", "overloaded")
    assert small.status_code == 200
    assert alone.status_code == 201
    assert counted(services, "tts_rejected_total", reason="queue_full") >= 1


async def test_the_bodies_of_one_client_leave_room_for_those_of_others() -> None:
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=4 * MIB), keys=["ann:a", "bob:b"])
    form = {**FORM_TYPE, "X-API-Key": "a", "Content-Length": str(MIB + MIB // 2)}
    async with serving(services) as url, httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
        go_on = asyncio.Event()

        async def held() -> AsyncIterator[bytes]:
            """Its head names what it will be."""
            yield FORM_START
            await go_on.wait()
            yield bytes(MIB + MIB // 2 - len(FORM_START) - len(FORM_END)) + FORM_END

        first = asyncio.create_task(client.post("/speakers", content=held(), headers=form))
        await until(lambda: services.bounds.held.num_bytes > MIB)
        upload = {"data": {"name": "cy"}, "files": {"audio": bytes(MIB)}}
        same = await client.post("/speakers", **upload, headers={"X-API-Key": "a"})
        other = await client.post("/speakers", **upload, headers={"X-API-Key": "b"})
        small = await client.post("/tts", json={"text": "Hi, there."}, headers={"X-API-Key": "a"})
        go_on.set()
        assert (await first).status_code == 201
    assert (same.status_code, other.status_code, small.status_code) == (503, 201, 200)
    assert "this client's uploads are more than 1572864 bytes at once" in error_of(same)["message"]


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


KEYS = [f"client{number}:k{number}" for number in range(8)]


async def send_heads(url: str, stack: AsyncExitStack, key: str, count: int) -> list[asyncio.StreamReader]:
    """Announce recordings of 10 MB by the heads of their requests, and send nothing of them."""
    readers = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        stack.callback(writer.close)
        head = f"POST /speakers HTTP/1.1\r\nHost: test\r\nX-API-Key: {key}\r\nContent-Length: {10 * MIB}\r\n"
        writer.write(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n".encode())
        await writer.drain()
        readers.append(reader)
    return readers


async def test_heads_alone_of_three_clients_keep_no_upload_of_another_out() -> None:
    services = make_services(keys=KEYS)
    async with serving(services) as url, AsyncExitStack() as stack:
        for number in range(3):
            await send_heads(url, stack, f"k{number}", 20)
        await until(lambda: services.bounds.held.num_bytes >= 60 * MIB)
        async with asyncio.timeout(5), httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            upload = {"data": {"name": "cy"}, "files": {"audio": bytes(10 * MIB - 1)}}
            answer = await client.post("/speakers", **upload, headers={"X-API-Key": "k3"})
    assert answer.status_code == 201, answer.text


async def test_a_head_without_its_body_makes_room_once_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_bytes, "GRACE_S", 0.1)
    monkeypatch.setattr(held_bytes, "PART_OF_BEGUN", 0)
    services = make_services(keys=KEYS)
    async with serving(services) as url, AsyncExitStack() as stack:
        (first,) = await send_heads(url, stack, "k0", 1)
        for number in range(1, 6):
            await send_heads(url, stack, f"k{number}", 1)
        await until(lambda: services.bounds.held.num_bytes >= 60 * MIB)
        async with asyncio.timeout(5), httpx.AsyncClient(base_url=url, timeout=PATIENCE_S) as client:
            upload = {"data": {"name": "cy"}, "files": {"audio": bytes(10 * MIB - 1)}}
            status = 503
            while status == 503:
                status = (await client.post("/speakers", **upload, headers={"X-API-Key": "k6"})).status_code
            refused = await first.readuntil(b"}}")
    assert status == 201
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"gave up this one" in refused


async def test_a_body_without_a_length_may_take_its_time() -> None:
    """3 MB at 1 Mbit/s are whole after 24 of 30 s, and never late."""
    clock = Clock()
    services = make_services()
    services.bounds.held = HeldBytes(8 * MIB, clock=clock)

    async def slow() -> AsyncIterator[bytes]:
        yield FORM_START
        for _ in range(24):
            clock.now_s += 1
            yield bytes(125_000)
            with pytest.raises(Overloaded), services.bounds.held.held("another", 8 * MIB):
                pass
        yield FORM_END

    async with in_process(services) as client:
        answer = await client.post("/speakers", content=slow(), headers=FORM_TYPE)
    assert answer.status_code == 201, answer.text


async def test_a_body_given_up_right_before_its_end_is_refused() -> None:
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=2 * MIB))
    with ExitStack() as stack:

        async def given_up() -> AsyncIterator[bytes]:
            yield FORM_START + bytes(MIB + MIB // 2)
            stack.enter_context(services.bounds.held.held("another", MIB))
            yield FORM_END

        length = {"Content-Length": str(len(FORM_START) + MIB + MIB // 2 + len(FORM_END))}
        async with in_process(services) as client:
            answer = await client.post("/speakers", content=given_up(), headers=FORM_TYPE | length)
    assert answer.status_code == 503, answer.text
    assert "gave up this one" in error_of(answer)["message"]


async def test_a_body_is_no_longer_counted_once_its_request_is_over() -> None:
    services = make_services(limits=replace(LIMITS, max_bodies_bytes=MIB))
    async with in_process(services) as client:
        for number in range(5):
            upload = {"data": {"name": f"bo{number}"}, "files": {"audio": bytes(MIB)}}
            assert (await client.post("/speakers", **upload)).status_code == 201
            assert (await client.post("/speakers", files={"audio": bytes(11 * MIB)})).status_code == 413
        assert (await client.post("/tts", json={"text": "Hi."})).status_code == 200


@pytest.mark.parametrize("path", ["/tts", "/speakers", "/inference_zero_shot"])
async def test_a_text_of_a_form_that_is_too_long_is_told_so(path: str) -> None:
    async with in_process(make_services()) as client:
        fields = {"audio": (None, b"a" * (MIB + 9)), "name": (None, b"bo")}
        answer = await client.post(path, files=fields)
    message = error_of(answer)["message"] or ""
    assert (answer.status_code, error_of(answer)["param"]) == (400, "audio")
    assert "of the field `audio` came " in message
    assert f"expected {MIB} at most of a text: send less, or as a file, with a `filename`" in message


async def test_what_is_wrong_with_a_form_is_said() -> None:
    async with in_process(make_services()) as client:
        many = [(f"f{number}", (None, b"a")) for number in range(MAX_FIELDS + 1)]
        answers = [
            await client.post("/tts", files=many),
            await client.post("/tts", headers=FORM_TYPE, content=b"--y\r\n\r\n--y--"),
        ]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert "number of fields is 64; send multipart/form-data" in (error_of(answers[0])["message"] or "")
    assert "the form cannot be read: Invalid multipart data" in (error_of(answers[1])["message"] or "")
