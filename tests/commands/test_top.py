"""`firstword top`: what it shows of a server, and what it says where there is nothing to show."""

import asyncio
import contextlib
import io
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from firstword.app.commands import client, top
from firstword.app.commands.top import Reading, Window
from firstword.app.core.interface import EngineStatus
from firstword.app.http.service import Service
from tests.commands.typed import refused, run
from tests.support.fake_engine import FakeEngine
from tests.support.serving import make_services, make_surfaces, serving
from tests.support.terminal import Terminal

pytestmark = pytest.mark.anyio
NAME = "tts_time_to_first_byte_seconds"
OK = "tts_requests_total"


@pytest.fixture
def services() -> Service:
    return make_services(FakeEngine())


@pytest.fixture
async def url(services: Service) -> AsyncIterator[str]:
    async with serving(services) as url:
        yield url


async def test_one_view_of_a_server(services: Service, url: str) -> None:
    metrics = services.metrics
    for seconds in (0.12, 0.12, 0.12, 0.4):
        metrics.time_to_first_byte_seconds.labels("http").observe(seconds)
    metrics.max_streams.set(4)
    metrics.requests_in_flight.set(3)
    metrics.queue_depth.set(1)
    metrics.file_queue_depth.set(1)
    metrics.requests.labels("http", "ok").inc(4)
    metrics.stage_seconds.labels("flow").observe(3.0)
    metrics.stage_seconds.labels("vocoder").observe(1.0)
    result = await asyncio.to_thread(run, "top", "--once", "--url", url)
    assert result.exit_code == 0, result.output
    lines = {line.split("  ")[0].strip(): line for line in result.stdout.splitlines()}
    assert "fake-voice on fake  ready" in result.stdout
    assert "1 of 4, 2 waiting" in lines["streams"]
    assert "4 ok, 0 rejected, 0 failed, 0 cancelled" in lines["requests"]
    assert "median 117 ms, 95 % 380 ms" in lines["first byte"]
    assert "nothing yet" in lines["real-time factor"]
    assert ("75%" in lines["flow"], "25%" in lines["vocoder"]) == (True, True)


async def test_what_waits_without_being_a_stream_counts_no_stream_less(services: Service, url: str) -> None:
    services.metrics.max_streams.set(4)
    services.metrics.queue_depth.set(2)  # listings of tokens
    result = await asyncio.to_thread(run, "top", "--once", "--url", url)
    assert "0 of 4, 2 waiting" in result.stdout


async def test_an_unready_server_says_why(services: Service, url: str) -> None:
    assert isinstance(services.engine, FakeEngine)
    services.engine.status = EngineStatus(is_ready=False, reason="draining")
    result = await asyncio.to_thread(run, "top", "--once", "--url", url)
    assert "not ready: draining" in result.stdout


def reading(at_s: float, *counts: float) -> Reading:
    """counts: of a histogram with the bounds 0.1, 0.2 and none, cumulative."""
    bounds = ("0.1", "0.2", "+Inf")
    samples = {(f"{NAME}_bucket", frozenset({("le", le)})): n for le, n in zip(bounds, counts, strict=True)}
    return Reading(at_s, samples | {(f"{NAME}_count", frozenset()): counts[-1]}, True, "")


@pytest.mark.parametrize(
    ("first", "last", "median"),
    [
        (None, (0, 0, 0), None),
        (None, (10, 10, 10), 0.05),
        (None, (0, 10, 10), 0.15),
        (None, (0, 0, 10), 0.2),  # beyond the last bound: at least that
        ((100, 100, 100), (100, 110, 110), 0.15),  # what was before does not count
        ((100, 100, 100), (100, 100, 100), None),
    ],
)
def test_quantiles_are_of_the_window(
    first: tuple[float, ...] | None, last: tuple[float, ...], median: float | None
) -> None:
    window = Window(None if first is None else reading(0, *first), reading(60, *last))
    assert window.quantile(NAME, 0.5) == pytest.approx(median)


async def test_on_a_terminal_it_goes_on_until_it_is_ended(services: Service, url: str) -> None:
    command = [Path(sys.executable).parent / "firstword", "top", "--every", "0.2", "--url", url]
    with Terminal(command) as terminal:
        await asyncio.to_thread(terminal.wait_for, "nothing yet")
        services.metrics.time_to_first_byte_seconds.labels("http").observe(0.12)
        await asyncio.to_thread(terminal.wait_for, "median 112 ms")
        os.kill(terminal.process.pid, signal.SIGINT)
        await asyncio.to_thread(terminal.read_to_end)
        assert await asyncio.to_thread(terminal.process.wait, 20) == 0


def watch(
    monkeypatch: pytest.MonkeyPatch, read: Callable[[httpx.Client], Reading], screen: io.StringIO
) -> None:
    """Watch a server until `read` interrupts."""
    monkeypatch.setattr(top, "_read", read)
    monkeypatch.setattr(top, "to_stdout", lambda: Console(file=screen, force_terminal=True))
    monkeypatch.setattr(client, "ask", lambda *_: None)
    monkeypatch.setattr(client, "json_of", lambda _: {"checkpoint": "a voice", "backend": "torch"})
    top.top(every=0)


def test_counts_begin_anew_behind_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of before had counted five, that of now two, and then three."""
    counts = iter([(1, 5), (2, 2), (2, 3)])  # of a process by when it was started
    shown: list[tuple[bool, float]] = []

    def read(_: httpx.Client) -> Reading:
        if (count := next(counts, None)) is None:
            raise KeyboardInterrupt
        samples = dict(
            zip([("process_start_time_seconds", frozenset()), (OK, frozenset())], count, strict=True)
        )
        return Reading(0, samples, True, "")

    def view(window: Window, *_: object) -> str:
        shown.append((window.seconds is None, window.growth(OK)))
        return ""

    monkeypatch.setattr(top, "_view", view)
    watch(monkeypatch, read, io.StringIO())
    assert shown == [(True, 5), (True, 2), (False, 1)]


@pytest.mark.timeout(20)
def test_an_interrupt_whose_exception_is_lost_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = 0
    handler = signal.getsignal(signal.SIGINT)  # ignored, where a shell runs the tests in the background

    def read(_: httpx.Client) -> Reading:
        nonlocal readings
        readings += 1
        if readings == 2:
            with contextlib.suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        return reading(0, 0, 0, 0)

    screen = io.StringIO()
    watch(monkeypatch, read, screen)
    assert readings == 2
    assert "a voice on torch" in screen.getvalue()
    assert signal.getsignal(signal.SIGINT) is handler


async def test_a_server_with_its_metrics_elsewhere_says_so() -> None:
    async with serving(make_services(), surfaces=make_surfaces(metrics_port=1)) as url:
        line = await asyncio.to_thread(refused, "top", "--once", "--url", url)
    assert "FIRSTWORD_METRICS_PORT has moved them" in line


async def test_a_server_with_keys_says_so() -> None:
    async with serving(make_services(keys=["anna:sesame"])) as url:
        line = await asyncio.to_thread(refused, "top", "--once", "--url", url)
    assert "--api-key" in line


def test_without_a_server_it_is_one_line() -> None:
    assert "no server answers at http://127.0.0.1:1" in refused("top", "--url", "http://127.0.0.1:1")
