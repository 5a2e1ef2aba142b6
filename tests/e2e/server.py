"""A real server process with the built-in voice, on a free port."""

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_STARTS_WITHIN_S = 240  # on a machine that does something else too
_GRPC_ADDRESS = re.compile(r"gRPC is on (\S+:\d+)\.")
_ADDRESS = re.compile(r"(http://[\d.]+:\d+) speaks with (\S+)\. ")


@dataclass(eq=False)
class Server:
    process: "subprocess.Popen[str]"
    url: str = ""
    greeting: str = ""  # its last line at the start
    key: str = ""  # that its clients send, where it asks for one
    seen: list[str] = field(default_factory=list)  # of the lines, what `wait_for_line` passed
    lines: "queue.Queue[str | None]" = field(default_factory=queue.Queue)  # of its output; None: it ended

    @property
    def grpc_address(self) -> str:
        """Of a server with a port for it."""
        return next(found[1] for line in self.seen if (found := _GRPC_ADDRESS.search(line)))

    @property
    def ws_url(self) -> str:
        return self.url.replace("http://", "ws://")

    def wait_for_line(self, pattern: str, timeout_s: float = 60) -> re.Match[str]:
        """The first line from here on that has it."""
        seen = self.seen
        while True:
            try:
                line = self.lines.get(timeout=timeout_s)
            except queue.Empty:
                line = None
            assert line is not None, f"no line with {pattern!r}; the server wrote {seen}"
            if found := re.search(pattern, line):
                return found
            seen.append(line)


@contextmanager
def serving(data_dir: Path, **settings: object) -> Iterator[Server]:
    """settings: by their names, without the prefix."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("FIRSTWORD_")}
    given = {"port": 0, "data_dir": data_dir, **settings}
    environment = own | {f"FIRSTWORD_{name.upper()}": str(value) for name, value in given.items()}
    with running([str(Path(sys.executable).parent / "firstword"), "serve"], environment) as server:
        yield server


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Server]:
    """Run a command that becomes a server. The process is killed at the end if it still runs."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    server = Server(process)
    reader = threading.Thread(target=_read, args=(server,))
    reader.start()
    try:
        found = server.wait_for_line(_ADDRESS.pattern, _STARTS_WITHIN_S)
        server.url, server.greeting = found[1], found.string
        yield server
    finally:
        process.kill()
        process.wait()
        reader.join()
        assert process.stdout is not None
        process.stdout.close()


def _read(server: Server) -> None:
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.lines.put(line.rstrip())
    server.lines.put(None)
