import json
from pathlib import Path

import pytest

from firstword.bench import distances

EVERY = {
    "language model in int8, nats a step",
    "language model in int4, nats a step",
    "flow, log-mel",
    "waveform, log-mel",
    "flow's state in int8, log-mel",
}


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_eight_bits_are_another_thing_than_float32_but_not_far(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "distances.json"
    words = ["--random", family, "--size", "small", "--tokens", "30", "--json", str(report)]
    distances.main(words)
    found = json.loads(report.read_text())
    every = EVERY | {"vocoder, log-mel"} if family == "cosyvoice2" else EVERY
    assert found.keys() == every
    assert all(0 < found[name]["mean"] <= found[name]["max"] for name in every)
    assert found["flow, log-mel"]["mean"] < 0.05
    printed = capsys.readouterr().out
    assert all(name in printed for name in every)
