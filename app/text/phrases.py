# ruff: noqa: RUF001  full-width digits and typographic quotes are meant
"""Cut text, as it comes, into phrases that can each be normalized without knowing the rest.

A phrase is a word or, where words change each other's reading ("$5 million", "June 5, 2024", "7:30 p.m."),
the few that belong together. Where phrases end depends on the text only, never on how it was cut.
"""

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.factorials import LETTERS as FACTORIALS
from firstword.app.text.latex import OPERATORS as LATEX
from firstword.app.text.latex import TEXT_OPENING
from firstword.app.text.markup import HTML_OPENING
from firstword.app.text.multilingual.locales import AFTER_NUMBER

# Scripts written without blanks between words, and the punctuation that goes with them.
UNSPACED = (
    "\u3001-\u3003\u3005-\u3011\u3014-\u301f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\uff61\U00020000-\U0003ffff"
)
HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

# Private characters that stand for the tokenizer's speech marks; each is a phrase by itself.
SOUND_MARKS = "\U00100000"  # from here on those that are heard, such as laughter or a phoneme
UNSPACED_MARKS = "\U00104000"  # likewise, and no blank stands beside them
UNSPACED_MARK = f"{UNSPACED_MARKS}-\U00107fff"
SILENT_MARKS = "\U00108000"  # from here on those that change how the words beside them are said
MARK = f"{SOUND_MARKS}-\U0010ffff"

MAX_WORD = 128  # characters; longer ones are cut, so that no reading costs more than so many
MAX_WORDS = 16384  # what is kept of words that are read alike everywhere, which speech repeats
MAX_PHRASE = 96  # characters after which no further word joins
HAN_AFTER_DIGITS = 4  # as many as a unit may have

