"""Where letters are a street, a state, the book of a verse or an initialism."""

import re

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.conditions.condition import Match
from firstword.app.text.english.context import Context


def is_address(found: Match, context: Context) -> bool:
    street = found["street"].rstrip(".")
    is_code = _CODE.search(found["name"]) is not None
    return not is_code and (street in contexts.STREETS or street in contexts.STREET_WORDS)


_CODE = re.compile(r"[A-Za-z]\d")


_ROAD = re.compile(r"(?:US|I|SR|CR|A|M|B)-?\d{1,3}|(?:Route|Highway|Hwy|Rte)\.?")
_ONTO = frozenset(["onto", "toward", "towards", "along", "down", "up"])
_TURNED = frozenset(["north", "south", "east", "west", "left", "right", "head", "continue", "stay", "keep"])
_NO_NAMES_OF_STREETS = (
    frozenset(contexts.STREETS) | contexts.STREET_WORDS | {"Hotel", "Magazine", "Corp", "Inc"}
)


def is_way(found: Match, context: Context) -> bool:
    """A compass letter behind a road or before the name of a street: "I-95 S", "onto W Elm Ave"."""
    before = f"{context.phrase.before} {context.text[: found.start()]}".split()[-2:]
    if before and (_ROAD.fullmatch(before[-1]) or (before[-1].isdecimal() and _ROAD.fullmatch(before[0]))):
        return True
    ahead = context.ahead(found.end()).strip(vocabulary.EDGES + ".")
    is_name = ahead.istitle() or ahead[:1].isdigit()
    if not is_name or found[0][-1] == "." or ahead in _NO_NAMES_OF_STREETS:
        return False
    *_, first, last = ["", "", *map(str.lower, before)]
    return last in _ONTO or (last == "on" and (ahead[0].isdigit() or first in _TURNED))


_WINDS = frozenset(["wind", "winds", "breeze", "breezes", "gusts", "swell", "swells"])
_OF_WINDS = _WINDS | {"of", "the", "from", "out"}


def is_wind(found: Match, context: Context) -> bool:
    """ "NW winds", "winds from the SW", "Wind: NW 15 mph", and "NW 23rd Ave"."""
    ahead = context.ahead(found.end())
    if len(found[0]) == 2 and _ORDINAL.match(ahead):
        return True
    if context.is_ahead(found.end(), _WINDS):
        return True
    behind = [word.lower() for word in context.behind(found.start(), 4)]
    if ahead == "of" and _FAR.search(f"{context.phrase.before} {context.text[: found.start()]}"):
        return True
    if behind[:1] and behind[0] in _HEADED and ahead in _ROADWARDS:
        return True
    blown = next((word for word in behind if word not in _OF_WINDS - _WINDS), "")
    is_from = "out" in behind or "of" not in behind[:2]
    return blown in _WINDS and is_from and (not ahead or ahead in _BEHIND_WIND or ahead[:1].isdigit())


_ORDINAL = re.compile(r"\d+(?:st|nd|rd|th)\b")
_FAR = re.compile(
    r"\b(?:mi|km|m|ft|yds?|miles?|kilometers?|meters|feet|yards|blocks?|minutes|just|hours)\.?\s*$"
)
_HEADED = frozenset(
    ["head", "heading", "headed", "go", "going", "drive", "continue", "travel", "turn", "moving"]
)
_ROADWARDS = frozenset(["on", "onto", "toward", "towards", "for", "along", "at", "from", "until"])
_BEHIND_WIND = frozenset(
    ["at", "and", "or", "to", "with", "around", "near", "up", "this", "tonight", "today"]
)


def is_of_party(found: Match, context: Context) -> bool:
    """ "Sen. Coons (D-Del.)" and "Sen. Cruz, R-Texas,"."""
    return found.start() > 0 or context.phrase.previous[-1:] == ","


def is_state(found: Match, context: Context) -> bool:
    if found["zip"]:
        return found["state"] != "ID" or found["zip"].startswith("83")
    if found["state"] in ("OK", "HI", "IN", "ID", "ME", "OH"):
        return False
    before = f"{context.phrase.before}{context.text[: found.start()]}".rstrip()
    city = before.rpartition(" ")[2]
    return before.endswith(",") and city[:1].isupper() and len(city) > 4 and not context.ahead(found.end())


_GRADED = frozenset(
    ["a", "an", "straight", "got", "get", "grade", "grades", "earned", "with", "gave", "from"]
)


def is_grade(found: Match, context: Context) -> bool:
    """ "got an A-", not "the A- and B-levels"."""
    letter = found.start() - 1
    is_listed = context.is_behind(letter, frozenset(["or", "and", "to"])) and _GRADES.search(
        f"{context.phrase.before}{context.text[:letter]}"
    )
    return bool(is_listed) or context.is_behind(letter, _GRADED)


_GRADES = re.compile(r"\b[A-D][+\u2212\u2013-]?,? (?:or|and|to)(?: an?)?\s*$")


def is_verse(found: Match, context: Context) -> bool:
    """Chapter and verse behind the name of a book, rather than a time of day behind somebody's."""
    book = (context.behind(found.start()) or [""])[0]
    is_numbered = vocabulary.NUMBERED_BOOK.search(context.text[: found.start()].rstrip())
    is_book = is_numbered or (book.istitle() and book.lower() in contexts.SCRIPTURE)
    following = f"{found.string[found.end() :]} {context.phrase.following}".lstrip()
    return is_book and re.match(r"[ap]\.?m\b", following, re.IGNORECASE) is None


def is_initialism(found: Match, context: Context) -> bool:
    word, start, end = found[0], found.start(), found.end()
    previous = (context.behind(start) or [""])[0]
    following = context.ahead(end).strip(vocabulary.EDGES + ".")
    if is_capitals(previous) and (
        not following or is_capitals(following) or word not in contexts.ALWAYS_LETTERS
    ):
        return previous[-1:].isdigit() and word in contexts.ALWAYS_LETTERS
    if word in ("US", "IT"):
        return True
    is_numbered = previous[-1:].isdigit() or following[:1].isdigit()
    if word == "ID" and "," not in context.phrase.previous and not following[:1].isdigit():
        return True  # no state
    if word in ("AM", "PM", "OR", "ID"):
        return previous in ("the", "The", "an", "a", "An", "A")
    return is_numbered or previous in contexts.LETTERS_BEHIND or word in ("EST", "PST", "ETA", "CET")


def is_capitals(word: str) -> bool:
    word = word.removesuffix("'S").removesuffix("’S")  # noqa: RUF001  an apostrophe
    return len(word) > 1 and word.isalpha() and word.isupper()
