"""Gives memory that this process has freed, but its allocator keeps, back to the system."""

import asyncio
import ctypes
import sys
from contextlib import suppress
from typing import Final

GIVE_BACK_AFTER_S = 2.0
MUCH_BYTES: Final = 4 << 20


def give_back() -> None:
    """Give freed memory back, on Linux with glibc.

    Threads that allocate wait meanwhile: some milliseconds, 0.1 s where 600 MB are free.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "malloc_trim"):  # of glibc
        library.malloc_trim(0)


class Freed:
    """Gives memory back some seconds after much of it was freed, once for all that is freed until then.

    For one event loop; a thread does it.
    """

    def __init__(self) -> None:
        self._num_bytes = 0  # freed since memory was given back last
        self._timer: asyncio.TimerHandle | None = None  # None: that is not much

    def note(self, num_bytes: int) -> None:
        self._num_bytes += num_bytes
        if self._timer is None and self._num_bytes >= MUCH_BYTES:
            self._timer = asyncio.get_running_loop().call_later(GIVE_BACK_AFTER_S, self._give_back)

    def _give_back(self) -> None:
        self._num_bytes, self._timer = 0, None
        with suppress(RuntimeError):  # the loop is being closed, and its process about to end
            asyncio.get_running_loop().run_in_executor(None, give_back)