_WORD = re.compile(rf"\s{{64}}|\s{{0,63}}(?:[{UNSPACED}{MARK}]|[^\s{UNSPACED}{MARK}]{{1,{MAX_WORD}}})")
_UNSPACED_END = re.compile(f"[{UNSPACED}{MARK}]$")
_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}{UNSPACED_MARK}]")
_DIGIT = re.compile("[0-9０-９]")
_LATIN = "\u2e80"  # the first letter behind European scripts
_OPENING = re.compile(f"[0-9０-９{units.SIGNS}]")
_PART = re.compile(r"[½⅓⅔¼¾⅛⅜⅝⅞]|[A-Za-z)][²³]")  # a Latin unit or a formula may follow
_HAN_TAIL = re.compile(f"[{HAN}]*$")
_HAN = re.compile(f"[{HAN}]")
_ZONES = frozenset([*contexts.ZONES.split("|"), *contexts.SMALL_ZONES.split("|")])
_ERAS = frozenset({"AD", "BC", "CE", "BCE", "A.D", "B.C", "C.E", "B.C.E"})
_OPERATORS = frozenset({*vocabulary.OPERATORS, *LATEX})
_AFTER_NUMBER = frozenset(
    {
        *AFTER_NUMBER,
        *vocabulary.SCALES,
        *units.CODES,
        *units.CURRENCY_WORDS,
        *vocabulary.OPERATORS,
        *_ERAS,
        "of",
        "y/o",
    }
)
_WORKDAYS = [
    f"{first}{dash}{last}"
    for first in ("M", "T", "Tu", "W", "Th")
    for last in ("F", "Th", "Sa", "Su")
    for dash in "-–"
]
_WAITING = (
    "St",
    "Dr",
    *_WORKDAYS,
    "Mt",
    "Ft",
    "WW",
    "eta",
    "am",
    "pm",
    "mon",
    "tue",
    "tues",
    "thu",
    "thur",
    "thurs",
    "fri",
    *(
        "ed.",
        "qtr.",
        "st.",
        "b.",
        "d.",
        "r.",
        "mon.",
        "tue.",
        "tues.",
        "wed.",
        "thu.",
        "thur.",
        "thurs.",
        "fri.",
        "sat.",
        "sun.",
    ),
)  # the next word decides
_OPENERS = frozenset(
    {*vocabulary.OPERATORS, *units.CODES, *contexts.STATES, *contexts.LETTERS, "AD", "A.D.", *_WAITING}
)
_BEFORE_NUMBER = frozenset({*units.CODES, *_WORKDAYS, "AD", "A.D.", "BC", "B.C."})
_STREET = re.compile(r"\d{1,5}[A-Z]?(?: (?:[NSEW]\.?){1,2})?(?: (?:[A-Z][\w.'’-]*|\d+(?:st|nd|rd|th))){0,4}")
_STREET_WORD = re.compile(r"(?:[A-Z][\w.'’-]*|\d+(?:st|nd|rd|th)),?")
_STREET_KINDS = frozenset({*contexts.STREETS, *contexts.STREET_WORDS})
MAX_BEFORE = 64  # characters in front of a phrase that decide how it is read
_CLOSED = re.compile(r"[,;:!?.][\"'”’)\]]*$")
_STAYS_OPEN = re.compile(
    r"[\d½⅓⅔¼¾⅛][\s-]?"  # an abbreviated unit: "5 oz."
    r"(?:(?:fl\.? )?oz|ft|in|mi|lbs?|min|sec|hrs?|yd|[Tt]bsp|Tbs|tsp|pt|qt|gal|mos?|wks?|yrs?|pcs?|pkg)\.\)?$"
    r"|(?:^|[\s(])(?:\d{1,3}|[kmn])!$"  # a factorial: "5! = 120"
    r"|(?:^|[\s(])[2-9]s,$"  # one of several: "2s, 3s and 4s"
    r"|^(?:ed\.|qtr\.|st\.|Dr,)$"
    rf"|\d\s?[AaPp]\.$|{vocabulary.HALF_APART.pattern}"  # half of the day: "9 a. m."
    r"|(?:^|[\s(])(?:[bdr]|mon|tues?|wed|thu|thurs?|fri|sat|sun)\.$"  # of a life or of a date, if one follows
    r"|/(?:sq|cu|fl|gal|oz|lb|mo|mth|wk|yr|hr|min|qtr|ea)\.$"
    r"|\d\s?(?:Mio|Mrd)\.$"  # a scale: "50 Mio. €"
    r"|\d[-–]c\.$"  # a year, and one that is not known for certain: "1450-c. 1516"
    rf"|\d (?:{'|'.join(vocabulary.NUMBERED_BOOKS)})\.$"  # of a verse: "1 Sam. 3:4"
    rf"|{TEXT_OPENING.pattern}"  # words within a formula: "\text{kinetic"
    rf"|(?:{'|'.join(vocabulary.WEEKDAYS)}),$"  # a weekday before a date: "Mon,"
    rf"|(?:{vocabulary.MONTH})\b.*\d\w*,$"  # a month and day before a year: "June 5,"
    rf"|\d\w*\s+(?:{vocabulary.MONTH}),$"  # a day and month before a year: "5 June,"
)


@dataclass(slots=True)
class Phrase:
    """source: with the blanks before it. previous, following: the words around it, "" at an end.

    is_before_closing_mark: such as `</strong>`, without a blank between. before: the text in front of it, the
    last MAX_BEFORE characters. is_quoted: a quotation is open before it.
    """

    source: str
    previous: str = ""
    following: str = ""
    is_before_closing_mark: bool = False
    before: str = field(default="", compare=False)
    is_quoted: bool = field(default=False, compare=False)

    @property
    def text(self) -> str:
        return self.source.strip()

    @property
    def blank(self) -> str:
        return self.source[: len(self.source) - len(self.source.lstrip())]

    @property
    def is_mark(self) -> bool:
        return self.source[-1:] >= SOUND_MARKS

    @property
    def has_blank(self) -> bool:
        return self.source[:1].isspace()


