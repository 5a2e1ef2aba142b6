# ruff: noqa: RUF001  Chinese punctuation is meant
"""Whole texts are cut into segments."""

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.phrases import find_phrases
from firstword.app.text.segment import FamilyRules, Segment, Segmenter, SegmentLimits
from tests.text.examples import HOSTILE, SENTENCES, codes, random_texts

EVERY_SENTENCE = SegmentLimits(max_length=400, min_length=0, merge_length=0)
TINY = SegmentLimits(max_length=16, min_length=8, merge_length=4)
ALL_SENTENCES = [text for texts in SENTENCES.values() for text in texts]


def split(normalizer: Normalizer, text: str, limits: SegmentLimits, first: int = 0) -> list[Segment]:
    return Segmenter(normalizer, codes, limits, first).split(text, None, True)


def sentences(normalizer: Normalizer, text: str) -> list[str]:
    segmenter = Segmenter(normalizer, codes, SegmentLimits(400, 0, 0), 400)
    finder = segmenter.sentence_finder()
    found = finder.add(find_phrases(text)) + finder.flush()
    return [sentence.source.strip() for sentence in found]


@pytest.mark.parametrize(
    "parts",
    [
        ["One.", "Two!", "Three?", "four"],
        ["It is 3.5 km.", "He paid $5.20.", "Then he left."],
        ["Dr. Smith met J. R. Brown, e.g. at No. 5.", "He left."],
        ["Wait... what?", "Well...", "Yes."],
        ["We left at 7 p.m. yesterday.", "They left at 9 p.m.", "All did."],
        ["The U.S. Army came.", "I live in the U.S.", "It is big."],
        ["We went to St. Louis yesterday.", "It rained."],
        ["I live on Main St.", "It is quiet."],
        ["Ali vs. Frazier was great.", "Mount St. Helens too."],
        ["Meet approx. Monday at 5 p.m. Eastern.", "Bye."],
        ["Apple Inc. Magazine said so.", "He works at Acme Corp.", "She does not."],
        ["The Jan. Report came.", "The Ph.D. Students met.", "Sr. Maria left."],
        ["It is $1.2 million.", "That is a lot.", "World War II.", "It ended."],
        ["See https://example.com/a.b?c=d.e now.", "Or mail a.b@example.com.", "Bye."],
        ["“Stop!” he said.", "“Why?”", "“Because.”", "“Oh.”"],
        ["1. First.", "2. Second.", "It was 5.", "Yes."],
        ["Title", "- one", "- two", "The end"],
        ["你好。", "“好的！”", "他说：好？", "今天是3.5公里…", "再见"],
        ["Hello world.", "你好世界。", "Bye."],
    ],
)
def test_sentences_end_where_they_end(parts: list[str], normalizer: Normalizer) -> None:
    between = "\n\n" if parts[0] == "Title" else " "
    assert sentences(normalizer, between.join(parts)) == parts


@pytest.mark.parametrize(
    "parts",
    [
        ["# Soup\n", "Two eggs and\nMilk are enough\n", "- Wait 5 minutes\n", "Then eat"],
        ["- an item that\n  Goes on\n", "- another\n", "That is all"],
        ["Bob Smith\n", "12 Main St\n", "Springfield\n\n", "Hello,\nBob"],
        ["✅ Done\n", "✅ Tested\n", "❌ failed"],
        ["A line that is longer than any of an address or a poem, as mail has\nMonday is in its second."],
        ["Roses are\nred\n", "Violets are blue"],
        ["## 标题\n", "正文"],
    ],
)
def test_lines_end_sentences_unless_they_are_wrapped(parts: list[str], normalizer: Normalizer) -> None:
    assert sentences(normalizer, "".join(parts)) == [part.strip() for part in parts]


@pytest.mark.parametrize("limits", [TINY, SegmentLimits(), EVERY_SENTENCE])
def test_sources_concatenate_to_the_text(limits: SegmentLimits, normalizer: Normalizer) -> None:
    for text in ALL_SENTENCES + random_texts(800):
        for normalize in (True, False):
            segments = Segmenter(normalizer, codes, limits, 10).split(text, None, normalize)
            assert not segments or "".join(segment.source for segment in segments) == text
            assert all(segment.spoken.strip() for segment in segments)


@pytest.mark.parametrize("unit", HOSTILE)
def test_long_text_of_anything_is_cut_small(unit: str, normalizer: Normalizer) -> None:
    text = (unit * 4096)[:4096]
    segments = Segmenter(normalizer, codes, SegmentLimits(), 30).split(text, None, True)
    assert not segments or "".join(segment.source for segment in segments) == text
    assert all(len(segment.spoken) <= 1000 for segment in segments)
    if unit in ("a", "你"):
        assert all(len(segment.spoken) <= 160 for segment in segments)
        assert "".join(segment.spoken for segment in segments).rstrip(".。") == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "  ", "...", "😀 !!", "\n\n", "\ud800", "“”", "***", "---"),
        *("\u200d", "\u0301", "\u20dd", "\u115f", "\u3164", "\u0301 \u200d\u3164.", "\x00"),
    ],
)
def test_a_text_with_nothing_to_say_gives_nothing(text: str, normalizer: Normalizer) -> None:
    assert split(normalizer, text, SegmentLimits()) == []
    assert Segmenter(normalizer, codes, SegmentLimits(), 10).split(text, "en", False) == []


def test_what_cannot_be_said_goes_with_a_neighbour(normalizer: Normalizer) -> None:
    segments = split(normalizer, "😀 !! Hello there. 😀 ... !!! Bye. 🎉", EVERY_SENTENCE)
    assert [segment.source for segment in segments] == ["😀 !! Hello there. 😀 ... !!!", " Bye. 🎉"]
    assert [segment.spoken.rstrip(".!") for segment in segments] == ["Hello there", "Bye"]


