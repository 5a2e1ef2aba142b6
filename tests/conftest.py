"""What all tests share: asyncio, which are slow, and which stay in one process."""

import errno
import gc
import os
import shutil
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import httpx._transports.default
import pytest
from hypothesis import settings

# How long an example takes says nothing on a busy machine.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

# Each client of httpx would read the certificates of all authorities anew, longer than a request takes here.
httpx._transports.default.create_ssl_context = cache(httpx._transports.default.create_ssl_context)

# Before torch is imported: most networks here are small, and threads that wait for one another cost more
# than they give, above all beside another process of tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Where the service or a training asks torch for more threads, those that wait would spin.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# Stores have each write reach the disk, thousands of times in all; in memory nobody waits for that.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

ROOT = Path(__file__).parent

# Folders whose tests share a server, an engine, a browser or a checkpoint; the longest first, so that both
# processes end at about the same time.
TOGETHER = ("vllm", "e2e", "chaos", "cluster", "training", "store", "guards", "browser")


# Start a server process, or take more than about a second each: `make test-fast` leaves them out.
SERVER = (
    "browser/",
    "chaos/",
    "cluster/",
    "hostile/",
    "deploy/test_expressions.py",
    "e2e/",
    "telemetry/test_server_logs.py",
)
SLOW = (
    "surfaces/grpc/",
    "surfaces/inference/",
    "http/test_openapi.py",
    "commands/",
    "runtimes/engines/test_supervisor.py",
    "telemetry/test_tracing.py",
    "test_imports.py",
    "text/test_same_tokens.py",
    "hosts/triton/",
    "speakers/test_durability.py",
    "speakers/test_enrolment.py",
    "speakers/test_sharing.py",
    "store/",
    "bench/test_compare.py",
    "bench/test_latency.py",
    "bench/test_random_checkpoint.py",
    "bench/test_stages.py",
    "deploy/",
    "guards/",
    "models/lm/test_decoder",
    "runtimes/onnx/",
    "runtimes/tensorrt/",
    "runtimes/tensorrt_llm/",
    "models/test_alignment_heads.py",
    "models/test_checkpoint.py",
    "models/test_cosyvoice1_token2wav.py",
    "models/test_flow_training.py",
    "models/test_hift_streaming.py",
    "models/test_speak.py",
    "models/test_token2wav.py",
    "models/test_torch_file.py",
    "runtimes/vllm/",
    "parity/",
    "test_documents.py",
    "test_readme.py",
    "training/",
    "vllm/",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes no more of a file once all of it has been written."""

    def full(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the files unread that `-m` leaves out: each process would import what they need."""
    left_out = SLOW + SERVER if "not slow" in config.option.markexpr else ()
    left_out += ("cluster/",) if "not cluster" in config.option.markexpr else ()
    if not left_out or not collection_path.is_relative_to(ROOT) or collection_path.suffix != ".py":
        return None
    return True if collection_path.relative_to(ROOT).as_posix().startswith(left_out) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while everything is imported: it would be walked 20 times, a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave what importing made out of garbage collection: tests that collect would walk it each time."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow or starts a server, and put first what takes longest."""
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(SERVER):
            item.add_marker(pytest.mark.server)
        if path.startswith(SLOW):
            item.add_marker(pytest.mark.slow)

    def place(item: pytest.Item) -> int:
        group = _group(item.path.relative_to(ROOT).as_posix())
        return TOGETHER.index(group) if group in TOGETHER else len(TOGETHER)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process of `pytest -n` whole files, and whole folders that share something costly.

    pytest-xdist 3.8 has `--dist loadgroup` for this, whose groups pytest 9.2 no longer shows in a test's id.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid.partition("::")[0].removeprefix("tests/"))

    return Together(config, log)


def _group(path: str) -> str:
    """Of a file below tests/: its first folder where that is shared, else itself."""
    folder = path.partition("/")[0]
    return folder if folder in TOGETHER else path
