"""Every case of tests/text/cases is read as it says, whole and letter by letter."""

from collections import Counter
from itertools import groupby
from pathlib import Path

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.rules import Rules
from firstword.app.text.segment import Segmenter, SegmentLimits
from firstword.app.text.stream import WordFeed
from firstword.bench import reading
from firstword.bench.reading import HEADER, Case, read_cases, wrong_readings
from tests.text.examples import codes

CASES = read_cases()
MAX_TASTE = 0.03
FILES = {key: list(group) for key, group in groupby(CASES, key=lambda case: (case.language, case.kind))}


@pytest.fixture(scope="module")
def normalizer() -> Normalizer:
    return Normalizer()


@pytest.mark.parametrize("file", FILES, ids="/".join)
def test_cases_are_read_as_they_say(file: tuple[str, str], normalizer: Normalizer) -> None:
    wrong = {case.source: (case.spoken, spoken) for case, spoken in wrong_readings(FILES[file], normalizer)}
    assert not wrong, "expected, then read"


def test_no_case_is_told_twice_and_few_are_taste() -> None:
    counts = Counter((case.language, case.source, case.kind) for case in CASES)
    assert [case for case, count in counts.items() if count > 1] == []
    assert sum(case.is_taste for case in CASES) <= MAX_TASTE * len(CASES)


def test_cases_that_come_letter_by_letter_are_read_as_whole_ones(normalizer: Normalizer) -> None:
    def read(case: Case) -> str:
        feed = WordFeed(Segmenter(normalizer, codes, SegmentLimits(), 30), case.language)
        segments = [segment for letter in case.source for segment in feed.push(letter)]
        return "".join(segment.spoken for segment in [*segments, *feed.flush()])

    assert {case.source: read(case) for case in CASES} == {
        case.source: normalizer(case.source, case.language) for case in CASES
    }


def test_rules_left_out_for_the_characters_of_a_text_would_not_fit(
    normalizer: Normalizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [case.source for case in CASES if case.language == "en"]
    spoken = {source: normalizer(source, "en") for source in sources}
    monkeypatch.setattr(Rules, "among", lambda rules, _: rules.rules)
    assert {source: normalizer(source, "en") for source in sources} == spoken


def test_the_share_by_class_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "en"
    folder.mkdir()
    rows = [HEADER, "5 cats\tfive cats", "6 cats\tseven cats", "7 cats\teight cats\ttaste"]
    (folder / "cardinal.tsv").write_text("\n".join(rows), "utf-8")
    assert reading.main(["--cases", str(tmp_path), "--wrong"]) == 0
    printed = capsys.readouterr().out
    assert "en  cardinal       0.667 of 3" in printed
    assert "expected seven cats\n    read     six cats" in printed


def test_a_line_that_is_no_case_is_refused(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "money.tsv").write_text(f"{HEADER}\n$5", "utf-8")
    with pytest.raises(ValueError, match=r"money\.tsv:2: expected source, tab, spoken"):
        read_cases(tmp_path)
