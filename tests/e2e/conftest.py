"""One server for all tests that leave it as they found it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import Server, serving


@pytest.fixture(scope="session")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's file of pronunciations, of a word that no other test says."""
    path = tmp_path_factory.mktemp("lexicon") / "words.json"
    path.write_text('{"Zzyzx": "Good day"}')
    return path


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, lexicon: Path) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("data"), max_streams=16, grpc_port=0, lexicon=lexicon) as server:
        yield server