@dataclass(slots=True)
class PhraseFinder:
    """`push` returns each phrase as soon as nothing that follows can change it, `flush` the rest.

    has_ordinal_stops: a number with a full stop may be an ordinal, as in German, and waits for the next word.
    """

    has_ordinal_stops: bool = False
    _rest: str = ""  # the beginning of a word
    _open: list[str] = field(default_factory=list)  # words of a phrase that may go on
    _previous: str = ""
    _before: str = ""
    _is_quoted: bool = False

    def push(self, piece: str) -> list[Phrase]:
        self._rest += piece
        phrases: list[Phrase] = []
        start = 0
        while word := _WORD.match(self._rest, start):
            is_at_end = word.end() == len(self._rest)
            if is_at_end and not word[0].isspace() and not _UNSPACED_END.search(word[0]):
                break  # it may go on
            start = word.end()
            added = self._add(word[0])
            if added and self._rest[start : start + 1] >= SILENT_MARKS:
                added[-1] = replace(added[-1], is_before_closing_mark=True)
            phrases += added
        self._rest = self._rest[start:]
        return phrases

    def flush(self) -> list[Phrase]:
        is_blank = not self._rest.strip()
        phrases = [] if is_blank else self._add(self._rest)
        if self._open:
            phrases.append(self._close())
        if self._rest and is_blank:
            phrases.append(Phrase(self._rest, self._previous))
        self._rest, self._previous, self._before, self._is_quoted = "", "", "", False
        return phrases

    def _add(self, word: str) -> list[Phrase]:
        phrases: list[Phrase] = []
        stripped = word.strip()
        if self._open and not _joins("".join(self._open), word):
            phrases.append(self._close(stripped))
        self._open.append(word)
        text = stripped if len(self._open) == 1 else "".join(self._open).strip()
        is_ordinal = self.has_ordinal_stops and _ORDINAL.fullmatch(text)
        if not is_ordinal and (_is_alone(stripped) if text == stripped else _is_closed(text, stripped)):
            phrases.append(self._close())
        return phrases

    def _close(self, following: str = "") -> Phrase:
        source = "".join(self._open)
        phrase = Phrase(source, self._previous, following, False, self._before, self._is_quoted)
        self._open = []
        self._previous = source.rstrip().rpartition(" ")[2].lstrip() or self._previous
        self._before = (self._before + source)[-MAX_BEFORE:]
        if '"' in source:
            self._is_quoted = _is_quoted_behind(source, self._is_quoted)
        return phrase


def find_phrases(text: str, has_ordinal_stops: bool = False) -> list[Phrase]:
    """Return the phrases of a whole text; their sources concatenate to it."""
    finder = PhraseFinder(has_ordinal_stops)
    return finder.push(text) + finder.flush()


def blank_between(left: str, right: str, has_blank: bool) -> str:
    """Return what joins two normalized parts: a blank where the text has one that is kept, else ""."""
    if (
        not has_blank
        or not left
        or not right
        or right[0] in ",，"
        or right == "."
        or right.startswith(". ")
        or not right.strip("!?")
    ):
        return ""
    if left[-1] < _LATIN and right[0] < _LATIN:
        return " "
    return "" if _UNSPACED_CHARACTER.match(left[-1]) or _UNSPACED_CHARACTER.match(right[0]) else " "


def _is_quoted_behind(source: str, is_quoted: bool) -> bool:
    """Whether a quotation is open; a mark behind a digit opens none, since it is of inches."""
    for place, character in enumerate(source):
        if character == '"' and (is_quoted or not source[max(0, place - 1) : place].isdecimal()):
            is_quoted = not is_quoted
    return is_quoted


def _is_closed(text: str, word: str) -> bool:
    """Whether nothing may follow in a phrase, of which `word` is the last."""
    if word in _ENTITIES or _CLOSED.search(text) is None or _STAYS_OPEN.search(text):
        return False
    return not vocabulary.is_abbreviation(text.rpartition(" ")[2])


