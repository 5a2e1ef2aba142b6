"""Words in two ways in text that comes in pieces: as in the whole, and behind what clients ask for."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.text.heteronyms import HeteronymReader
from firstword.app.text.lexicon import Lexicon, LexiconReader
from firstword.app.text.marks import MarkReader, Part, Reading, Span
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import Segment, SegmentLimits
from firstword.app.text.stream import Mode, Pronunciations, TextFrontend
from firstword.models.tokenizer.heteronyms import length_of_open_word
from tests.text.marked import joined, speech_marks

MARKS = speech_marks()
SOUNDS = ("[W]", "[AY1]", "[N]", "[D]")
TEXT = "To wind, the wind. I want to wind it [pause:1s]wind to[laughter] wind 'to wind' towind to winds"
SAID = "To *, the wind. I want to * it wind to[laughter] * 'to *' towind to winds"


class AfterTo:
    """ "wind" is read in another way behind the word "to"."""

    def find(self, text: str, before: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        start = 0
        while (start := text.find("wind", start)) >= 0:
            words = (before + text[:start]).replace("[laughter]", " ").replace("'", " ").lower().split()
            end = start + len("wind")
            is_whole = not text[end : end + 1].isalpha() and not (before + text[:start])[-1:].isalpha()
            if is_whole and words[-1:] == ["to"]:
                yield start, end, SOUNDS
            start = end

    def num_open(self, text: str) -> int:
        return length_of_open_word(text)


def read(pieces: list[str], entries: dict[str, str] | None = None) -> list[Part]:
    words = LexiconReader(MarkReader(MARKS, True, print), [Lexicon(entries or {}, MARKS)])
    reader = HeteronymReader(words, AfterTo(), MARKS)
    return [part for piece in pieces for part in reader.read(piece, False)] + reader.read("", True)


def said(parts: list[Part]) -> str:
    written = MARKS.shown("".join(part.written for part in parts if isinstance(part, Span)))
    return written.replace("".join(SOUNDS), "*")


@given(st.lists(st.integers(1, len(TEXT) - 1), max_size=30, unique=True))
def test_cuts_change_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(TEXT)]
    parts = read([TEXT[start:end] for start, end in pairwise(edges)])
    assert said(parts) == SAID
    assert "".join(part.source for part in parts) == TEXT
    assert joined(parts) == joined(read([TEXT]))


def test_a_lexicon_goes_before_and_its_word_counts_as_it_was_written() -> None:
    assert said(read(["to wind"], {"wind": "breeze"})) == "to breeze"
    assert said(read(["to wind"], {"to": "too"})) == "too *"


def test_a_word_is_held_only_while_it_may_go_on() -> None:
    reader = HeteronymReader(MarkReader(MARKS, True, print), AfterTo(), MARKS)
    assert reader.read("to wi", False) == [Span("to ", "to ")]
    assert reader.read("nd", False) == []
    assert said(reader.read(" ", False)) == "* "


@pytest.mark.parametrize("mode", ["whole", "segments", "continuous"])
def test_segments_have_the_clients_words_as_their_source(mode: Mode) -> None:
    known = Pronunciations(heteronyms={"": [AfterTo()]})
    frontend = TextFrontend(Normalizer(), MARKS, SegmentLimits(80, 60, 20), 20, pronunciations=known)
    feed = frontend.open(mode, "en", Reading(), [], Work(DEFAULT_LIMITS), finds_words=True)
    items = [*feed.read("I like to wi", False), *feed.read("nd it.", False), *feed.read("", True)]
    segments = [item for item in items if isinstance(item, Segment)]
    assert "".join(segment.source for segment in segments) == "I like to wind it."
    words = [one.source[word.start : word.end] for one in segments for word in one.words]
    assert words == ["I", "like", "to", "wind", "it"]
    assert "".join(SOUNDS) in MARKS.shown("".join(segment.spoken for segment in segments))
