"""SQLite on a network file system is refused before a file is made there."""

from pathlib import Path

import pytest

from firstword.app import database
from firstword.app.database import Database, DatabaseError, file_system_of
from firstword.app.speakers.store import SpeakerStore
from firstword.app.telemetry.usage import USAGE

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:40 / {folder}/far rw,relatime shared:2 master:1 - {kind} server:/export rw,vers=4.2
41 40 8:2 / {folder}/far/near\\040disk rw,relatime - xfs /dev/sdb1 rw
"""


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.format(folder=tmp_path, kind=getattr(request, "param", "nfs4")))
    monkeypatch.setattr(database, "MOUNTS", mounts)
    return tmp_path


@pytest.mark.parametrize("mounted", ["nfs", "nfs4", "cifs", "fuse.sshfs"], indirect=True)
def test_network_file_system_is_refused_with_what_to_do(mounted: Path) -> None:
    path = mounted / "far" / "data" / "speakers.sqlite3"
    with pytest.raises(DatabaseError, match=r"set FIRSTWORD_DATA_DIR to a local disk, or FIRSTWORD_STORE"):
        SpeakerStore(path)
    assert not (mounted / "far").exists()


def test_local_disk_within_and_beside_it_is_taken(mounted: Path) -> None:
    for path in (mounted / "here" / "usage", mounted / "far" / "near disk" / "usage"):
        Database(path, USAGE).close()
    assert file_system_of(mounted / "far" / "near disk" / "x") == "xfs"
    assert file_system_of(mounted / "farther") == "ext4"
    with pytest.raises(DatabaseError, match=r"network file system \(nfs4\), where SQLite loses data"):
        Database(mounted / "far" / "usage", USAGE)


def test_system_that_names_no_mounts_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "MOUNTS", tmp_path / "nothing")
    Database(tmp_path / "usage", USAGE).close()


def test_mounts_may_have_names_that_are_no_utf_8(mounted: Path) -> None:
    with database.MOUNTS.open("ab") as mounts:
        mounts.write(b"42 22 8:3 / /media/B\xfccher rw,relatime - vfat /dev/sdc1 rw\n")
    assert file_system_of(mounted / "far") == "nfs4"
