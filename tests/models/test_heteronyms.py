"""Words that are read in two ways: the table's file, and how often the shipped one is right."""

import json
import re
from pathlib import Path

import pytest

from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.tokenizer.heteronyms import (
    PARTS_OF_SPEECH,
    Heteronym,
    Heteronyms,
    read_heteronyms,
    write_heteronyms,
)
from firstword.models.tokenizer.interface import TokenizerError

EXAMPLES = Path(__file__).with_name("heteronyms.txt").read_text().splitlines()
NOUN, VERB = (tuple(float(one == part) for one in PARTS_OF_SPEECH) for part in ("noun", "verb"))
WIND = Heteronym({"verb": ("[W]", "[AY1]", "[N]", "[D]")}, NOUN)
BEFORE = ({"to": tuple(5 * score for score in VERB), "-ly": VERB}, {"to": tuple(3 * score for score in VERB)})


def shipped() -> Heteronyms:
    found = open_checkpoint(BUILTIN_CHECKPOINT).load_heteronyms()
    assert found is not None
    return found


def test_two_words_before_tell() -> None:
    table = Heteronyms({"wind": WIND}, BEFORE)
    written = "the wind, to [W][AY1][N][D], to quickly [W][AY1][N][D], to be seen wind"
    assert table.write("the wind, to wind, to quickly Wind, to be seen wind") == written
    assert list(table.find("wind up", before="I like to ")) == [(0, 4, WIND.readings["verb"])]


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, again = tmp_path / "one.json", tmp_path / "two.json"
    write_heteronyms(path, {"wind": WIND}, BEFORE)
    table = read_heteronyms(path)
    assert table.words == {"wind": WIND}
    write_heteronyms(again, table.words, BEFORE)
    assert path.read_bytes() == again.read_bytes()
    assert table.write("to wind") == "to [W][AY1][N][D]"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param([], id="no object"),
        pytest.param(
            {"words": {"wind": {"readings": {"verb": "W QQ"}, "scores": NOUN}}, "before": []}, id="no sound"
        ),
        pytest.param(
            {"words": {"wind": {"readings": {}, "scores": [1.0]}}, "before": []}, id="too few scores"
        ),
        pytest.param({"words": {}, "before": [{"to": ["much"] * 7}]}, id="no number"),
        pytest.param({"words": {}}, id="nothing before"),
    ],
)
def test_a_damaged_table_is_named(tmp_path: Path, content: object) -> None:
    path = tmp_path / "heteronyms.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=f"{path}: not a table of words that are read in two ways"):
        read_heteronyms(path)


def test_the_shipped_table_reads_nine_of_ten_words_right() -> None:
    """Of sentences that were written before the table; the dictionary by itself is wrong in half of them."""
    table, wrong, dictionary_wrong = shipped(), [], 0
    for line in EXAMPLES:
        marked, part = line.split("\t")
        (found,) = re.finditer(r"\*(\w+)\*", marked)
        wanted = table.words[found[1].lower()].readings.get(part)
        start, text = found.start(), marked.replace("*", "")
        read = {begin: sounds for begin, _, sounds in table.find(text)}
        wrong += [marked] if read.get(start) != wanted else []
        dictionary_wrong += wanted is not None
    assert len(EXAMPLES) == 99
    assert dictionary_wrong > 45
    assert len(wrong) <= 9, wrong
