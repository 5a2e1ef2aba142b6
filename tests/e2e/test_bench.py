"""The instruments that start a server of their own, on the built-in voice: small, but whole."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from firstword.bench import compare, soak, walk
from firstword.bench.server import ServerDidNotStart, counted, footing, own_server
from tests.commands.typed import run

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc"),
]


def test_short_streams_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("FIRSTWORD_")]:
        monkeypatch.delenv(name)
    with own_server({"max_streams": 8}) as server:  # none is refused, however slow the machine
        before = footing(server)
        assert before.memory_mb > 100
        assert before.threads > 2
        found = asyncio.run(soak.measure(server, num_streams=12, at_a_time=3))
        assert found.faults == {}
        assert found.leaks == []
        assert [reading.num_streams for reading in found.readings] == [0, 1, 3, 6, 9, 12]
        assert sum(found.ways.values()) == 12
        assert counted(server.url)["tts_cancelled_total{reason=client_cancel}"] <= found.ways["cancelled"]

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


def test_starts_of_two_servers_are_compared() -> None:
    found = compare.compare_starts(
        compare.Subject({"max_streams": "1"}), compare.Subject({"max_streams": "2"}, ROOT), 1
    )
    for name, least in (("start-up", 0.5), ("memory after it", 100)):
        ((one, other),) = found[name]
        assert min(one, other) > least
        assert 0.2 < one / other < 5


def test_functions_that_a_text_passes_are_counted() -> None:
    found = walk.walk(ROOT)
    assert {("app/surfaces/tts.py", "speak"), ("models/lm/decoder.py", "SpeechDecoder.step")} <= set(found)
    assert len(found) < 500
    assert not [file for file, _ in found if "onnx/build" in file or "settings" in file]
