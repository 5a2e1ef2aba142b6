# ruff: noqa: RUF001  Chinese punctuation is meant
"""Text in pieces gives the same as whole text, and gives it early."""

from collections.abc import Iterable

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import Segment, Segmenter, SegmentLimits
from firstword.app.text.stream import SentenceFeed, WholeFeed, WordFeed
from tests.text.examples import HOSTILE, SENTENCES, codes, random_cuts, random_texts

CASES = [(language, text) for language, texts in SENTENCES.items() for text in texts]
Feed = SentenceFeed | WordFeed


def fed(feed: Feed, pieces: Iterable[str]) -> list[Segment]:
    return [segment for piece in pieces for segment in feed.push(piece)] + feed.flush()


def segmenter(normalizer: Normalizer, limits: SegmentLimits | None = None) -> Segmenter:
    return Segmenter(normalizer, codes, limits or SegmentLimits(), 30)


def ways_to_cut(text: str) -> list[list[str]]:
    halves = [[text[:place], text[place:]] for place in range(len(text) + 1)]
    return [list(text), *halves, *(random_cuts(text, seed) for seed in range(10))]


@pytest.mark.parametrize(("language", "text"), CASES)
@pytest.mark.parametrize("is_known", [True, False])
def test_words_do_not_depend_on_how_the_text_was_cut(
    language: str, text: str, is_known: bool, normalizer: Normalizer
) -> None:
    given = language if is_known else None
    whole = fed(WordFeed(segmenter(normalizer), given), [text])
    for pieces in ways_to_cut(text):
        assert fed(WordFeed(segmenter(normalizer), given), pieces) == whole


@pytest.mark.parametrize(
    "text", ["1 - C:\\Users, 面粉200g。", "√2≈1.414 Super Bowl 二维码", "1. 2000年; the TV set was sold"]
)
def test_the_language_of_first_numbers_does_not_depend_on_how_the_text_was_cut(text: str) -> None:
    shared = segmenter(Normalizer(("en", "zh")))
    whole = fed(WordFeed(shared), [text])
    for pieces in ways_to_cut(text):
        assert fed(WordFeed(shared), pieces) == whole


@pytest.mark.parametrize(("language", "text"), CASES)
def test_words_together_are_the_whole_text_normalized(
    language: str, text: str, normalizer: Normalizer
) -> None:
    segments = fed(WordFeed(segmenter(normalizer), language), text)
    assert "".join(segment.source for segment in segments) == text
    assert "".join(segment.spoken for segment in segments) == normalizer(text, language)
    assert all(segment.spoken for segment in segments[:-1])


@pytest.mark.parametrize(("language", "text"), CASES)
def test_sentences_do_not_depend_on_how_the_text_was_cut(
    language: str, text: str, normalizer: Normalizer
) -> None:
    for limits in (SegmentLimits(), SegmentLimits(16, 8, 4)):
        shared = segmenter(normalizer, limits)
        whole = fed(SentenceFeed(shared), [text])
        assert text.startswith("".join(segment.source for segment in whole))
        assert len("".join(segment.source for segment in whole)) >= len(text.rstrip(" .!🎉\n"))
        for pieces in ways_to_cut(text)[:: 1 if limits.max_length > 16 else 7]:
            assert fed(SentenceFeed(shared), pieces) == whole


def test_any_text_comes_out_as_it_was_cut(normalizer: Normalizer) -> None:
    for number, text in enumerate(random_texts(400)):
        for normalize in (True, False):
            words = fed(WordFeed(segmenter(normalizer), None, normalize), random_cuts(text, number))
            assert "".join(segment.source for segment in words) == text
            assert words == fed(WordFeed(segmenter(normalizer), None, normalize), text)
            shared = segmenter(normalizer)
            cut = fed(SentenceFeed(shared, None, normalize), random_cuts(text, number))
            assert cut == fed(SentenceFeed(shared, None, normalize), text)
            assert text.startswith("".join(segment.source for segment in cut))


@pytest.mark.parametrize("unit", HOSTILE)
def test_hostile_text_in_pieces_is_given_out(unit: str, normalizer: Normalizer) -> None:
    text = (unit * 4096)[:4096]
    assert "".join(segment.source for segment in fed(WordFeed(segmenter(normalizer)), text)) == text


