"""One server for all tests that leave it as they found it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fronts import TRITONSERVER, Front, triton_front
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


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    if TRITONSERVER is None:
        pytest.skip("needs tritonserver: make setup-triton")
    with triton_front(tmp_path_factory.mktemp("triton")) as front:
        yield front


@pytest.fixture(params=["own", pytest.param("triton", marks=pytest.mark.triton)])
def front(request: pytest.FixtureRequest) -> Front:
    """The server's own models, and the same on tritonserver."""
    if request.param == "triton":
        triton: Front = request.getfixturevalue("triton")
        return triton
    server: Server = request.getfixturevalue("server")
    return Front(server.url, server.grpc_address, f"{server.url}/metrics", batches=False)
