"""Files that are written whole, and what was there before them."""

import os
from pathlib import Path

import pytest

from firstword.files import write_whole


@pytest.mark.usefixtures("_full_disk")
def test_a_full_disk_leaves_what_was_there_and_is_said_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left") as full:
        write_whole(path, b"new")
    assert full.value.filename == str(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a.wav": b"old"}


def test_a_file_has_the_mode_that_any_has_or_that_of_the_one_before(tmp_path: Path) -> None:
    path, other = tmp_path / "a.wav", tmp_path / "b.wav"
    write_whole(path, b"new")
    other.touch()
    assert path.stat().st_mode == other.stat().st_mode
    path.chmod(0o640)
    write_whole(path, b"newer")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"newer", 0o640)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_stays_one(tmp_path: Path, is_there: bool) -> None:
    path, link = tmp_path / "a.wav", tmp_path / "link.wav"
    if is_there:
        path.write_bytes(b"old")
    link.symlink_to(path.name)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"


def test_a_link_to_itself_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link.wav"
    link.symlink_to(link.name)
    write_whole(link, b"new")
    assert link.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(path, b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert path.is_fifo()


def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 251 + ".wav")
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"
