"""Utterances of different lengths in one file."""

from pathlib import Path

import numpy as np
import pytest

from training import ragged


def test_what_was_saved_comes_back_row_by_row_out_of_all_files(tmp_path: Path) -> None:
    mels = [np.ones((3, 2)), np.zeros((0, 2)), np.full((1, 2), 7.0)]
    ragged.save(tmp_path / "one.npz", {"mel": mels, "ids": [np.arange(n) for n in (1, 2, 0)]})
    ragged.save(tmp_path / "two.npz", {}, texts=np.array(["a", "bc", "d"]))
    rows = ragged.load(tmp_path / "one.npz", tmp_path / "two.npz")
    assert [row["texts"] for row in rows] == ["a", "bc", "d"]
    assert [row["ids"].tolist() for row in rows] == [[0], [0, 1], []]
    for row, mel in zip(rows, mels, strict=True):
        np.testing.assert_array_equal(row["mel"], mel)
    assert not list(tmp_path.glob("*.partial"))


def test_files_of_different_utterances_do_not_load(tmp_path: Path) -> None:
    ragged.save(tmp_path / "one.npz", {"ids": [np.arange(2), np.arange(3)]})
    ragged.save(tmp_path / "two.npz", {}, texts=np.array(["a"]))
    with pytest.raises(ValueError, match="shorter"):
        ragged.load(tmp_path / "one.npz", tmp_path / "two.npz")
