"""Whatever fits the OpenAPI document, and much that does not, is answered without a fault of ours."""

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from firstword.app.api.app import build_app
from tests.support.serving import make_services

schema = schemathesis.openapi.from_asgi("/openapi.json", build_app(make_services()))


@schema.parametrize()
@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_no_request_makes_the_server_fail(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])
