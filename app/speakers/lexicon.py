"""The check of a speaker's own words."""

from collections.abc import Mapping
from typing import Any

from firstword.app.bounded_json import TooManyValues, loads
from firstword.app.errors import InvalidRequest
from firstword.app.text.lexicon import MAX_SPOKEN_CHARS, MAX_WORD_CHARS
from firstword.app.text.marks import MAX_LEXICON_ENTRIES


def checked_lexicon(given: Mapping[str, str] | str) -> dict[str, str]:
    """given: also as JSON, "" for an empty one. What the checkpoint cannot say is found when it is spoken."""
    entries: Any = given
    if isinstance(given, str):
        try:
            entries = loads(given or "{}")
        except TooManyValues as error:
            raise InvalidRequest(f"lexicon: {error.msg}", "lexicon") from None
        except (ValueError, RecursionError):
            entries = None
    if not isinstance(entries, Mapping) or not all(isinstance(spoken, str) for spoken in entries.values()):
        raise InvalidRequest('lexicon: expected a JSON object such as {"Nguyen": "win"}', "lexicon")
    if len(entries) > MAX_LEXICON_ENTRIES:
        raise InvalidRequest(
            f"a lexicon of {len(entries)} entries; expected {MAX_LEXICON_ENTRIES} at most", "lexicon"
        )
    for word, spoken in entries.items():
        if not (0 < len(word.strip()) <= MAX_WORD_CHARS and 0 < len(spoken.strip()) <= MAX_SPOKEN_CHARS):
            raise InvalidRequest(
                f"lexicon: {word[:80]!a} is {spoken[:80]!a}; expected a word of 1 to {MAX_WORD_CHARS} "
                f"characters, and 1 to {MAX_SPOKEN_CHARS} that are spoken for it",
                "lexicon",
            )
    return dict(entries)
