"""Tags of other engines are never read aloud, however the text that has them comes."""

import pytest

from firstword.app.budget import DEFAULT_LIMITS, Work
from firstword.app.text.marks import Reading
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import FamilyRules, Segment, SegmentLimits
from firstword.app.text.stream import Mode, TextFrontend
from firstword.models.tokenizer import SPEECH_MARKS
from tests.text.marked import COSYVOICE3, FIRST_ID, speech_marks

TAGS = [
    *("[laugh]", "[laughs]", "<chuckle>", "<sigh>", "[whispering]", "[clears throat]", "[sad voice]", "[S1]"),
    *("*sighs*", "*laughs nervously*", "(whispering)", "(laughs softly)", "[deep breath]", "[excitedly]"),
    *("[LAUGHTER]", "<gasp>", "(clears throat)", "*gulps*", "[music playing]", "[pause]"),
]
TEXTS = [
    *("it is (sad) but so", "*very* good", "(see page five)", "[maybe] so", "(music by Bach)", "2 * 3 * 4"),
    *("a (short) one", "**laughs**", "the <b> one", "(laugh at me)"),
]
MODES: tuple[Mode, ...] = ("whole", "segments", "continuous")


def said(text: str, taken: tuple[str, ...], mode: Mode, reads_marks: bool = True) -> tuple[str, list[str]]:
    """Return what is spoken, and the warnings."""
    rules = FamilyRules(adds_final_stop=False)
    frontend = TextFrontend(NORMALIZER, speech_marks(taken), SegmentLimits(80, 60, 20), 30, rules)
    warnings: list[str] = []
    feed = frontend.open(mode, "en", Reading(marks=reads_marks), warnings, Work(DEFAULT_LIMITS))
    items = [item for letter in text for item in feed.read(letter, False)] + feed.read("", True)
    ids = [id for item in items if isinstance(item, Segment) for id in item.text_ids]
    spoken = "".join(SPEECH_MARKS[id - FIRST_ID] if id >= FIRST_ID else chr(id) for id in ids)
    return " ".join(spoken.split()), warnings


NORMALIZER = Normalizer()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_is_left_out_where_no_mark_is_taken(tag: str, mode: Mode) -> None:
    spoken, warnings = said(f"Well {tag} hello there.", (), mode)
    assert spoken == "Well hello there."
    assert len(warnings) == 1


@pytest.mark.parametrize(
    ("tag", "mark"),
    [("[laugh]", "[laughter]"), ("*sighs*", "[sigh]"), ("(coughs)", "[cough]"), ("<gasp>", "[quick_breath]")],
)
def test_a_checkpoint_that_knows_the_sound_is_given_its_mark(tag: str, mark: str) -> None:
    spoken, warnings = said(f"Well {tag} hello.", COSYVOICE3, "whole")
    assert mark in spoken
    assert warnings == []


@pytest.mark.parametrize("text", TEXTS)
def test_what_only_looks_like_a_tag_is_text(text: str) -> None:
    assert said(text, (), "continuous")[1] == []


def test_without_marks_a_tag_is_text() -> None:
    assert said("Well [laugh] so.", (), "whole", reads_marks=False)[0] == "Well [laugh] so."
