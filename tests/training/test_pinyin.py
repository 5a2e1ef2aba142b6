"""How Chinese text is read for Kokoro, where the packages of the extra `voice` are installed."""

import pytest

pytest.importorskip("jieba", reason="the teachers come with the extra voice")
pytest.importorskip("pinyin_to_ipa", reason="the teachers come with the extra voice")
pytest.importorskip("hibari", reason="the teachers come with the extra voice")

from firstword.models.tokenizer import PRONUNCIATION_FOLDER
from firstword.models.tokenizer.mandarin import MANDARIN_FILE, Mandarin, pinyin_marks
from training.mandarin.units import FINALS, INITIALS, tone_of
from training.settings import BUILTIN
from training.teachers.pieces import Kind
from training.teachers.pinyin import ChineseReader, syllable_symbols
from training.teachers.spoken import TeacherError
from training.text.mandarin import evaluation_sentences

PHRASES = BUILTIN / PRONUNCIATION_FOLDER / MANDARIN_FILE


@pytest.fixture(scope="module")
def reader() -> ChineseReader:
    return ChineseReader(PHRASES)


@pytest.mark.parametrize(
    ("syllable", "initial", "final"),
    [
        ("zhong1", "ꭧ", "ʊ→ŋ"),
        ("qu4", "ʨʰ", "y↘"),
        ("si3", "s", "ɨ↓"),
        ("wo3", "", "wo↓"),
        ("yuan2", "", "ɥɛ↗n"),
        ("er2", "", "ɚ↗"),
        ("nv3", "n", "y↓"),
        ("le5", "l", "ɤ"),
    ],
)
def test_a_syllable_is_an_initial_and_a_final(syllable: str, initial: str, final: str) -> None:
    assert syllable_symbols(syllable) == (initial, final)


def test_every_piece_has_units_and_every_mark_is_said(reader: ChineseReader) -> None:
    mandarin = Mandarin(PHRASES)
    for text in evaluation_sentences()[::10]:
        pieces = reader.read(text)
        assert {one.symbols for one in pieces if one.kind is Kind.INITIAL} <= set(INITIALS)
        assert {tone_of(one.symbols)[0] for one in pieces if one.kind is Kind.FINAL} <= set(FINALS)
        said = [mark for one in pieces if one.kind is not Kind.PAUSE for mark in range(*_span(one.marks))]
        syllables = [one for one in mandarin.syllables(text) if one[0].isascii() and one[0].isalpha()]
        assert said == list(range(sum(len(pinyin_marks(one)) for one in syllables)))


def _span(marks: tuple[int, int]) -> tuple[int, int]:
    return marks[0], marks[1] + 1


def test_words_stand_apart_and_tones_are_those_that_are_said(reader: ChineseReader) -> None:
    symbols = "".join(one.symbols for one in reader.read("我一定去, OK?"))
    assert symbols == "wo↓ i↗ti↘ŋ ʨʰy↘, ˌOkˈA?"  # noqa: RUF001
    assert [one.kind for one in reader.read("It is five.")] == [Kind.ENGLISH]


def test_what_it_cannot_read_is_named(reader: ChineseReader) -> None:
    with pytest.raises(TeacherError, match="'3'"):
        reader.read("我有3个。")
