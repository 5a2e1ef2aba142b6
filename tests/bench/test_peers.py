"""`bench peers`: the processes, the order, and what stands in the table; with engines that cost nothing."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from firstword.bench import peer_side, peers, plots
from firstword.bench.peer_side import Missing

TEXTS = ("One sentence.", "Another one.", "A third.")


def test_a_side_tells_when_the_first_piece_came() -> None:
    def speak(text: str):
        yield np.zeros(100, np.float32)
        yield np.ones(len(text), np.float32)

    samples, first_s, all_s = peer_side.spoken(speak, "four")
    assert samples.tolist() == [*[0.0] * 100, *[1.0] * 4]
    assert 0 < first_s <= all_s


def test_a_command_that_is_not_there_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Missing, match="there is no command flite: apt-get install flite"):
        peer_side.flite(1)


STAND_IN = """
import json, sys
import numpy as np
name = sys.argv[1]
if name == "absent":
    print(json.dumps({"missing": "pip install absent"}), flush=True)
    sys.exit()
if name == "broken":
    sys.exit(3)
print(json.dumps({"ready": name}), flush=True)
for line in sys.stdin:
    text, path = json.loads(line)
    np.savez(path, samples=np.full(len(text), 0.5, np.float32), rate_hz=8000)
    took = {"first_s": 0.1, "all_s": 0.2, "audio_s": len(text) / 8000, "memory_mb": 7.0}
    with open(path + ".order", "w") as file:
        file.write(name)
    print(json.dumps(took), flush=True)
"""


def test_engines_speak_every_text_in_turn_and_the_missing_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(peers, "SIDE", "stand_in")
    results, missing = peers.measure(["first", "absent", "broken", "second"], TEXTS, 1, tmp_path)
    assert missing == {"absent": "pip install absent", "broken": "its process ended with 3"}
    assert list(results) == ["first", "second"]
    for name, result in results.items():
        assert result.audio_s == [len(text) / 8000 for text in TEXTS]
        assert result.memory_mb == 7.0
        samples, rate_hz = peers.read(tmp_path, name, 1)
        assert (len(samples), rate_hz) == (len(TEXTS[1]), 8000)
    changes = [
        (tmp_path / f"{name}-{place:03}.npz.order").stat().st_mtime_ns
        for place in range(3)
        for name in (("second", "first") if place % 2 == 0 else ("first", "second"))
    ]
    assert changes == sorted(changes)


def test_the_row_of_an_engine() -> None:
    result = peers.Spoken(
        [0.1, 0.3, 0.2], [0.2] * 3, [1.0] * 3, [1, 0, 0], [4, 4, 2], [3.0, 4.0], [2.0, 3.0], 9.0
    )
    row = result.row()
    assert row["first audio, ms"] == pytest.approx(200)
    assert row["compute over audio"] == pytest.approx(0.2)
    assert (row["WER"], row["P.808"], row["overall"], row["memory, MB"]) == (0.1, 3.5, 2.5, 9.0)
    table = peers.as_table({"one": row})
    assert [column.header for column in table.columns] == ["", *row]


def test_the_plot_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the picture needs the extra `training`")
    row = {"first audio, ms": 20.0, "compute over audio": 0.1, "P.808": 3.0}
    assert plots.plot_engines({"one": row, "two": row}, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_this_program_is_one_of_the_engines(tmp_path: Path) -> None:
    with closing(peers.Engine("firstword", 1)) as engine:
        told = engine.speak("Good morning.", tmp_path / "said.npz")
    samples = np.load(tmp_path / "said.npz")["samples"]
    assert 0 < told["first_s"] <= told["all_s"]
    assert told["audio_s"] == len(samples) / 24_000 > 0.4
    assert np.abs(samples).max() > 0.05
    assert told["memory_mb"] > 100
