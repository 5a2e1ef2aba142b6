"""Whatever fits the OpenAPI document, and much that does not, is answered without a fault of ours."""

import atexit
import tempfile
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from firstword.app.telemetry.metrics import Metrics
from firstword.app.telemetry.usage import Usage, UsageStore
from tests.support.serving import build_app, make_services

_directory = tempfile.TemporaryDirectory()  # of the whole module: its tests are made when it is imported
atexit.register(_directory.cleanup)
_usage = Usage(Path(_directory.name) / "usage.sqlite3", Metrics())
_usage._file = UsageStore.open(Path(_directory.name) / "usage.sqlite3")
_usage.began_at = "2026-01-01T00:00:00+00:00"
schema = schemathesis.openapi.from_asgi("/openapi.json", build_app(make_services(usage=_usage)))


@schema.parametrize()
@settings(max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])
