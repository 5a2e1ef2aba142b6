"""Text that is flushed in mid-sentence: what waits for more, and how an utterance begins and ends."""

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import FamilyRules, Segment, Segmenter, SegmentLimits
from firstword.app.text.stream import MAX_WAITING, WordFeed
from tests.text.examples import codes


@pytest.fixture
def feed(normalizer: Normalizer) -> WordFeed:
    """As of the built-in voice, whose language model has read whole sentences alone."""
    rules = FamilyRules(stops_cuts=True)
    return WordFeed(Segmenter(normalizer, codes, SegmentLimits(), 30, rules), "en")


def spoken(segments: list[Segment]) -> str:
    return "".join(segment.spoken for segment in segments)


@pytest.mark.parametrize(
    ("text", "first", "then"),
    [
        ("We should meet at the ", "We should meet", "at the station."),
        ("I gave it to my ", "I gave it", "to my station."),
        ("The capital of France is ", "The capital of France", "is station."),
        ("What are you looking at", "What are you looking at", "station."),
        ("We saw the", "We saw", "the station."),
        ("Hello there.", "Hello there.", "station."),
        ("Hello", "Hello", "station."),
    ],
)
def test_a_word_that_leads_to_the_next_waits_for_it(text: str, first: str, then: str, feed: WordFeed) -> None:
    assert spoken(feed.push(text) + feed.flush(is_end=False)) == first
    assert spoken(feed.push(" station.") + feed.flush()) == then


def test_nothing_waits_at_the_end(feed: WordFeed) -> None:
    assert spoken(feed.push("We should meet at the ") + feed.flush()) == "We should meet at the"


def test_sources_concatenate_over_flushes(feed: WordFeed) -> None:
    segments = feed.push("We met at the ") + feed.flush(is_end=False)
    segments += feed.push("old station ") + feed.flush(is_end=False)
    segments += feed.push("today.") + feed.flush()
    assert "".join(segment.source for segment in segments) == "We met at the old station today."


def test_a_word_tells_what_ends_an_utterance_behind_it(feed: WordFeed) -> None:
    hello, there = feed.push("Hello there. ")
    assert hello.ending_ids == tuple(codes("."))
    assert there.ending_ids == ()
    assert there.text_ids == tuple(codes(" there."))
    assert there.first_ids == tuple(codes("there."))


@pytest.mark.parametrize(
    "text", ["...hello there", "… hello there", ", hello there", "? hello there", "• hello there"]
)
def test_marks_before_the_first_word_are_not_given_to_the_language_model(text: str, feed: WordFeed) -> None:
    segments = feed.push(text) + feed.flush()
    assert spoken(segments) == "hello there"
    assert [id for segment in segments for id in segment.text_ids] == codes("hello there")


def test_other_checkpoints_are_given_all_of_it(normalizer: Normalizer) -> None:
    feed = WordFeed(Segmenter(normalizer, codes, SegmentLimits(), 30), "en")
    segments = feed.push("...we meet at the ") + feed.flush(is_end=False)
    assert spoken(segments) == "...we meet at the"
    assert all(segment.ending_ids == () for segment in segments)


def test_segments_begin_without_marks(normalizer: Normalizer) -> None:
    segmenter = Segmenter(normalizer, codes, SegmentLimits(), 30, FamilyRules(stops_cuts=True))
    (segment,) = segmenter.split("...hello there", "en", True)
    assert segment.spoken == "hello there."
    assert segment.source == "...hello there"


def test_only_so_many_words_wait(feed: WordFeed) -> None:
    given = [segment for letter in "the " * 40 for segment in feed.push(letter)]
    assert len(given) == 40 - MAX_WAITING
    assert spoken(given + feed.flush()) == "the " * 39 + "the"