@lru_cache(maxsize=MAX_WORDS)
def _is_alone(word: str) -> bool:
    """Whether a word is a phrase by itself, whatever follows."""
    if word.isalpha() and word > _LATIN:
        return True
    may_go_on = _opens(word) or (vocabulary.is_abbreviation(word) and not word.isalpha())
    return not may_go_on or _is_closed(word, word)


def _opens(word: str) -> bool:
    """Whether a word begins a phrase that may go on."""
    bare = word.strip(vocabulary.EDGES)
    return bool(
        _OPENING.search(word)
        or _PART.search(word)
        or bare in _OPENERS
        or bare in vocabulary.WEEKDAYS
        or bare in _WAYS
        or word in _OPERATORS
        or word in _ENTITIES
        or word in ("|", "·", "•", "#", "~", "～", "〜", "↑", "↓")
        or word in vocabulary.ARROWS
        or word in FACTORIALS
        or (len(bare) == 3 and _QUOTIENT.fullmatch(bare))
        or TEXT_OPENING.search(word)
        or (word[:1] == "<" and HTML_OPENING.match(word))
        or vocabulary.MONTH_NAME.fullmatch(bare)
        or (bare in _NUMBERED and bare == word)
        or (bare.isupper() and not set(bare) - _ROMAN_LETTERS)
    )


_QUOTIENT = re.compile("[A-Za-z]/[A-Za-z]")
_NUMBERED = frozenset(word for word in vocabulary.COUNTED if not word.endswith("."))
_ROMAN_LETTERS = frozenset("IVXLCDM")
_WAYS = frozenset(["N", "S", "E", "W", "NE", "NW", "SE", "SW"])


def _joins(phrase: str, word: str) -> bool:
    """Whether a word belongs to the phrase in front of it."""
    stripped = word.strip()
    if len(phrase) + len(word) > MAX_PHRASE or not stripped or "\n" in word:
        return False
    if "<" in phrase and _HTML_ATTRIBUTES.search(phrase) and (_ATTRIBUTE.match(stripped) or "=" in phrase):
        return True
    if "{" in phrase and TEXT_OPENING.search(phrase):
        return True
    has_opening = _OPENING.search(phrase) is not None
    if not has_opening and not _PART.search(phrase):
        start = phrase.strip()
        bare = start.strip(vocabulary.EDGES)
        opens_number = vocabulary.MONTH_NAME.fullmatch(bare) or bare in _BEFORE_NUMBER
        is_zip = bare in contexts.STATES and _ZIP.match(stripped) is not None
        return is_zip or (bool(opens_number) and _DIGIT.match(stripped.lstrip("'’")) is not None)
    if stripped in _WIDE:
        return _WIDE[stripped].search(phrase) is not None
    if phrase[-2:] == ".)":
        return False  # "1 (8-oz.) pkg."
    if phrase[-1] in "、：" and not stripped[0].isdecimal():
        return False
    if phrase[-1] == "，" and not _goes_on_behind_comma(phrase.lstrip(), stripped):
        return False
    if stripped in _LINKS and _LINKS[stripped].search(phrase):
        return True
    if _HAN.fullmatch(stripped):
        tail = _HAN_TAIL.search(phrase)
        return has_opening and tail is not None and len(tail[0]) < HAN_AFTER_DIGITS
    bare = stripped.strip(vocabulary.EDGES)
    if bare[-1:] == "." and bare[-2:-1] in _CLOSING:
        bare = bare[:-1].rstrip(vocabulary.EDGES)  # "(8 km)."
    stem = bare.rstrip(".")
    return bool(
        _OPENING.search(stripped)
        or (phrase[-1].isdecimal() and _PART.match(stripped))
        or stripped.startswith(("\\text{", "\\mathrm{"))
        or stem in _AFTER_NUMBER
        or stripped in _OPERATORS
        or stem.partition("-")[0] in vocabulary.SCALES
        or stem in units.UNIT_WORDS
        or (stem == "c" and phrase[-1:] in _BEFORE_CUPS)
        or (stem in ("C", "F", "bp") and phrase[-1:].isdigit())
        or (bare.partition("/")[0].rstrip(".") in units.UNIT_WORDS and bare not in vocabulary.SHORT_FORMS)
        or contexts.HOURS_JOINED.search(f"{phrase} {stripped}")
        or vocabulary.MONTH_NAME.fullmatch(bare)
        or (stem in contexts.COMPASS and phrase[-1:] in "°'′’\"″”")
        or (vocabulary.HALF_OF_DAY.fullmatch(bare) and phrase[-1:].isdigit())
        or (bare in _HALVES_APART and phrase[-1:].isdigit())
        or (bare in ("m.", "M.") and _HALF.search(phrase))
        or (bare in vocabulary.ORDINAL_ENDS and phrase[-1:].isdigit())
        or (stem in _ZONES and (phrase[-1:] in "mM." or ":" in phrase))
        or (stripped[:-1] in vocabulary.NUMBERED_BOOKS and phrase.strip(" (") in ("1", "2", "3"))
        or (_STREET_WORD.fullmatch(stripped) and _is_in_street(phrase.strip(), stripped))
    )


