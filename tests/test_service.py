"""What the service says of its settings at its start."""

import logging

import pytest

from firstword.app.http.keys import KeyRing
from firstword.app.options import ServerOptions
from firstword.app.service import warn_of_open_door


@pytest.mark.parametrize(
    ("host", "keys", "is_warned"),
    [
        ("0.0.0.0", [], True),
        ("::", [], True),
        ("192.0.2.1", [], True),
        ("0.0.0.0", ["ann:secret"], False),
        ("127.0.0.1", [], False),
        ("::1", [], False),
        ("localhost", [], False),
    ],
)
def test_a_server_that_others_reach_without_a_key_says_so(
    host: str, keys: list[str], is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        warn_of_open_door(ServerOptions(host=host), KeyRing(keys))
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == is_warned
    assert all(host in warning and "FIRSTWORD_API_KEYS" in warning for warning in warnings)
