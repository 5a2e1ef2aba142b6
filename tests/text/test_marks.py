"""Marks in a client's text: nothing is lost, nothing cut, nothing read aloud, however the text comes."""

import functools
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.errors import InvalidRequest
from firstword.app.text.marks import (
    MAX_NAME_CHARS,
    MarkReader,
    Part,
    Pause,
    Rate,
    Reading,
    Span,
    SpeechMarks,
    Voice,
)
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import FamilyRules, Segment, SegmentLimits
from firstword.app.text.stream import MAX_VOICES, Item, TextFrontend
from firstword.models.tokenizer import PHONEME_MARKS, SPEECH_MARKS
from firstword.models.tokenizer.qwen2 import END_OF_PROMPT, PINYIN_TOKENS
from tests.text.examples import SENTENCES, codes
from tests.text.marked import COSYVOICE3, FIRST_ID, joined, speech_marks

Mode = Literal["whole", "segments", "continuous"]
MODES: tuple[Mode, ...] = ("whole", "segments", "continuous")


@pytest.fixture(scope="session")
def frontend(normalizer: Normalizer) -> TextFrontend:
    rules = FamilyRules(adds_final_stop=False)
    return TextFrontend(normalizer, speech_marks(), SegmentLimits(80, 60, 20), 30, rules)


def read(
    frontend: TextFrontend, pieces: list[str], mode: Mode = "whole", reading: Reading | None = None
) -> list[Item]:
    feed = frontend.open(mode, None, reading or Reading(), [], Work(DEFAULT_LIMITS))
    return [item for piece in pieces for item in feed.read(piece, False)] + feed.read("", True)


def spoken(items: list[Item]) -> str:
    """As tokens, marks written out."""
    ids = [id for item in items if isinstance(item, Segment) for id in item.text_ids]
    return "".join(SPEECH_MARKS[id - FIRST_ID] if id >= FIRST_ID else chr(id) for id in ids)


def parts_of(text: str, taken: tuple[str, ...] = COSYVOICE3) -> tuple[list[Part], list[str]]:
    warnings: list[str] = []
    reader = MarkReader(speech_marks(taken), True, warnings.append)
    return reader.read(text, True), warnings


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ha [laughter] <strong>5 dogs</strong>.", "Ha [laughter] <strong>five dogs</strong>."),
        ("I say [N][UW1][Y][ER0][K] today", "I say [N][UW1][Y][ER0][K] today"),
        ("我去[ch][óng][q][ìng]。好", "我去[ch][óng][q][ìng]。好"),
        ("我去[ch][o\u0301ng]", "我去[ch][óng]"),
        ("Mind the [gap] and a[i] now", "Mind the [gap] and a[i] now"),
        (f"Say {END_OF_PROMPT} and <|im_start|>", f"Say {END_OF_PROMPT} and <|im_start|>"),
        ("An \U00100003 is nothing.", "An is nothing."),
    ],
)
def test_speech_marks_pass_uncut_wherever_the_text_is_cut(
    text: str, said: str, mode: Mode, frontend: TextFrontend
) -> None:
    ways = [list(text), *([text[:place], text[place:]] for place in range(len(text)))]
    for pieces in ways:
        items = read(frontend, pieces, mode)
        assert spoken(items) == said
        assert "".join(item.source for item in items if not isinstance(item, Voice | Rate)) == text


def test_a_closing_mark_stays_with_its_sentence(frontend: TextFrontend) -> None:
    items = read(frontend, ["<laughter>That is funny!</laughter> Now go. [breath] On."], "segments")
    assert [spoken([item]) for item in items] == [
        "<laughter>That is funny!</laughter>",
        "Now go.",
        "[breath] On.",
    ]


def test_a_mark_says_nothing_of_the_language(frontend: TextFrontend) -> None:
    (item,) = read(frontend, ["[laughter][breath][noise] 好 [quick_breath]"])
    assert isinstance(item, Segment)
    assert item.language == "zh"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Ha [laughter]<strong>ha</strong>", "Ha ha"),
        ("[N][UW1] York", " York"),
        ("[M] and [AY0] and [j][ǐ]", "[M] and  and "),
        ("arr[i] and [a]", "arr[i] and [a]"),
        ("<|en|>Hello <|xx|>", "Hello <|xx|>"),
    ],
)
def test_a_mark_that_the_checkpoint_lacks_is_left_out_and_told(text: str, written: str) -> None:
    """A plain phoneme such as [a] is one only beside another: alone it is text."""
    for push in (lambda text: [text], list):
        warnings: list[str] = []
        reader = MarkReader(speech_marks(()), True, warnings.append)
        parts = [part for piece in push(text) for part in reader.read(piece, False)]
        parts += reader.read("", True)
        assert "".join(part.written for part in parts if isinstance(part, Span)) == written
        assert bool(warnings) == (written != text)
        for warning in warnings:
            assert "does not take the mark" in warning


@pytest.mark.parametrize(
    ("text", "num_marks"),
    [
        ("- [x] done", 0),
        ("arr[i] and [a]", 0),
        ("[n][ǐ][h][ǎo]", 4),
        ("Ni hao: [n][i] [h][ao].", 4),
        ("[l][e], then [e]", 2),
    ],
)
def test_a_mark_of_sounds_that_are_read_is_one_only_beside_another_where_it_may_be_text(
    text: str, num_marks: int
) -> None:
    ids = {mark: [FIRST_ID + index] for index, mark in enumerate(SPEECH_MARKS)}
    marks = SpeechMarks(
        codes, lambda mark: ids[mark], PHONEME_MARKS, SPEECH_MARKS, PHONEME_MARKS, PINYIN_TOKENS
    )
    for pieces in ([text], list(text)):
        reader = MarkReader(marks, True, print)
        parts = [part for piece in pieces for part in reader.read(piece, False)] + reader.read("", True)
        assert "".join(part.source for part in parts) == text
        assert sum(not part.is_plain for part in parts if isinstance(part, Span)) == num_marks


