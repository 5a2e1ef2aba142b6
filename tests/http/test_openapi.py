"""Whatever fits the OpenAPI document, and much that does not, is answered without a fault of ours."""

from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import Usage, UsageStore
from tests.support.serving import build_app, make_services


@pytest.fixture
def document(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    # Looked for at each request in the whole environment, a tenth of all that is computed here.
    monkeypatch.setattr("requests.sessions.get_environ_proxies", lambda *asked, **named: {})
    request.node._nodeid = request.node.nodeid  # pytest 9.2 has none, schemathesis 4.32 asks for it
    usage = Usage(tmp_path / "usage.sqlite3", Metrics())
    usage._file = UsageStore.open(tmp_path / "usage.sqlite3")
    usage.began_at = "2026-01-01T00:00:00+00:00"
    return schemathesis.openapi.from_asgi("/openapi.json", build_app(make_services(usage=usage)))


# A subtest for each operation; made when it runs, as making them takes seconds of each process that collects.
schema = schemathesis.pytest.from_fixture("document")


@pytest.mark.timeout(900)
@schema.parametrize()
@settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])
