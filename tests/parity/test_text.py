"""Rules for text against the published implementation."""

from firstword.app.text.normalize import is_only_punctuation
from tests.parity.reference import load_json


def test_only_punctuation_is_told_as_published() -> None:
    entries = load_json("text")["is_only_punctuation"]
    assert entries, "the case is empty"
    for entry in entries:
        assert is_only_punctuation(entry["text"]) == entry["only_punctuation"], entry["text"]
