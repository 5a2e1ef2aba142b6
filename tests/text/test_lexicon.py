# ruff: noqa: RUF001  Chinese words and typographic marks are meant
"""Words are read as the lexicon says: whole words, the longest first, however the text comes."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.errors import InvalidRequest
from firstword.app.text.lexicon import Lexicon, LexiconError, LexiconFile, LexiconReader, read_lexicon
from firstword.app.text.marks import MAX_LEXICON_ENTRIES, MarkReader, Part, Reading, Span, SpeechMarks
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import Segment, SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.text.marked import joined, speech_marks

MARKS = speech_marks()
NO_MARKS = speech_marks(())
ENTRIES = {
    **{"Nguyen": "win", "nginx": "engine x", "US": "you ess", "York": "yorrk", "New York City": "the city"},
    **{"New York": "the Apple", "重庆": "虫庆", "café": "caff", "GPT-4": "gee four", "o": "oh"},
}


def read(pieces: list[str], entries: dict[str, str], marks: SpeechMarks = MARKS) -> list[Part]:
    reader = LexiconReader(MarkReader(marks, True, print), [Lexicon(entries, marks)])
    return [part for piece in pieces for part in reader.read(piece, False)] + reader.read("", True)


def said(text: str, entries: dict[str, str] = ENTRIES) -> str:
    written = "".join(part.written for part in read([text], entries) if isinstance(part, Span))
    return MARKS.shown(written)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Nguyen, Nguyen's and Nguyen’s.", "win, win's and win’s."),
        ("nguyen Nguyens NGUYEN", "nguyen Nguyens NGUYEN"),
        ("Nginx NGINX nginx2 anginx", "engine x engine x nginx2 anginx"),
        ("Join us in the US. USA", "Join us in the you ess. USA"),
        ("New York City, New York, York", "the city, the Apple, yorrk"),
        ("我去重庆玩", "我去虫庆玩"),
        ("café cafés cafe\u0301", "caff cafés cafe\u0301"),
        ("GPT-4, GPT-40", "gee four, GPT-40"),
        ("o o'clock d'o so", "oh o'clock d'o so"),
        ("[laughter]US[pause:1s]US", "[laughter]you essyou ess"),
    ],
)
def test_whole_words_are_replaced_the_longest_first(text: str, expected: str) -> None:
    assert said(text) == expected
    cut = joined(read(list(text), ENTRIES))
    assert cut == joined(read([text], ENTRIES))
    assert "".join(part.source for part in cut) == text


@given(
    st.lists(
        st.sampled_from([*ENTRIES, *"abn New York's'重 -é", "gpt", "New Yo", "\u0301", "[pause:1s]", "[lau"]),
        max_size=12,
    )
)
def test_replacements_do_not_depend_on_how_the_text_was_cut(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = joined(read([text], ENTRIES))
    assert "".join(part.source for part in whole) == text
    for ways in (pieces, list(text)):
        assert joined(read(ways, ENTRIES)) == whole


def test_phonemes_and_marks_are_read_in_what_is_said() -> None:
    entries = {
        "Nguyen": "arpabet:W IH1 N",
        "tomato": "ipa:təˈmɑːtoʊ",
        "ha": "[laughter]",
        "重庆": "pinyin:chong2 qing4",
    }
    assert said("Nguyen", entries) == "[W][IH1][N]"
    assert said("tomato", entries) == "[T][AH0][M][AA1][T][OW0]"
    assert said("ha 重庆", entries) == "[laughter] [ch][óng][q][ìng]"


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"a": "arpabet:QQQ"}, "'QQQ' is no sound of ARPAbet"),
        ({"a": "ipa:ʘ"}, "is no English sound of IPA"),
        ({" ": "x"}, "expected a word of 1 to 100 characters"),
        ({"x": "y" * 401}, "1 to 400"),
        ({str(number): "x" for number in range(MAX_LEXICON_ENTRIES + 1)}, "10001 entries; expected 10000"),
    ],
)
def test_entries_that_cannot_be_used_are_named(entries: dict[str, str], words: str) -> None:
    with pytest.raises(LexiconError, match=words):
        Lexicon(entries, MARKS)
    with pytest.raises(LexiconError, match="takes no phonemes"):
        Lexicon({"a": "arpabet:AY1"}, NO_MARKS)


def test_a_request_is_told_of_its_entry(normalizer: Normalizer) -> None:
    frontend = TextFrontend(normalizer, NO_MARKS, SegmentLimits(), 30)
    with pytest.raises(InvalidRequest, match="lexicon: 'a': this checkpoint takes no phonemes") as refused:
        frontend.open("whole", None, Reading(lexicon={"a": "ipa:eɪ"}), [], Work(DEFAULT_LIMITS))
    assert refused.value.param == "lexicon"


PLS = """<?xml version="1.0"?>
<lexicon version="1.0" alphabet="x-cmu-arpabet" xmlns="http://www.w3.org/2005/01/pronunciation-lexicon">
  <lexeme><grapheme>W3C</grapheme><alias>World Wide Web Consortium</alias></lexeme>
  <lexeme><grapheme>Nguyen</grapheme><grapheme>Nguyễn</grapheme><phoneme>W IH1 N</phoneme></lexeme>
  <lexeme><grapheme>judgment</grapheme><phoneme alphabet="ipa">dʒʌdʒmənt</phoneme></lexeme>
</lexicon>"""


def test_a_pronunciation_lexicon_of_w3c_is_read(tmp_path: Path) -> None:
    path = tmp_path / "words.pls"
    path.write_text(PLS, encoding="utf-8")
    assert read_lexicon(path) == {
        "W3C": "World Wide Web Consortium",
        "Nguyen": "x-cmu-arpabet:W IH1 N",
        "Nguyễn": "x-cmu-arpabet:W IH1 N",
        "judgment": "ipa:dʒʌdʒmənt",
    }
    for content, words in [
        ("<lexicon>", "no well-formed XML"),
        ('<!DOCTYPE x [<!ENTITY a "b">]><lexicon/>', "has a document type"),
        ("[1]", "expected an object"),
        ("{", "neither JSON nor PLS"),
    ]:
        path.write_text(content, encoding="utf-8")
        with pytest.raises(LexiconError, match=words):
            read_lexicon(path)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "words.json"
    path.write_text(json.dumps({"a": "one", "b": "arpabet:B IY1"}))
    file = LexiconFile(path, NO_MARKS)
    assert "'b': this checkpoint takes no phonemes" in caplog.text
    first = file.current()
    assert file.current() is first
    path.write_text(json.dumps({"a": "two"}))
    os.utime(path, ns=(1, 1))
    second = file.current()
    assert second is not first
    path.write_text("{")
    assert file.current() is file.current() is second
    assert caplog.text.count("the lexicon stays as it was") == 1
    path.write_text(json.dumps({"a": "three"}))
    assert file.current() is not second


def test_a_speakers_words_stand_behind_the_requests_and_bad_ones_are_left_out(normalizer: Normalizer) -> None:
    frontend = TextFrontend(normalizer, NO_MARKS, SegmentLimits(), 30)
    reading = Reading(lexicon={"one": "uno"}, speaker_lexicon={"one": "ein", "two": "zwei", "six": "ipa:s"})
    warnings: list[str] = []
    feed = frontend.open("whole", "en", reading, warnings, Work(DEFAULT_LIMITS))
    items = feed.read("Say one two six.", True)
    assert [item.spoken for item in items if isinstance(item, Segment)] == ["Say uno zwei six."]
    (warning,) = warnings
    assert warning.startswith(
        "of the speaker's lexicon an entry is left out: 'six': this checkpoint takes no"
    )
