"""What all tests share: asyncio, which are slow, and which stay in one process."""

import gc
import os
from pathlib import Path

import pytest

# Before torch is imported: most networks here are small, and threads that wait for one another cost more
# than they give, above all beside another process of tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent

# Folders whose tests share a server, an engine, a browser or a checkpoint; the longest first, so that both
# processes end at about the same time.
TOGETHER = ("vllm", "e2e", "training", "guards", "browser")


# Start a server process, or take more than about a second each: `make test-fast` leaves them out.
SERVER = ("browser/", "hostile/", "deploy/test_expressions.py", "e2e/", "telemetry/test_server_logs.py")
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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the slow files unread where `-m` leaves them out: each process would import what they need."""
    if "not slow" not in config.option.markexpr or not collection_path.is_relative_to(ROOT):
        return None
    is_slow = collection_path.relative_to(ROOT).as_posix().startswith(SLOW + SERVER)
    return True if is_slow and collection_path.suffix == ".py" else None


def pytest_collection_finish() -> None:
    """Leave what importing made out of garbage collection: tests that collect would walk it each time."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests for `pytest -n`: by folder where they share something costly, else by file.

    First, since xdist reads the groups in this hook too.
    """
    for item in items:
        path = item.path.relative_to(ROOT).as_posix()
        if path.startswith(SERVER):
            item.add_marker(pytest.mark.server)
        if path.startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: TOGETHER.index(_group(item)) if _group(item) in TOGETHER else len(TOGETHER))


def _group(item: pytest.Item) -> str:
    path = item.path.relative_to(ROOT)
    return path.parts[0] if path.parts[0] in TOGETHER else path.as_posix()
