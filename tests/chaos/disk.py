"""A disk of its own for a part of a cluster, which a test may fill to the last byte."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOM = "4g"  # of memory, were all of it used


@dataclass(frozen=True, slots=True)
class Disk:
    path: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more fits onto it meanwhile."""
        found = os.statvfs(self.path)
        self._resize(str((found.f_blocks - found.f_bfree) * found.f_frsize))
        try:
            yield
        finally:
            self._resize(ROOM)

    def _resize(self, size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)


@contextmanager
def own_disk() -> Iterator[Disk | None]:
    """In memory; None where this process may not mount one."""
    with TemporaryDirectory(prefix="firstword-disk-") as folder:
        os.chmod(folder, 0o755)  # what is on it may be another user's
        command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            yield None
            return
        try:
            yield Disk(Path(folder))
        finally:
            subprocess.run(["umount", folder], check=True)
