"""The class that tritonserver loads, with its backend pretended."""

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.anyio
FINAL = 1


class Sender:
    """Notes what is sent; waits with each response until the test lets it go."""

    def __init__(self, is_cancelled: bool = False) -> None:
        self.sent: list[Any] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_sending = threading.Event()
        self._is_cancelled = is_cancelled

    def send(self, response: Any = None, flags: int = 0) -> None:
        self.is_sending.set()
        assert self.goes_on.wait(30)
        self.sent.append((response, flags))

    def is_cancelled(self) -> bool:
        return self._is_cancelled


@pytest.fixture
def responder_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    backend = ModuleType("triton_python_backend_utils")
    backend.TRITONSERVER_RESPONSE_COMPLETE_FINAL = FINAL  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend)
    monkeypatch.delitem(sys.modules, "firstword.app.hosts.triton.model", raising=False)
    from firstword.app.hosts.triton.model import Responder

    yield Responder
    sys.modules.pop("firstword.app.hosts.triton.model", None)


async def test_a_response_whose_stream_was_cancelled_before_it_went_is_no_fault(
    responder_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    responder, busy, left = responder_of(asyncio.get_running_loop()), Sender(), Sender()
    busy.goes_on.clear()
    first = asyncio.create_task(responder.send(busy, "first"))
    await asyncio.to_thread(busy.is_sending.wait, 30)
    second = asyncio.create_task(responder.send(left, "second"))
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.wait([second])
    busy.goes_on.set()
    await first
    responder.finish(left, "cancelled", None)
    await asyncio.to_thread(responder.close)
    assert left.sent == [("cancelled", 0), (None, FINAL)]
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_final_responses_go_out_when_the_loop_has_ended(
    responder_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[responder_of.__module__], "CANCEL_LOOK_S", 0.0)
    busy, left, last = Sender(), Sender(is_cancelled=True), Sender()
    busy.goes_on.clear()

    async def ended() -> Any:
        responder, task = responder_of(asyncio.get_running_loop()), asyncio.current_task()
        responder.finish(busy, None)
        for sender in (left, last):
            responder.watch(sender, task)
        return responder

    responder = await asyncio.to_thread(asyncio.run, ended())
    for sender in (left, last):
        responder.finish(sender, None)
    busy.goes_on.set()
    await asyncio.to_thread(responder.close)
    assert [sender.sent for sender in (busy, left, last)] == [[(None, FINAL)]] * 3
