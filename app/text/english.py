"""Normalize an English phrase: abbreviations, signs and addresses here, numbers in english_numbers."""

import re

from firstword.app.text import english_vocabulary as vocabulary
from firstword.app.text.addresses import ENGLISH_MARKS, spell_addresses
from firstword.app.text.english_numbers import VULGAR, spell_numbers
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001  typographic dashes are meant

_PLAIN = re.compile(r"(?:[^\W²³]|['’\-\"“”‘()\[\],;:!?…—–])+\.?")
_DIGIT = re.compile("[0-9]")
_AROUND = re.compile(r"(?P<before>[\"'“‘(\[]*)(?P<core>.*?)(?P<after>[\"'”’)\],;:!?]*)", re.DOTALL)
_SIGNS = {
    "&": " and ",
    "@": " at ",
    "+": " plus ",
    "=": " equals ",
    "×": " times ",
    "÷": " divided by ",
    "±": " plus or minus ",
    "≈": " about ",
    "≤": " at most ",
    "≥": " at least ",
    "°": " degrees ",
    "%": " percent ",
    "№": " number ",
    "§": " section ",
    "²": " squared ",
    "³": " cubed ",
    "€": " euros ",
    "£": " pounds ",
    "$": " dollars ",
    "¥": " yen ",
    "₹": " rupees ",
}
_SIGN = re.compile("[" + re.escape("".join(_SIGNS)) + "]")
_BLANK_BEFORE_STOP = re.compile(r"\s+(?=[,.;:!?)])")
_NAMED_SIGNS = re.compile(r"\b([A-G])#(?!\w)")
_DROPPED = re.compile("[#~]")


def say_english(text: str, phrase: Phrase) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned; its neighbors decide between readings."""
    if text in vocabulary.OPERATORS:  # alone: read between numbers; a dash between words is a pause
        if not phrase.previous or not phrase.following:
            return ""
        if text in "-–—--":
            starts_line = "\n" in phrase.source
            return "" if starts_line or phrase.previous[-1:] in ",.;:!?-–—" else ","
        is_counting = phrase.previous[-1:].isdigit() or phrase.following[:1].isdigit()
        return vocabulary.OPERATORS[text] if is_counting or text in "+=×÷" else ""
    text = text.translate(VULGAR).lstrip()
    has_digit = _DIGIT.search(text) is not None
    if _PLAIN.fullmatch(text) and not has_digit and not vocabulary.is_abbreviation(text):
        return text
    spoken = spell_addresses(text, ENGLISH_MARKS)
    spoken = _NAMED_SIGNS.sub(r"\1 sharp", spoken if has_digit else _abbreviation(spoken, phrase))
    if has_digit:
        spoken = spell_numbers(spoken, phrase.previous)
    spoken = _DROPPED.sub(" ", _SIGN.sub(lambda sign: _SIGNS[sign[0]], spoken))
    spoken = _BLANK_BEFORE_STOP.sub("", " ".join(spoken.split()))
    # A full stop may have ended both an abbreviation and the sentence.
    has_lost_stop = text.endswith(".") and spoken and not spoken.endswith(".")
    is_title = text in vocabulary.TITLES or (text == vocabulary.SAINT_OR_STREET and spoken == "Saint")
    if has_lost_stop and not is_title and (not phrase.following or ends_before(phrase.following, text)):
        spoken += "."
    return spoken


def _abbreviation(text: str, phrase: Phrase) -> str:
    """The long form of an abbreviation; other text as it is."""
    parts = _AROUND.fullmatch(text)
    assert parts is not None, text
    core = parts["core"]
    if core == vocabulary.SAINT_OR_STREET:
        is_name_before = phrase.previous[:1].isupper() and not phrase.previous.endswith((".", ","))
        is_saint = phrase.following[:1].isupper() and not is_name_before
        spoken = "Saint" if is_saint else "Street"
    elif core in vocabulary.COUNTED:
        spoken = vocabulary.COUNTED[core] if phrase.following[:1].isdigit() else core
    elif vocabulary.MONTH_NAME.fullmatch(core.strip()) and core.endswith("."):
        spoken = vocabulary.MONTHS[core[:3].lower()]
    else:
        spoken = vocabulary.TITLES.get(core) or vocabulary.ABBREVIATIONS.get(core) or core
        if vocabulary.DOTTED.fullmatch(spoken):
            spoken = " ".join(spoken.replace(".", " ").upper().split())
    return parts["before"] + spoken + parts["after"]


def ends_before(following: str, abbreviation: str) -> bool:
    """Whether the word behind an abbreviation's full stop begins a sentence."""
    bare = following.strip(vocabulary.EDGES)
    if vocabulary.DOTTED.fullmatch(abbreviation.strip(vocabulary.EDGES).rpartition(" ")[2]):
        is_time = abbreviation.lower().endswith((".m.", "m."))
        return bare[:1].isupper() if is_time else _STARTER.fullmatch(bare) is not None
    return bare[:1].isupper()


_STARTER = re.compile(
    "An?|And|As|At|But|For|He|Her|His|How|I|If|In|Its?|My|No|On|Our|She|So|That|The|Their|Then|There|These|They"
    "|This|Those|We|What|When|Where|Who|Why|Your?"
)