def test_each_language_has_segments_of_its_own(normalizer: Normalizer) -> None:
    segments = split(normalizer, "I have 2 cats. 我有3个苹果。 Bye.", SegmentLimits(), 30)
    assert [(segment.spoken, segment.language) for segment in segments] == [
        ("I have two cats.", "en"),
        ("我有三个苹果。", "zh"),
        ("Bye.", "en"),
    ]


def test_a_given_language_is_kept(normalizer: Normalizer) -> None:
    segments = Segmenter(normalizer, codes, SegmentLimits(), 30).split("我有3个. I have 2.", "zh", True)
    assert {segment.language for segment in segments} == {"zh"}
    assert "".join(segment.spoken for segment in segments) == "我有三个。I have二。"


def test_short_sentences_are_joined_up_to_the_limits(normalizer: Normalizer) -> None:
    segments = split(normalizer, "First one. " + "This has twenty char. " * 8, SegmentLimits(80, 60, 20), 12)
    assert [segment.spoken.count(".") for segment in segments] == [1, 3, 3, 2]


def test_the_first_segment_is_cut_short_at_a_comma_only(normalizer: Normalizer) -> None:
    text = "When all was done, and nothing more was left to do, they went home without a word to anyone"
    limits = SegmentLimits(200, 0, 0)
    first = [split(normalizer, text, limits, first)[0].source for first in (10, 20, 60, 200)]
    assert first == [
        "When all was done,",
        "When all was done,",
        "When all was done, and nothing more was left to do,",
        text,
    ]
    without_commas = text.replace(",", "")
    assert split(normalizer, without_commas, limits, 10)[0].source == without_commas


def test_a_long_sentence_is_cut_at_commas_then_at_blanks(normalizer: Normalizer) -> None:
    limits = SegmentLimits(30, 0, 5)
    sources = [
        segment.source
        for segment in split(normalizer, "aaaa bbbb cccc, dddd eeee ffff gggg hhhh iiii jjjj", limits)
    ]
    assert sources == ["aaaa bbbb cccc,", " dddd eeee ffff gggg hhhh iiii", " jjjj"]


def test_long_chinese_without_marks_is_cut_beside_a_word(normalizer: Normalizer) -> None:
    text = "他昨天在车站等了很久的朋友没有来但是他说过的确是今天下午和家人一起到达的那趟列车"
    segments = split(normalizer, text, SegmentLimits(max_length=20, min_length=8, merge_length=4))
    assert [segment.source for segment in segments] == [
        "他昨天在车站等了很久的朋友没有来",
        "但是他说过的确是今天下午和家人一起到达的",
        "那趟列车",
    ]


def test_a_number_is_never_cut(normalizer: Normalizer) -> None:
    text = "It was on " + "June 5, 2024 or " * 20 + "never"
    for segment in split(normalizer, text, SegmentLimits(40, 0, 5), 10):
        assert not segment.source.strip().endswith(("June", "5,"))
        assert not segment.source.strip().startswith(("5,", "2024"))


def test_the_last_word_gets_a_stop(normalizer: Normalizer) -> None:
    assert split(normalizer, "Hello", TINY)[0].spoken == "Hello."
    assert split(normalizer, "你好", TINY)[0].spoken == "你好。"
    assert split(normalizer, "“你好”，", TINY)[0].spoken == "“你好”。"
    plain = FamilyRules(adds_final_stop=False, plain_chinese_marks=False)
    segmenter = Segmenter(normalizer, codes, TINY, 10, plain)
    assert segmenter.split("（你好）", None, True)[0].spoken == "（你好）"


def test_where_a_sentence_is_cut_it_can_end_in_a_stop(normalizer: Normalizer) -> None:
    """The built-in voice goes on for ever behind an end it has never read."""
    text = "aaaa bbbb cccc, dddd eeee ffff gggg hhhh iiii jjjj"
    rules = FamilyRules(stops_cuts=True)
    cut = Segmenter(normalizer, codes, SegmentLimits(30, 10, 0), 10, rules).split(text, None, True)
    assert "".join(segment.source for segment in cut) == text
    assert [segment.spoken for segment in cut] == [
        "aaaa bbbb cccc.",
        "dddd eeee ffff gggg hhhh iiii.",
        "jjjj.",
    ]
    whole = Segmenter(normalizer, codes, SegmentLimits(400, 0, 0), 400, rules).split(text, None, True)
    assert [segment.spoken for segment in whole] == [f"{text}."]


@pytest.mark.parametrize(
    ("spoken", "language", "ended"),
    [
        ("one,", "en", "one."),
        ("one -", "en", "one."),
        ("one", "en", "one."),
        ("one?", "en", "one?"),
        ('"one."', "en", '"one."'),
        ('one!" ', "en", 'one!" '),
        ("一，", "zh", "一。"),
        ("一：", "zh", "一。"),
        ("一", "zh-CN", "一。"),
        ("一？", "zh", "一？"),
    ],
)
def test_end(spoken: str, language: str, ended: str) -> None:
    assert FamilyRules(stops_cuts=True).end(spoken, language) == ended
    assert FamilyRules().end(spoken, language) == spoken


def test_text_that_is_not_to_be_normalized_is_said_as_it_is(normalizer: Normalizer) -> None:
    segments = Segmenter(normalizer, codes, EVERY_SENTENCE, 0).split(" It is *5* km. Dr. No", None, False)
    assert [segment.spoken for segment in segments] == ["It is *5* km.", "Dr. No"]
