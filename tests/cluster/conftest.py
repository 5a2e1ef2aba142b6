"""What the tests of a cluster stand on. Ray is imported where it is used: it may not be installed."""

import os
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from firstword.app.postgresql import migrate
from firstword.app.settings import Settings
from tests.cluster.standin import standin
from tests.support.postgres import postgres_server

# Ray reads it once in a process, which may begin several clusters; without, it would write one to the home.
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    """The address of a PostgreSQL with our tables."""
    with postgres_server() as server:
        url = server.new_database()
        migrate(url)
        yield url


@pytest.fixture(scope="module")
def engines(store: str) -> Iterator[Any]:
    """The handle of two stand-ins."""
    from firstword.app.hosts.ray.serving import cluster
    from tests.cluster.deaths import ENGINES

    with cluster(Settings(ray=ENGINES, speakers={"store": store}), standin) as handle:
        yield handle
