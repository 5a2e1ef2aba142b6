"""Every case of tests/text/cases is read as it says, and there are as many of them as were agreed."""

from collections import Counter
from itertools import groupby

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import Segmenter, SegmentLimits
from firstword.app.text.stream import WordFeed
from tests.app.text.examples import codes
from tests.text.cases import Case, read_cases

CASES = read_cases()
MAX_TASTE = 0.03
FILES = {key: list(group) for key, group in groupby(CASES, key=lambda case: (case.language, case.kind))}


@pytest.fixture(scope="module")
def normalizer() -> Normalizer:
    return Normalizer()


@pytest.mark.parametrize("file", FILES, ids="/".join)
def test_cases_are_read_as_they_say(file: tuple[str, str], normalizer: Normalizer) -> None:
    wrong = {
        case.source: (case.spoken, spoken)
        for case in FILES[file]
        if (spoken := normalizer(case.source, case.language)) != case.spoken and not case.is_taste
    }
    assert not wrong, "expected, then what is read"


def test_no_case_is_told_twice_and_few_are_taste() -> None:
    counts = Counter((case.language, case.source, case.kind) for case in CASES)
    assert [case for case, count in counts.items() if count > 1] == []
    assert sum(case.is_taste for case in CASES) <= MAX_TASTE * len(CASES)


def test_streamed_cases_are_read_as_whole_ones(normalizer: Normalizer) -> None:
    assert {case.source: read_by_words(case, normalizer) for case in CASES[::7]} == {
        case.source: normalizer(case.source, case.language) for case in CASES[::7]
    }


def read_by_words(case: Case, normalizer: Normalizer) -> str:
    feed = WordFeed(Segmenter(normalizer, codes, SegmentLimits(), 30), case.language)
    segments = [segment for character in case.source for segment in feed.push(character)]
    return "".join(segment.spoken for segment in [*segments, *feed.flush()])