@pytest.mark.parametrize(
    ("pushed", "given"),
    [
        ("Hello there my", "Hello there"),
        ("Hello", ""),
        ("Hello, ", "Hello,"),
        ("It costs $5", "It costs"),
        ("It costs $5.20 mil", "It costs"),
        ("It costs $5.20 million ", "It costs"),
        ("It costs $5.20 million today ", "It costs five point two zero million dollars today"),
        ("at 7:30 p.m", "at"),
        ("at 7:30 we ", "at seven thirty we"),
        ("at 7:30, we", "at seven thirty,"),
        ("I met Dr. ", "I met"),
        ("I met Dr. Who ", "I met Doctor Who"),
        ("on June ", "on"),
        ("on June 5, ", "on"),
        ("on June 5, 2024. ", "on June fifth twenty twenty four."),
        ("你好世", "你好世"),
        ("我有3", "我有"),
        ("我有3个苹果", "我有"),
        ("我有3个苹果，", "我有三个苹果，"),
        ("我有3个苹果和梨", "我有三个苹果和梨"),
    ],
)
def test_words_come_as_early_as_is_safe(pushed: str, given: str, normalizer: Normalizer) -> None:
    feed = WordFeed(segmenter(normalizer))
    assert "".join(segment.spoken for character in pushed for segment in feed.push(character)) == given


def test_words_after_a_flush_begin_anew(normalizer: Normalizer) -> None:
    feed = WordFeed(segmenter(normalizer), "en")
    assert fed(feed, ["Pay $5"]) == [Segment("Pay", "Pay", "en"), Segment(" $5", " five dollars", "en")]
    assert fed(feed, [" million"]) == [Segment(" million", "million", "en")]
    assert fed(feed, [" 😀 "]) == [Segment(" 😀 ", "", "en")]
    assert feed.flush() == []


def test_words_that_are_not_to_be_normalized_keep_their_form(normalizer: Normalizer) -> None:
    segments = fed(WordFeed(segmenter(normalizer), None, normalize=False), " It is *5*  km. 你 好")
    assert "".join(segment.spoken for segment in segments) == "It is *5*  km. 你 好"


@pytest.mark.parametrize(
    ("pushed", "given"),
    [
        ("Hello there. ", ["Hello there."]),
        ("Hello there.", []),
        ("It is 3.", []),
        ("It is 3. ", ["It is three."]),
        ("1. Go. ", ["one. Go."]),
        ("I met Dr. Smith. He", ["I met Doctor Smith."]),
        ("Wait... what? ", ["Wait... what?"]),
        ("“Stop!” he said. ", ["“Stop!” he said."]),
        ("We left at 7 p.m. The ", ["We left at seven P M."]),
        ("你好。“好", ["你好。"]),
        ("“你好。”他", ["“你好。”"]),
        ("No end yet, but it goes on and on ", ["No end yet,"]),
    ],
)
def test_sentences_come_as_soon_as_they_are_whole(
    pushed: str, given: list[str], normalizer: Normalizer
) -> None:
    feed = SentenceFeed(segmenter(normalizer))
    said = [segment.spoken for character in pushed for segment in feed.push(character)]
    assert said == given


def test_what_cannot_be_said_waits_for_the_next_sentence(normalizer: Normalizer) -> None:
    feed = SentenceFeed(segmenter(normalizer), "en")
    assert fed(feed, ["😀 ..."]) == []
    assert fed(feed, [" Hi. "]) == [Segment("😀 ... Hi.", "Hi.", "en")]


def test_text_without_words_is_not_spoken_word_by_word(normalizer: Normalizer) -> None:
    feed = WordFeed(segmenter(normalizer), "en")
    assert fed(feed, " ... !? ") == [Segment(" ... !? ", "", "en")]
    assert fed(feed, ["... ", "- Yes", " ..."]) == [
        Segment("... - Yes", "... Yes", "en"),
        Segment(" ...", " ...", "en"),
    ]


@pytest.mark.parametrize(("language", "text"), CASES)
def test_segments_carry_the_tokens_of_what_is_spoken(
    language: str, text: str, normalizer: Normalizer
) -> None:
    shared = segmenter(normalizer)
    whole = shared.split(text, language, True)
    for segments in (whole, fed(SentenceFeed(shared), text), fed(WordFeed(shared), text)):
        assert [list(segment.text_ids) for segment in segments] == [codes(one.spoken) for one in segments]


@pytest.mark.parametrize("feed", [WholeFeed, SentenceFeed, WordFeed])
@pytest.mark.parametrize(
    ("before", "text", "language", "spoken"),
    [
        ("zh", "12", "zh", "十二"),
        ("", "12", "en", "twelve"),
        ("zh", "Chapter 12", "en", "Chapter twelve"),
        ("de", "12 Euro", "de", "zwölf Euro"),
        ("en", "Das kostet 12 Euro", "de", "Das kostet zwölf Euro"),
    ],
)
def test_speakers_language_decides_where_the_text_says_nothing(
    feed: type[WholeFeed | SentenceFeed | WordFeed], before: str, text: str, language: str, spoken: str
) -> None:
    normalizer = Normalizer(("en", "zh", "de"))
    given = feed(segmenter(normalizer), None, True, before)
    segments = [*given.push(text), *given.flush()]
    assert "".join(segment.spoken for segment in segments).rstrip(".。") == spoken
    assert segments[-1].language == language
