"""docs/LOG.md keeps its shape: one question an entry, its outcome in the heading, an index on top."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parent.parent / "docs/LOG.md").read_text(encoding="utf-8")
INDEX, *ENTRIES = re.split(r"^## ", TEXT, flags=re.MULTILINE)
HEADINGS = [entry.splitlines()[0] for entry in ENTRIES]
MAX_WORDS = 120


def anchor(heading: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("entry", ENTRIES, ids=HEADINGS)
def test_entry_says_question_change_measured_decided(entry: str) -> None:
    heading, *lines = entry.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d · (kept|rejected|open) · \S.*", heading)
    names = re.findall(r"^- \*\*(Question|Change|Measured|Decided)\b", entry, flags=re.MULTILINE)
    assert names == ["Question", "Change", "Measured", "Decided"]
    num_words = sum(len(line.lstrip("- ").split()) for line in lines if not line.startswith("|"))
    assert num_words <= MAX_WORDS


def test_newest_entry_comes_first() -> None:
    dates = [heading[:10] for heading in HEADINGS]
    assert dates == sorted(dates, reverse=True)


def test_index_lists_every_entry_once_with_its_outcome() -> None:
    listed = re.findall(r"^\| \[(.+)\]\(#(.+)\) \| (\w+) \| (\d\d-\d\d) \|$", INDEX, flags=re.MULTILINE)
    expected = [(heading.split(" · "), anchor(heading)) for heading in HEADINGS]
    assert sorted(listed) == sorted(
        (title, target, outcome, date[5:]) for (date, outcome, title), target in expected
    )
