"""Which words were heard."""

import pytest

from firstword.app.core.interface import Audio
from firstword.app.core.transcript import UtteranceTranscript, spoken_text
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.support.toy_engine import ToyEngine, asked_in_pieces
from tests.text.marked import speech_marks

RATE_HZ = 1000


def test_whole_utterances_are_told_exactly() -> None:
    said = [UtteranceTranscript("One two. ", 500, 500), UtteranceTranscript("Three four.", 700, 700)]
    assert spoken_text(said, 500, RATE_HZ) == "One two. "
    assert spoken_text(said, 1200, RATE_HZ) == "One two. Three four."
    assert spoken_text(said, 5000, RATE_HZ) == "One two. Three four."


def test_within_an_utterance_only_whole_words_count() -> None:
    said = [UtteranceTranscript("one two three four", 1800, 1800)]
    heard = [spoken_text(said, 100 * share, RATE_HZ) for share in range(19)]
    assert heard[0] == heard[2] == ""
    assert heard[3] == "one"
    assert heard[7] == heard[12] == "one two"
    assert heard[17] == "one two three"
    assert heard[18] == "one two three four"


def test_ideographs_are_words_of_their_own() -> None:
    assert spoken_text([UtteranceTranscript("你好世界", 1000, 1000)], 600, RATE_HZ) == "你好"


def test_an_utterance_still_being_made_is_not_taken_for_whole() -> None:
    said = [UtteranceTranscript("a rather long sentence that has only just begun to be spoken", 400)]
    assert spoken_text(said, 400, RATE_HZ) != said[0].source


def test_nothing_heard_is_no_text() -> None:
    assert spoken_text([], 0, RATE_HZ) == ""
    assert spoken_text([UtteranceTranscript("word", 100, 100)], 0, RATE_HZ) == ""


@pytest.mark.anyio
@pytest.mark.parametrize("wants_words", [True, False])
async def test_text_that_cannot_be_spoken_between_two_flushes_is_not_lost(wants_words: bool) -> None:
    reader = TextFrontend(Normalizer(("en",)), speech_marks(), SegmentLimits(80, 60, 20), 30)
    pieces = ("... ", "Hello there.", " -- ", "[pause:0.5s]", "And goodbye.")
    request = asked_in_pieces("continuous", wants_words=wants_words)
    async with ToyEngine(text=reader) as toy, toy.engine.open(request) as stream:
        for piece in pieces:
            stream.push_text(piece)
            stream.flush()
        stream.finish_text()
        total = sum([len(event.samples) async for event in stream if isinstance(event, Audio)])
        heard = [stream.spoken_text(total * share // 20) for share in range(21)]
    assert heard[-1] == "".join(pieces)
    assert all(heard[-1].startswith(spoken) for spoken in heard)
