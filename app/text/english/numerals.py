"""Where letters are a roman numeral: tables of what stands beside them, whose first row that fits decides."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.context import Context

# ruff: noqa: RUF001  typographic quotes are meant

Match = re.Match[str]

_ROMAN = re.compile(r"(?=.)M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})")
_OPENING = " \"'(“‘["
_SINGLE: Final = frozenset("IVXLCDM")
_AT_END: Final = frozenset({""})


@dataclass(frozen=True, slots=True)
class _Row:
    """What stands beside a numeral, and whether it is one there; None: whatever it is.

    numerals: as they are written. before: the word before it. ahead: the next word in small letters, "" where
    none follows. has_title: "King" and its kin before the name. is_stopped: a stop or colon is behind.
    """

    is_numeral: bool
    numerals: frozenset[str] | None = None
    before: frozenset[str] | None = None
    ahead: frozenset[str] | None = None
    has_title: bool | None = None
    is_stopped: bool | None = None


_OF_STAGES: Final = frozenset({"Class", "Phase", "Stage", "Type"})
_COUNTED: Final = (  # behind "Chapter" and its kin
    _Row(False, frozenset({"vi"}), before=frozenset({"type", "Type"})),  # the editor
    _Row(True, frozenset({"IV", "iv"}), before=frozenset({"book"}), ahead=_AT_END | contexts.OF),
    _Row(False, frozenset({"IV", "iv"}), before=frozenset({"book"})),  # an infusion is booked
    _Row(False, frozenset({"I"}), ahead=contexts.SPEAKS),
    _Row(False, _SINGLE - {"I"}, before=frozenset({"Type", "Plan", "Generation", "Model"})),
    _Row(True, frozenset({"IV"}), before=_OF_STAGES, ahead=contexts.INFUSED),
    _Row(False, frozenset({"IV"}), ahead=contexts.INFUSED),
    _Row(False, frozenset("X"), before=frozenset({"Gen"})),  # those born after 1965
    _Row(True, frozenset("L"), before=frozenset({"Bowl"})),
    _Row(False, frozenset({*"LCDM", "CD", "DC", "MD", "MC", "CC", "CV"})),
    _Row(True),
)
_REIGNS: Final = (  # behind a given name
    _Row(False, frozenset("V"), ahead=_AT_END, has_title=False, is_stopped=True),  # "Call Charles V."
    _Row(True, frozenset("V"), before=contexts.CROWNED, ahead=_AT_END | contexts.REIGNED),
    _Row(True, frozenset("I"), before=contexts.CROWNED, ahead=_AT_END | contexts.REIGNED, has_title=True),
    _Row(True, frozenset("I"), before=contexts.CROWNED, ahead=_AT_END | contexts.REIGNED_ALONE),
    _Row(False, _SINGLE, has_title=False),
    _Row(False, frozenset("I"), ahead=contexts.SPEAKS),
    _Row(True),
)


def is_counted(found: Match, context: Context) -> bool:
    """ "Chapter IV", "chapter iv", "chapters I-IV"; one letter only behind a word in capitals."""
    start, numeral = found.start(), found["roman"]
    if not is_roman(numeral.upper()) or (start and found.string[start - 1] not in _OPENING):
        return False
    ahead = _ahead(found, context)
    word, article = _counted_by(numeral, context, start, is_open=not ahead or ahead in _LINKS)
    if numeral == "I" and article in _ONES and word not in _KINDS and _PAST.fullmatch(ahead):
        return False  # "every Room I entered"
    if contexts.ROMAN_BEHIND.isdisjoint((word, f"{word}.")):
        name = word.capitalize()
        is_first = (_reads_first(word) and (name == word or article not in _ONES - {"the"})) and (
            ahead in _LINKS or (word[-1:] == "s" and found.string[found.end() :] == ",")
        )
        is_long = len(numeral) > 1 or bool(found.groupdict().get("last")) or is_first
        if not is_long or contexts.ROMAN_BEHIND.isdisjoint((name, name.removesuffix("s"), f"{name}.")):
            return False
    return _decide(_COUNTED, numeral, word, ahead)


def _counted_by(numeral: str, context: Context, start: int, is_open: bool) -> tuple[str, str]:
    """The word that a numeral counts, past others ("Parts I and II"), and the one before it.

    is_open: its list may end with it or go on, unlike "In Part I, IV fluids".
    """
    words = [word for word in context.behind(start, 8) if word]
    is_listed = is_open and f"{context.phrase.before}{context.text[:start]}".rstrip()[-1:] == ","
    if numeral != "I" and words[:1] and (words[0] in _LINKS or is_listed):
        at = 0
        while at < len(words) and (words[at] in _LINKS or _LISTED.fullmatch(words[at])):
            at += 1
        is_first_read = words[at - 1 : at] != ["I"] or not words[at : at + 1] or _reads_first(words[at])
        words = words[at:] if at > (not is_listed) and is_first_read else words
    return (*words[:2], "", "")[0], (*words[:2], "", "")[1].lower()


def _reads_first(word: str) -> bool:
    """Whether "I" before "and II" is a number behind the word: "Chapter", "phase"."""
    return word[:1].isupper() or word.capitalize().removesuffix("s") in contexts.OF_TRIALS


_LINKS = frozenset(["and", "or", "to", "through"])
_ONES = frozenset(["every", "each", "any", "the", "that", "this", "first", "last", "only"])
_KINDS = frozenset(["War", "Phase", "Type", "Class", "Grade", "Level", "Stage", "Tier", "Category", "Group"])
"""A numeral behind one of these stands before what is of that kind: "the Grade I listed house"."""
_LISTED = re.compile("[IVX]+")
_PAST = re.compile(r"[a-z]+ed")


def is_any(found: Match, context: Context) -> bool:
    """ "XIVth" and, behind what it is a part of, "3(iv)"."""
    return is_roman(found["roman"].upper())


def is_reign(found: Match, context: Context) -> bool:
    """A numeral behind a given name; one of a single letter only where a title stands before the name."""
    start, numeral = found.start(), found["roman"]
    name, title = (*context.behind(start, 2), "", "")[:2]
    before, _, name = name.rpartition("—")
    title = before or title
    if not is_roman(numeral) or contexts.NAMES_BEFORE_ROMAN.fullmatch(name) is None:
        return False
    is_apart = f"{context.phrase.before}{found.string[:start]}".rstrip()[-1:] in ",;:"
    if name in contexts.NO_NAMES or is_apart or (start and found.string[start - 1] != " "):
        return False
    is_stopped = found.string[found.end() :][:1] in (".", ":") and name != "Henry"  # the play
    return _decide(_REIGNS, numeral, name, _ahead(found, context), title in contexts.REIGNING, is_stopped)


def is_small_reign(found: Match, context: Context) -> bool:
    """ "elizabeth ii", "king henry iv"; "mary iv" only behind a title, since it is a word too."""
    start, numeral = found.start(), found["roman"]
    name, title = (*context.behind(start, 2), "", "")[:2]
    if not is_roman(numeral.upper()) or not name.isalpha() or name.capitalize() not in contexts.CROWNED_SMALL:
        return False
    return title.capitalize() in contexts.REIGNING or numeral not in ("iv", "vi", "xi")


def is_year(found: Match, context: Context) -> bool:
    return len(found["roman"]) >= 4 and is_roman(found["roman"])


_NAMED = contexts.CROWNED | {"Louis", "Pius", "Leo", "Benedict"}


def is_century(found: Match, context: Context) -> bool:
    if not is_roman(found["roman"]):
        return False
    if context.is_ahead(found.end(), contexts.CENTURY_BEFORE):
        return True
    behind = context.behind(found.start(), 2)  # "Henry the VIII"
    is_low = len(found["roman"]) > 1 and not set(found["roman"]) - set("IVX")
    return is_low and behind[:1] == ["the"] and behind[-1] in _NAMED


def is_roman(word: str) -> bool:
    return _ROMAN.fullmatch(word) is not None


def _ahead(found: Match, context: Context) -> str:
    return context.ahead(found.end()).strip(vocabulary.EDGES + ".").lower()


def _decide(
    rows: Iterable[_Row],
    numeral: str,
    before: str,
    ahead: str,
    has_title: bool | None = None,
    is_stopped: bool = False,
) -> bool:
    return next(
        row.is_numeral
        for row in rows
        if (row.numerals is None or numeral in row.numerals)
        and (row.before is None or before in row.before)
        and (row.ahead is None or ahead in row.ahead)
        and (row.has_title is None or has_title == row.has_title)
        and (row.is_stopped is None or is_stopped == row.is_stopped)
    )
