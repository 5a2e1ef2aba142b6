"""`firstword bench` against a server that answers, and against what is none."""

import asyncio
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.commands.typed import refused, run
from tests.support.fake_engine import INFO, FakeEngine
from tests.support.python import modules_after
from tests.support.serving import make_services, serving

SHORT = ("--seconds", "1", "--concurrency", "1", "--rates", "")


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(replace(INFO, languages=("en",)))


@pytest.fixture
def url(engine: FakeEngine) -> Iterator[str]:
    """Of a server in a thread of its own, since the command has this one."""
    ready, urls = threading.Event(), list[str]()
    loop, stop = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with serving(make_services(engine, keys=("anna:secret",))) as url:
            urls.append(url)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(20)
    yield urls[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    loop.close()


def test_running_server_is_measured(url: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    result = run("bench", "--url", url, "--api-key", "secret", *SHORT, "--json", str(path))
    assert result.exit_code == 0, result.output
    assert "1 at a time, http" in result.stdout
    assert json.loads(path.read_text(encoding="utf-8"))["levels"][0]["num_failed"] == 0


def test_listeners_and_what_is_good_are_chosen(url: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    more = ("--listeners", "2", "--max-ttfa-ms", "1", "--max-gap-ms", "5000", "--any-speech", "--seed", "3")
    result = run("bench", "--url", url, "--api-key", "secret", *SHORT, *more, "--json", str(path))
    assert result.exit_code == 0, result.output
    report = json.loads(path.read_text(encoding="utf-8"))
    assert [level["load"]["kind"] for level in report["levels"]] == ["closed", "listeners"]
    assert report["plan"]["goal"] == {"max_ttfa_s": 0.001, "max_gap_s": 5.0}
    assert (report["plan"]["seed"], report["plan"]["judges_speech"]) == (3, False)


def test_speech_that_is_not_sound_ends_with_one(url: str, engine: FakeEngine) -> None:
    engine.samples_per_character = 100
    result = run("bench", "--url", url, "--api-key", "secret", *SHORT)
    assert result.exit_code == 1
    assert "truncated" in result.stdout


def test_wrong_key_is_one_line(url: str) -> None:
    assert "invalid_api_key" in refused("bench", "--url", url, "--api-key", "wrong", *SHORT)


def test_no_server_is_one_line() -> None:
    assert "no server answers" in refused("bench", "--url", "http://127.0.0.1:9", *SHORT)


def test_bad_rate_is_one_line(url: str) -> None:
    line = refused("bench", "--url", url, "--api-key", "secret", "--rates", "-1")
    assert "expected a number over 0" in line


def test_measuring_a_server_loads_no_networks() -> None:
    assert not modules_after("import firstword.bench.latency") & {"torch", "models", "matplotlib"}
