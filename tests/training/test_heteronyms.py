"""How words that are read in two ways are counted."""

import pytest

from firstword.models.tokenizer.heteronyms import Heteronyms
from training.pronunciation.heteronyms import Seen, count, occurrences, readings

SEEN = [Seen("wind", "noun", ("with", "the"))] * 6 + [Seen("wind", "verb", ("want", "to"))] * 3
VERB = ("[W]", "[AY1]", "[N]", "[D]")


def test_what_was_counted_is_what_is_read() -> None:
    table = Heteronyms(*count({"wind": {"verb": VERB}}, SEEN))
    assert table.write("wind the clock, to wind the clock in the wind") == (
        f"wind the clock, to {''.join(VERB)} the clock in the wind"
    )


def test_the_teachers_tagger_tells_what_a_word_is() -> None:
    pytest.importorskip("hibari")
    words = readings()
    assert words["wind"]["verb"] == VERB
    assert not {"that", "used"} & words.keys()
    found = list(occurrences(["They want to wind it.", "A cold wind blew.", "No such word."], words))
    assert found == [Seen("wind", "verb", ("want", "to")), Seen("wind", "noun", ("A", "cold"))]
