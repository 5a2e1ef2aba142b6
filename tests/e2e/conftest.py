"""One server for all tests that leave it as they found it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from firstword.models.runtimes.onnx.formats import PRODUCTS_FILE
from tests.e2e.fronts import TRITONSERVER, Front, triton_front
from tests.e2e.server import Server, serving


@pytest.fixture(scope="session")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's file of pronunciations, of a word that no other test says."""
    path = tmp_path_factory.mktemp("lexicon") / "words.json"
    path.write_text('{"Zzyzx": "Good day"}')
    return path


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="session")
def server(data_dir: Path, lexicon: Path) -> Iterator[Server]:
    with serving(data_dir, max_streams=16, grpc_port=0, lexicon=lexicon) as server:
        yield server


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory, server: Server, data_dir: Path) -> Iterator[Front]:
    """Computes in the server's number formats: two processes that measure may choose differently."""
    if TRITONSERVER is None:
        pytest.skip("needs tritonserver: make setup-triton")
    folder = tmp_path_factory.mktemp("triton")
    shutil.copy(data_dir / PRODUCTS_FILE, folder)
    with triton_front(folder) as front:
        yield front


@pytest.fixture(params=["own", pytest.param("triton", marks=pytest.mark.triton)])
def front(request: pytest.FixtureRequest) -> Front:
    """The server's own models, and the same on tritonserver."""
    if request.param == "triton":
        triton: Front = request.getfixturevalue("triton")
        return triton
    server: Server = request.getfixturevalue("server")
    return Front(server.url, server.grpc_address, f"{server.url}/metrics", batches=False)
