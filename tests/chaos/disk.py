"""A disk of its own for a part of a cluster, which a test may fill to the last byte."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOM = "4g"  # of memory, were all of it used
TRIALS = 20


@dataclass(frozen=True, slots=True)
class Disk:
    path: Path

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more fits onto it meanwhile."""
        try:
            self._fill()
            yield
        finally:
            self._resize(ROOM)

    def _fill(self) -> None:
        """Who writes between the look and the mount makes it fail: no disk is smaller than what is on it."""
        for _ in range(TRIALS):
            found = os.statvfs(self.path)
            if self._resize(str((found.f_blocks - found.f_bfree) * found.f_frsize)):
                return
        raise OSError(f"{self.path} grew {TRIALS} times while it was to be full")

    def _resize(self, size: str) -> bool:
        command = ["mount", "-o", f"remount,size={size}", self.path]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def own_disk() -> Iterator[Disk | None]:
    """In memory; None where this process may not mount one."""
    with TemporaryDirectory(prefix="firstword-disk-") as folder:
        os.chmod(folder, 0o755)  # what is on it may be another user's
        command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", folder]
        try:
            is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except OSError:  # there is no `mount`
            is_mounted = False
        try:
            yield Disk(Path(folder)) if is_mounted else None
        finally:
            if is_mounted:  # lazily: a file that is still open keeps it, and no other error is hidden
                subprocess.run(["umount", "-l", folder], check=False)
