"""A program on a terminal of its own, which is read as it writes."""

import os
import pty
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class Terminal:
    """Starts a program whose standard streams are a pseudo-terminal; ends it when it is left."""

    def __init__(self, command: Sequence[str | Path]) -> None:
        self._master, slave = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
        os.close(slave)
        self.text = ""  # all that it has written

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)

    def wait_for(self, text: str, timeout_s: float = 30) -> None:
        """Read until the program has written this."""
        end_s = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < end_s, f"no {text!r} in {self.text[-2000:]!r}"
            self.text += os.read(self._master, 65536).decode(errors="replace")

    def read_to_end(self) -> str:
        """Read until the program has closed its terminal."""
        while True:
            try:
                part = os.read(self._master, 65536)
            except OSError:  # Linux's end of a terminal
                return self.text
            if not part:
                return self.text
            self.text += part.decode(errors="replace")