def test_marks_that_are_not_wanted_are_text(frontend: TextFrontend) -> None:
    text = "One [laughter] two [pause:1s] [rate:9]"
    (item,) = read(frontend, [text], reading=Reading(marks=False, normalize=False))
    assert isinstance(item, Segment)
    assert item.text_ids == tuple(codes(text))


def test_pauses_voices_and_rates_stand_between_segments(frontend: TextFrontend) -> None:
    text = "😀[pause:0.8s]One. [voice:anna b] Two[rate:0.9][pause: 300 ms ]three[pause:0s]"
    for mode in MODES:
        items = read(frontend, list(text), mode)
        said = [item.spoken if isinstance(item, Segment) else replace(item, source="") for item in items]
        assert [one for one in said if one] == [
            Pause("", 0.8),
            "One.",
            Voice("", "anna b"),
            "Two",
            Rate("", 0.9),
            Pause("", 0.3),
            "three",
            Pause("", 0.0),
        ]
        assert "".join(item.source for item in items if isinstance(item, Segment | Pause)) == text


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("[pause:1]", "a time of 0 to 10 s, such as 0.8s or 300ms"),
        ("[pause:11s]", "a time of 0 to 10 s"),
        ("[pause:-1s]", "a time of 0 to 10 s"),
        ("[pause:nans]", "a time of 0 to 10 s"),
        ("[rate:0.4]", "a number from 0.5 to 2"),
        ("[rate:fast]", "a number from 0.5 to 2"),
        ("[voice: ]", "the name of a speaker"),
    ],
)
def test_a_mark_with_a_bad_value_is_named(mark: str, words: str, frontend: TextFrontend) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(frontend, list(f"Hello {mark} there"), "continuous")
    assert f"the mark {mark} in the text" in refused.value.message
    assert words in refused.value.message
    assert refused.value.param == "text"


def test_voices_and_marks_of_a_text_are_bounded(frontend: TextFrontend) -> None:
    voices = "".join(f"[voice:v{number}]a" for number in range(MAX_VOICES))
    read(frontend, [voices * 2])
    for text in (voices + "[voice:w]", "a[pause:1ms]" * 501):
        with pytest.raises(InvalidRequest, match="more than 500 marks or 8 voices"):
            read(frontend, [text])


def test_an_open_bracket_is_not_waited_for_longer_than_a_name(frontend: TextFrontend) -> None:
    feed = frontend.open("continuous", None, Reading(), [], Work(DEFAULT_LIMITS))
    assert spoken(feed.read("Oh [voice:" + "a b " * 60, False)) == "Oh"
    assert spoken(feed.read("a b " * ((MAX_NAME_CHARS + 7) // 4), False)).startswith(" voice:a b a b")
    feed = frontend.open("continuous", None, Reading(), [], Work(DEFAULT_LIMITS))
    assert spoken(feed.read("Mind the [not a mark", False)) == "Mind the not a"


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(
                    "[pause:0.5s]",
                    "[voice:anna]",
                    "[rate:1.1]",
                    "[laughter]",
                    "</strong>",
                    "[M]",
                    "[AY0]",
                    "[a]",
                ),
                *(
                    "[pause:",
                    "[voice:",
                    "[",
                    "]",
                    "<",
                    "<|en|>",
                    "[lau",
                    "ghter]",
                    "s]",
                    "0.1s]",
                    "\U00100001",
                    " ",
                ),
                *(sentence for sentences in SENTENCES.values() for sentence in sentences),
            ]
        ),
        st.text(max_size=20),
    ),
    max_size=12,
)


@functools.cache
def _readers() -> tuple[SpeechMarks, SpeechMarks]:
    return speech_marks(), speech_marks(())


@given(pieces=PIECES, is_taken=st.booleans())
def test_any_text_is_read_whole_however_it_is_cut(pieces: list[str], is_taken: bool) -> None:
    text = "".join(pieces)
    marks = _readers()[0 if is_taken else 1]

    def parts(ways: list[str]) -> list[Part] | str:
        reader = MarkReader(marks, True, lambda message: None)
        found: list[Part] = []
        try:
            for piece in ways:
                found += reader.read(piece, False)
            found += reader.read("", True)
        except InvalidRequest as error:
            return error.message
        return found

    whole = parts([text])
    for ways in (pieces, list(text)):
        cut = parts(ways)
        if isinstance(whole, str) or isinstance(cut, str):
            assert cut == whole
            continue
        assert "".join(part.source for part in cut) == text
        assert joined(cut) == joined(whole)


@given(pieces=PIECES, mode=st.sampled_from(MODES), normalize=st.booleans())
def test_any_items_have_the_text_as_their_sources(pieces: list[str], mode: Mode, normalize: bool) -> None:
    items: list[Item] = []
    feed = _frontend().open(mode, "en", Reading(normalize), [], Work(DEFAULT_LIMITS))
    try:
        for piece in pieces:
            items += feed.read(piece, False)
        items += feed.read("", True)
    except InvalidRequest:
        return
    sources = "".join(item.source for item in items if not isinstance(item, Voice | Rate))
    assert "".join(pieces).startswith(sources)


@functools.cache
def _frontend() -> TextFrontend:
    return TextFrontend(Normalizer(), speech_marks(), SegmentLimits(80, 60, 20), 30)
