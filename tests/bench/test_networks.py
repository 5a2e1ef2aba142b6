"""The table of networks alone."""

import json
from pathlib import Path

import pytest

from firstword.bench.networks import main, worst_over_neighbors


def test_a_late_chunk_is_seen_beside_its_neighbors() -> None:
    assert worst_over_neighbors([2.0, 2.0, 2.2, 2.2, 2.4]) == pytest.approx(2.4 / 2.2)
    assert worst_over_neighbors([2.0, 2.0, 4.0, 2.2, 2.4]) == pytest.approx(4.0 / 2.1)
    assert worst_over_neighbors([4.0, 2.0, 2.0]) == 2.0


@pytest.mark.slow
def test_the_table_of_small_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firstword.bench.networks.MAX_OVER_NEIGHBORS", 1000)
    path = tmp_path / "networks.json"
    words = ["--size", "small", "--threads", "1", "--tokens", "8", "--seconds", "6", "--pairs", "1"]
    words += ["--solver-steps", "4"]
    main([*words, "--json", str(path)])
    results = json.loads(path.read_text())
    assert len(results["chunks_s"].split()) == 16
    assert results["worst_over_neighbors"] >= 1
    assert (results["solver_steps"], results["frames_per_second_and_pass"]) == (4, 50)
    monkeypatch.setattr("firstword.bench.networks.MAX_OVER_NEIGHBORS", 0)
    with pytest.raises(SystemExit, match="times the median of those beside it; at most 0 is expected"):
        main(words)
