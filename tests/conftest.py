"""What all tests share: asyncio, and which tests stay in one process."""

import os
from pathlib import Path

import pytest

# Before torch is imported: most networks here are small, and threads that wait for one another cost more
# than they give, above all beside another process of tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent

# Folders whose tests share a server, an engine or a checkpoint; the longest first, so that both processes
# end at about the same time.
TOGETHER = ("vllm", "e2e", "training", "guards")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests for `pytest -n`: by folder where they share something costly, else by file."""
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
    items.sort(key=lambda item: TOGETHER.index(_group(item)) if _group(item) in TOGETHER else len(TOGETHER))


def _group(item: pytest.Item) -> str:
    path = item.path.relative_to(ROOT)
    return path.parts[0] if path.parts[0] in TOGETHER else path.as_posix()
