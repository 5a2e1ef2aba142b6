"""One server for all tests that leave it as they found it."""

from collections.abc import Iterator

import pytest

from tests.e2e.server import Server, serving


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("data"), max_streams=16, grpc_port=0) as server:
        yield server
