"""`firstword keys new` makes what the server's file takes."""

import re
from pathlib import Path

import pytest

from firstword.app.http.keys import KeyRing
from tests.commands.typed import refused, run


def test_new_keys_are_what_the_file_takes_wherever_they_are_added(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    keys = {}
    for name, options in (
        ("anna", ["--scope", "speak", "--scope", "enrol", "--speakers", "private"]),
        ("bob@example.org", []),
    ):
        result = run("keys", "new", name, *options)
        assert result.exit_code == 0, result.output
        (key,) = re.findall(rf"The key of {name}, which is stored nowhere: (\S+)", result.stderr)
        assert key not in result.stdout
        with file.open("a") as opened:
            opened.write(result.stdout)
        keys[name] = key
    ring = KeyRing(file=file)
    anna, bob = [ring.client_of(key) for key in keys.values()]
    assert anna is not None
    assert bob is not None
    assert (anna.name, anna.scopes, anna.access) == ("anna", {"speak", "enrol"}, "private")
    assert (bob.name, bob.scopes, bob.access) == ("bob@example.org", {"speak"}, "shared")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["an na"], "the name 'an na'; expected"),
        (["anna", "--scope", "sing"], "anna.scopes: Input should be 'speak', 'enrol' or 'admin'"),
        (["anna", "--speakers", "secret"], "anna.speakers: Input should be 'shared', 'read-only' or"),
    ],
)
def test_what_the_file_would_not_take_is_refused(words: list[str], expected: str) -> None:
    assert expected in refused("keys", "new", *words)