def _goes_on_behind_comma(phrase: str, word: str) -> bool:
    """Whether a long number may go on, of which the reader sees the unit too; or a farewell."""
    return _GROUP.match(word) is not None if word[0].isdecimal() else phrase == "88，"


_HTML_ATTRIBUTES = re.compile(r"<[A-Za-z][A-Za-z0-9]{0,9}(?:\s[^<>]*)?$")
_ATTRIBUTE = re.compile(r"[\w-]+=")
_WIDE = {
    "：": re.compile(r"\d$"),  # of a time or a ratio
    "、": re.compile(r"(?<!\d)(?:[05-9][05]|985|211)$"),  # "70、80后", "985、211"
    "－": re.compile("年$"),
    "，": re.compile(r"^\s*(?:88|[$€£¥￥]?[1-9]\d{0,2}(?:，\d{3})*)$"),  # a farewell, or of a long number
}
"""Behind what a wide mark belongs to the phrase."""
_CLOSING = frozenset(')]"”’')
_ORDINAL = re.compile(r"(?:.*\s)?[0-9]{1,3}\.")
_BEFORE_CUPS = frozenset("0123456789½⅓⅔¼¾")
_ENTITIES = ("&lt;", "&gt;")
_GROUP = re.compile("[0-9]{3}(?![0-9])")
_HALVES_APART = frozenset({"a.", "p.", "A.", "P."})
_HALF = re.compile(r"\d\s?[AaPp]\.$")
_ZIP = re.compile(r"\d{5}\b")
_LISTED = re.compile(r"(?<!\S)[2-9]s,?$")
_LINKS = {
    "at": re.compile(r"(?<![\d/.-])\d\d?/\d\d?$"),  # a time may follow: "12/25 at 4pm"
    "area": re.compile(r"(?<!\S)[2-9]\d\d$"),  # a code: "the 212 area code"
    **dict.fromkeys(("and", "or"), _LISTED),  # "3s and 4s"
}
"""Behind what a small word belongs to the phrase."""


def _is_in_street(phrase: str, word: str) -> bool:
    """Whether a phrase is a house number and names, and no kind of street yet but before a compass letter."""
    if _STREET.fullmatch(phrase) is None or (" " not in phrase and vocabulary.is_title(word)):
        return False
    if vocabulary.is_company(word) or vocabulary.is_book(word):
        return False
    return phrase.rpartition(" ")[2].rstrip(".") not in _STREET_KINDS or word.rstrip(",.") in contexts.COMPASS
