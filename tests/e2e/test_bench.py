"""The instruments that start a server of their own, on the built-in voice: small, but whole."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from firstword.bench import cancels, constancy, first_words, soak
from firstword.bench.server import ServerDidNotStart, counted, footing, own_server
from tests.commands.typed import run

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc"),
]


def test_short_streams_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("FIRSTWORD_")]:
        monkeypatch.delenv(name)
    with own_server() as server:
        before = footing(server)
        assert before.memory_mb > 100
        assert before.threads > 2
        found = asyncio.run(soak.measure(server, num_streams=20, at_a_time=3))
        assert found.faults == {}
        assert found.leaks == []
        assert [reading.num_streams for reading in found.readings] == [0, 2, 5, 10, 15, 20]
        assert sum(found.ways.values()) == 20

        gone = asyncio.run(cancels.measure(server.url, num_cancels=6, at_a_time=2))
        assert [one.num_values for one in gone] == [6, 6]
        assert counted(server.url)["tts_cancelled_total{reason=client_cancel}"] >= 6

        written = asyncio.run(first_words.measure(server.url, num_texts=1))
        seconds = {speed: quantiles[0].value for speed, quantiles in written.items()}
        assert 0.05 < seconds["50 tokens a second"] < seconds["3 words a second"] < 20

        load = ("--seconds", "2", "--concurrency", "2", "--rates", "", "--json", str(tmp_path / "found.json"))
        result = run("bench", "--url", server.url, *load)
        assert result.exit_code == 0, result.output
        (level,) = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["levels"]
        assert level["server"]["num_requests"] == level["num_asked"]
        assert 0 <= level["server"]["queue_s"] < level["server"]["compute_s"] < 60
        assert footing(server).requests == 0


def test_server_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerDidNotStart, match="FIRSTWORD_MAX_STREAMS"), own_server({"max_streams": -1}):
        pass


def test_cost_of_a_long_stream_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds 6 to 9 in place of 59 to 62, so that it takes seconds."""
    monkeypatch.setattr(constancy, "LATE_S", (6.0, 9.0))
    monkeypatch.setattr(constancy, "LAST_S", 9.5)
    monkeypatch.setattr(constancy, "MEMORY_AT_S", (3.0, 8.0))
    with own_server() as server:
        found = asyncio.run(constancy.measure(server, streams=1))
    assert found.ratio.num_values == found.cpu_ratio.num_values == 3
    assert 0.2 < found.cpu_ratio.value < 5
    assert len(found.grown_mb) == 1
