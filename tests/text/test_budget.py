"""What a text comes to is counted as it is read, and refused before any of it is normalized."""

import pytest

from firstword.app.budget import DEFAULT_LIMITS, Work, WorkLimits
from firstword.app.errors import InvalidRequest, TextTooLong
from firstword.app.text.marks import Reading
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import ItemFeed, Mode, SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.text.marked import speech_marks


class Never(TextFrontend):
    """Fails where a text gets as far as being cut."""

    def split(self, *_: object) -> list[object]:  # type: ignore[override]
        raise AssertionError("it was read")


def opened(
    normalizer: Normalizer,
    reading: Reading | None = None,
    work: Work | None = None,
    mode: Mode = "whole",
    kind: type[TextFrontend] = TextFrontend,
) -> ItemFeed:
    frontend = kind(normalizer, speech_marks(), SegmentLimits(80, 60, 20), 30)
    return frontend.open(mode, "en", reading or Reading(), [], work or Work(DEFAULT_LIMITS))


def test_a_lexicon_cannot_multiply_a_text(normalizer: Normalizer) -> None:
    feed = opened(normalizer, Reading(lexicon={"a": "b " * 199 + "b"}), kind=Never)
    with pytest.raises(TextTooLong) as refused:
        feed.read("a " * 2000, True)
    assert "800000 characters" in refused.value.message
    assert "at most 16384" in refused.value.message
    assert "FIRSTWORD_MAX_READ_CHARS" in refused.value.message


def test_aliases_of_ssml_count_as_they_are_read(normalizer: Normalizer) -> None:
    text = f"<speak><sub alias='{'a' * 50}'>b</sub></speak>"
    with pytest.raises(TextTooLong, match=r"50 characters .* at most 40 "):
        opened(normalizer, work=Work(WorkLimits(max_text_chars=10)), kind=Never).read(text, True)


def test_a_text_of_the_length_that_is_allowed_is_read(normalizer: Normalizer) -> None:
    text = "Good day to you. " * 240
    assert len(text) <= DEFAULT_LIMITS.max_text_chars
    assert opened(normalizer).read(text, True)


@pytest.mark.parametrize("text", ["[pause:10s]" * 370, "<speak>" + '<break time="10s"/>' * 370 + "</speak>"])
def test_pauses_are_no_audio_for_nothing(normalizer: Normalizer, text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        opened(normalizer, kind=Never).read(text, True)
    assert not isinstance(refused.value, TextTooLong)
    assert "3700 s together, at most 60 s" in refused.value.message
    assert "FIRSTWORD_MAX_PAUSES_S" in refused.value.message


def test_each_sentence_allows_two_seconds_more(normalizer: Normalizer) -> None:
    text = "Breathe in. [pause:2s] " * 40 + "[pause:10s]" * 6
    assert opened(normalizer).read(text, True)
    with pytest.raises(InvalidRequest, match=r"141 s together, at most 140 s .* its sentences, 40;"):
        opened(normalizer).read(f"{text}[pause:1s]", True)


def test_marks_without_words_are_no_sentences(normalizer: Normalizer) -> None:
    with pytest.raises(InvalidRequest, match="its sentences, 0;"):
        opened(normalizer).read(". ! ? … [pause:10s]" * 7, True)


@pytest.mark.parametrize("mode", ["segments", "continuous"])
def test_pushed_text_counts_as_it_comes(normalizer: Normalizer, mode: Mode) -> None:
    feed = opened(normalizer, work=Work(WorkLimits(max_pauses_s=3)), mode=mode)
    for piece in ("Good ", "day[pause:2s]. ", "Go on.[pau", "se:4s] "):
        feed.read(piece, False)
    with pytest.raises(InvalidRequest, match=r"8 s together, at most 7 s .* its sentences, 2;"):
        feed.read("[pause:2s]", False)


def test_an_item_of_a_batch_may_be_as_long_as_its_text_allows() -> None:
    item = Work(DEFAULT_LIMITS, num_item_chars=10 * DEFAULT_LIMITS.max_text_chars)
    item.read(["a" * 100_000], 0.0)
    item.check_audio(9000.0)
    with pytest.raises(InvalidRequest, match=r"9000\.1 s long, at most 9000 s .*FIRSTWORD_MAX_AUDIO_S"):
        item.check_audio(9000.1)
    with pytest.raises(InvalidRequest, match="at most 900 s"):
        Work(DEFAULT_LIMITS, num_item_chars=10).check_audio(900.1)
    with pytest.raises(InvalidRequest, match="at most 62 s"):
        Work(DEFAULT_LIMITS, num_item_chars=100_000).read(["a"], 70.0)
