"""Read an English phrase: tag its parts, say each, and keep the punctuation that remains."""

import re
from functools import lru_cache

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.conditions.condition import counts
from firstword.app.text.english.context import Tag
from firstword.app.text.english.tagger import (
    BEHIND_STREET,
    OF_LIFE,
    SMALL_DAYS,
    begins_sentence,
    is_drive,
    is_saint,
    tag,
)
from firstword.app.text.english.verbalizer import verbalize
from firstword.app.text.factorials import LETTERS as FACTORIALS
from firstword.app.text.factorials import part_factorials
from firstword.app.text.markup import clean_phrase
from firstword.app.text.phrases import MAX_WORDS, Phrase

# ruff: noqa: RUF001  typographic dashes and signs are meant

_PLAIN = re.compile(r"(?:[^\W\d²³]|['’\-\"“”‘()\[\],;:!?…—–])+\.?")
_SIGNS = {
    **{"&": " and ", "@": " at ", "+": " plus ", "=": " equals ", "×": " times ", "÷": " divided by "},
    **{"±": " plus or minus ", "≈": " about ", "≤": " at most ", "≥": " at least ", "°": " degrees "},
    **{"%": " percent ", "‰": " per mille ", "№": " number ", "§": " section ", "¶": " paragraph "},
    **{
        "²": " squared ",
        "³": " cubed ",
        "⁺": " plus ",
        "⁻": " minus ",
        "√": " square root of ",
        "∛": " the cube root of ",
        "π": " pi ",
        "∞": " infinity ",
    },
    **{
        "≠": " is not equal to ",
        "∑": " sum of ",
        "∂": " partial ",
        "∫": " integral of ",
        "∝": " proportional to ",
    },
    **{
        "→": " to ",
        "<": " less than ",
        ">": " greater than ",
        "$": " dollars ",
        "€": " euros ",
        "£": " pounds ",
    },
    **{"¥": " yen ", "₹": " rupees ", "¢": " cents ", "₩": " won ", "₽": " rubles ", "₿": " bitcoin "},
    **{"∪": " union ", "∩": " intersection ", "⊂": " is a subset of ", "¬": " not ", "∀": " for all "},
    **{"∃": " there exists ", "∴": " therefore ", "∵": " because ", "∅": " the empty set "},
    **{"∠": " angle ", "⊥": " is perpendicular to ", "∥": " is parallel to ", "∈": " is in "},
    **{"|": ", ", "^": " ", "\\": " ", "~": " ", "_": " ", "#": " ", "*": " ", "/": " "},
    **{"α": " alpha ", "β": " beta ", "γ": " gamma ", "δ": " delta ", "ε": " epsilon ", "θ": " theta "},
    **{
        "λ": " lambda ",
        "μ": " mu ",
        "µ": " micro ",
        "ρ": " rho ",
        "σ": " sigma ",
        "τ": " tau ",
        "φ": " phi ",
    },
    **{"χ": " chi ", "ψ": " psi ", "ω": " omega ", "Δ": " delta ", "Σ": " sigma ", "Ω": " omega "},
}
_SIGN = re.compile("[" + re.escape("".join(_SIGNS)) + "]")
_BLANK_BEFORE_STOP = re.compile(r"\s+(?=[,.;:!?)])")
_BLANK_BEHIND_OPENING = re.compile(r"(?<=[(\[“‘])\s+")
_GREEK_WORD = re.compile(r"[\u0370-\u03ff]{2,}")
_OPERAND = re.compile(r"[\d.,()]+|\(*[A-Za-z]\W*")
_OPERATORS_ALONE = frozenset("+=×÷≤≥≠<>")
_COMPARISONS = {"<=": "≤", ">=": "≥", "!=": "≠", "==": "="}
_COMPARISON = re.compile(
    r"(?<![<>=!])[<>]=(?![<>=])|(?<!\S)[!=]=(?!\S)|(?<=[\w)\]])!=(?=[\w(\[\"'-])|(?<=[^\W\d])==(?=[^\W\d])"
)
_EQUALS_BEHIND_CALL = re.compile(r"(?<=[^\W\d]!)=(?!\S)")
VULGAR = str.maketrans(
    {
        **{
            "½": " 1/2",
            "⅓": " 1/3",
            "⅔": " 2/3",
            "¼": " 1/4",
            "¾": " 3/4",
            "⅛": " 1/8",
            "⅜": " 3/8",
            "⅝": " 5/8",
        },
        **{
            "⅞": " 7/8",
            "⅕": " 1/5",
            "⅖": " 2/5",
            "⅗": " 3/5",
            "⅘": " 4/5",
            "⅙": " 1/6",
            "⅚": " 5/6",
            "⅒": " 1/10",
            "⁄": "/",
        },
        **{chr(0x2080 + digit): str(digit) for digit in range(10)},  # subscripts
    }
)
_RAISED_UNIT = re.compile(r"(?<=[A-Za-z])\^([23])(?!\w)")
_NAMES_OR_FUNCTION = re.compile(
    rf"\W*(?:(?:{'|'.join(vocabulary.FUNCTIONS)})\(.*|[fgh]\([a-z]\)"
    r"|[A-Z][a-z]{2,}\.?[-–][A-Z][a-z]{2,}|[A-Za-z][-–][A-Za-z]|-[a-z])\W*"
)
_MISSING_BLANK = re.compile(r"(?<=[a-z]{3})\.(?!(?:Com|Org|Net|Edu|Gov)\b)(?=[A-Z][a-z]{2,}(?:\W|$))")
_SMALL_ROMAN = contexts.SMALL_ROMANS
_LONGER = frozenset(
    {
        *vocabulary.COUNTED,
        *contexts.STREETS,
        *vocabulary.WEEKDAYS,
        "Sun.",
        *_SMALL_ROMAN,
        *SMALL_DAYS,
        *OF_LIFE,
        *units.SHORT,
        *(f"{unit}." for unit in units.SHORT),
        *("eta", "Mt", "Ft", "Fl", "Fl.", "Dr", "qtr", "ed.", "st."),
    }
)  # words that may stand for a longer one
_IONS = frozenset({"Cl-", "Br-", "OH-"})
_WHOLE_AND_PART = re.compile(r"(?<=\d)  (?=\d+/)")


@lru_cache(maxsize=MAX_WORDS)
def say_word(word: str) -> str | None:
    """Return how a word with its punctuation is spoken beside any others; None: they may decide."""
    if word.isalpha() and word.isascii() and not word.isupper() and not _is_longer(word):
        return vocabulary.SHORT_FORMS.get(word, word)
    if _PLAIN.fullmatch(word) is None or word in vocabulary.OPERATORS or "[" in word or _is_special(word):
        return None
    return word if word == clean_phrase(word).translate(VULGAR) else None


def say_english(text: str, phrase: Phrase) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned; its neighbors decide between readings."""
    if (word := say_word(text)) is not None:
        return word
    if "=" in text:
        text = part_factorials(text)
        text = _COMPARISON.sub(lambda sign: _COMPARISONS[sign[0]], text)
        text = _EQUALS_BEHIND_CALL.sub("", text)
    if text == "$" and (not phrase.previous or "\n" in phrase.source):
        return ""  # a shell's prompt
    text = text.replace("&&", "&")
    if text in vocabulary.OPERATORS:
        return _operator(text, phrase)
    if "^" in text:
        text = _RAISED_UNIT.sub(lambda raised: "²³"[int(raised[1]) - 2], text)
    text = _MISSING_BLANK.sub(". ", text)
    if not text.isascii():
        text = _WHOLE_AND_PART.sub(" ", text.translate(VULGAR)).lstrip()
    if _PLAIN.fullmatch(text) and not any(map(str.isdigit, text)) and not _is_special(text):
        return text
    spoken = _join(text, phrase)
    spoken = _BLANK_BEHIND_OPENING.sub("", _BLANK_BEFORE_STOP.sub("", " ".join(spoken.split())))
    # A full stop may have ended both an abbreviation and the sentence.
    has_lost_stop = text.endswith(".") and spoken and not spoken.endswith(".")
    if has_lost_stop:
        is_title_behind = text == "ed." and phrase.following[:1].isupper()  # "2nd ed. Oxford: Press"
        spoken += "." if is_title_behind or ends_sentence(text, phrase) else ""
    return spoken


def _is_longer(word: str) -> bool:
    return word in _LONGER or (word[:1] in _ROMAN_LETTERS and _RAISED_NUMERAL.fullmatch(word) is not None)


_ROMAN_LETTERS = ("I", "V", "X")
_RAISED_NUMERAL = re.compile("[IVX]{2,8}(?:st|nd|rd|th)")


_WAY = re.compile(r"\d\s?[NSEW]\.\W*$")


def ends_sentence(word: str, phrase: Phrase) -> bool:
    """Whether the full stop of an abbreviation, which a phrase ends with, is that of a sentence too."""
    bare = word.strip(vocabulary.EDGES).rpartition(" ")[2]
    following = phrase.following.strip(vocabulary.EDGES)
    is_name = following in contexts.NO_STARTERS.get(bare, ()) and not _is_apart(bare, phrase)
    if is_name or _ends_no_sentence(bare, phrase) or _is_stop_of_street(bare, following, phrase):
        return False
    is_name_ahead = following.istitle() and following.rstrip(".") not in BEHIND_STREET
    if bare == "Dr." and is_name_ahead and is_drive(phrase):
        return True  # "on Elm Dr. Smith is my neighbor"
    if not following or begins_sentence(following) or _is_behind_month(bare, following, phrase):
        return True
    return _is_behind_hour(following, phrase)


def _is_apart(bare: str, phrase: Phrase) -> bool:
    """ "I need a Dr. Can you help?" and "I am on Oak Dr. Can you come?"."""
    if bare not in ("Dr.", "dr."):
        return False
    is_doctor = phrase.previous.lower() in contexts.ARTICLES | contexts.OWN
    is_greeted = phrase.previous.strip(vocabulary.EDGES) in _GREETED and phrase.following in _SAID_TO_DOCTOR
    return is_greeted or (is_doctor and phrase.following not in ("Who", "No", "Good")) or is_drive(phrase)


_GREETED = frozenset(["OK", "Ok", "Okay", "Thanks", "Hi", "Hello"])
_SAID_TO_DOCTOR = frozenset(["But", "Can", "In", "Now", "On", "See"])


def _is_stop_of_street(bare: str, following: str, phrase: Phrase) -> bool:
    """ "Take the Fulton St. Exit", not "I live on Oak St. Stop by"."""
    if bare.rstrip(".") not in contexts.STREETS or following not in contexts.STOPS:
        return False
    return "the" in f"{phrase.before}{phrase.source}".lower().split()[-4:-1]


def _is_behind_month(bare: str, following: str, phrase: Phrase) -> bool:
    """ "It is due in Oct. John will send it", not "In Oct. Apple grew" or "said in Oct. Apple grew"."""
    *_, before, last = ["", "", *phrase.before.split()]
    if last != "in" or before not in _DUE_IN or vocabulary.MONTH_NAME.fullmatch(bare) is None:
        return False
    return _CAPITALIZED.match(following) is not None and _TIME_BEHIND.match(following) is None


_DUE_IN = frozenset(["due", "ready", "born", "back", "starts", "begins", "ends", "over", "again", "out"])
_HOUR = re.compile(r"\d\s?[AaPp]\.\s?[Mm]\.\W*$")
_CAPITALIZED = re.compile(r"[A-Z][a-z’']")


def _is_behind_hour(following: str, phrase: Phrase) -> bool:
    """ "at 9 a.m. John will join", not "at 9 a.m. Eastern", "9 p.m. Mondays" or "two 9 a.m. Webexes"."""
    if _HOUR.search(phrase.text) is None or phrase.previous.lower() not in contexts.BEFORE_HOURS:
        return False
    is_time = (
        following.rstrip(".").replace("’", "'") in contexts.BEHIND_HOURS
        or _TIME_BEHIND.match(following) is not None
    )
    return _CAPITALIZED.match(phrase.following) is not None and not is_time


_TIME_BEHIND = re.compile(rf"(?:{vocabulary.MONTH}|{'|'.join(vocabulary.WEEKDAYS)})(?:\b|[a-z]*days?\b)")


def _ends_no_sentence(bare: str, phrase: Phrase) -> bool:
    """Whether an abbreviation's full stop never ends a sentence where it stands."""
    if bare == vocabulary.SAINT_OR_STREET:
        return is_saint(phrase)
    if bare == "Dr." and is_drive(phrase):
        return False
    if bare in contexts.NO_STARTERS:
        return False
    return (
        (bare in vocabulary.TITLES and not phrase.text[:1].isdigit())
        or bare in vocabulary.COUNTED
        or bare in vocabulary.BETWEEN
        or (vocabulary.INITIAL.fullmatch(bare) is not None and not _WAY.search(phrase.before + phrase.source))
    )


def _operator(text: str, phrase: Phrase) -> str:
    """An operator alone is read between numbers; a dash between words is a pause."""
    if text in "≤≥≈" and not phrase.previous and phrase.following[:1].isdigit():
        return vocabulary.OPERATORS[text]
    if not phrase.previous or not phrase.following:
        return ""
    if text in "-–—--":
        starts_line = "\n" in phrase.source
        if text != "—" and (_is_between_names(phrase) or _is_between_times(phrase)):
            return "to"
        if not starts_line and _is_difference(phrase):
            return "minus"
        return "" if starts_line or phrase.previous[-1:] in ",.;:!?-–—" else ","
    if text == "x":
        return text
    names = [word.strip(vocabulary.EDGES) for word in (phrase.previous, phrase.following)]
    if text == ">" and all(name[:1].isupper() for name in names):
        is_path = len(names[0]) > 1 and contexts.MENUS.search(phrase.before)
        return "," if is_path else vocabulary.OPERATORS[text]
    if text == "/":
        if _OPERAND.fullmatch(phrase.previous) and _OPERAND.fullmatch(phrase.following):
            return vocabulary.OPERATORS[text]
        is_one = phrase.previous[-1] in ",.;:!?" or (phrase.previous, phrase.following) == ("and", "or")
        return "" if is_one else ","
    if text in "≤≥≈" or text in ("<=", ">="):
        is_operand = _VARIABLE.fullmatch(phrase.previous) or phrase.previous[-1:].isdigit()
        return ("is " if is_operand else "") + vocabulary.OPERATORS[text]
    is_counting = phrase.previous[-1:].isdigit() or phrase.following[:1].isdigit()
    return vocabulary.OPERATORS[text] if is_counting or text in _OPERATORS_ALONE else ""


def _is_between_names(phrase: Phrase) -> bool:
    """Whether a dash stands between two days of the week, or two months."""
    names = [word.strip(vocabulary.EDGES) for word in (phrase.previous, phrase.following)]
    return any(
        all(map(is_name, names)) for is_name in (vocabulary.is_weekday, vocabulary.MONTH_NAME.fullmatch)
    )


def _is_difference(phrase: Phrase) -> bool:
    """ "x - y" and "(x - 4)", not "vitamin a - 4 mg"."""
    first, second = (word.strip(vocabulary.EDGES + ".") for word in (phrase.previous, phrase.following))
    if _VARIABLE.fullmatch(first) is None:
        return False
    return _VARIABLE.fullmatch(second) is not None or (second.isdecimal() and first not in ("a", "i"))


_VARIABLE = re.compile(r"[a-zα-ω]")
_TIME_OF_DAY = re.compile(r"\d.*|noon|midnight")


def _is_between_times(phrase: Phrase) -> bool:
    """Whether a dash stands behind or before noon: "noon - 3pm"."""
    times = [word.strip(vocabulary.EDGES).lower() for word in (phrase.previous, phrase.following)]
    return not {"noon", "midnight"}.isdisjoint(times) and all(map(_TIME_OF_DAY.fullmatch, times))


def _is_special(text: str) -> bool:
    """Whether a word without digits may be read in another way than it is written."""
    bare = text.strip(vocabulary.EDGES)
    return (
        vocabulary.is_abbreviation(bare)
        or bare.removesuffix("'s").removesuffix("’s").isupper()
        or not bare.isascii()
        or _is_longer(bare)
        or bare in _IONS
        or text in FACTORIALS
        or "." in bare.rstrip(".")
        or bare.removesuffix(".") in vocabulary.SHORT_FORMS
        or _NAMES_OR_FUNCTION.fullmatch(text) is not None
        or any(len(part) > 1 and part.isupper() for part in bare.split("-"))
    )


def _join(text: str, phrase: Phrase) -> str:
    spoken, written, last = "", "", ""
    is_behind_tag = False
    for part in tag(text, phrase):
        if isinstance(part, Tag):
            words = written.split()
            previous = words[-1] if words else phrase.previous
            follows = text[len(written) + len(part.text) :]
            if part.kind == "date" and spoken[-1:] == "-" and spoken[-2:-1].islower():
                spoken = f"{spoken[:-1]} "
            is_screen = part.kind == "measure" and (
                _is_screen(follows, phrase) or (part.form == "measure.inches" and _is_sized(follows, phrase))
            )
            is_counted = _is_counted(part, previous, follows) or _is_priced(part, previous, follows, phrase)
            more = verbalize(part, previous, is_screen or is_counted)
            written += part.text
        else:
            more = part if part.isalnum() and part.isascii() else _signs_read(part)
            if last in ("money", "measure", "address") and part == "-":
                more = " "
            written += part
            if part == "." and last in ("measure", "duration"):
                more = "" if _goes_on(text[len(written) : len(written) + 1], phrase) else more
        is_tag = isinstance(part, Tag)
        if more[:1].isalnum() and spoken[-1:].isalnum() and (is_tag or is_behind_tag):
            spoken += " "
        spoken += more
        is_behind_tag = is_tag
        if isinstance(part, Tag):
            last = "measure" if part.fields.get("per") else part.kind
        elif part.isspace() or part in ",.":
            last = last if part == "." else ""
    is_unit = last in ("measure", "duration") and text.endswith(".")
    following = phrase.following.lstrip("(\"“'*_")
    is_on_way = phrase.following.isalpha() and phrase.following in contexts.COMPASS
    if is_unit and (following[:1].islower() or is_on_way or (last == "measure" and _is_screen(".", phrase))):
        return spoken.removesuffix(".")
    return spoken


def _is_screen(follows: str, phrase: Phrase) -> bool:
    """Whether a screen stands behind what it measures: "a 40 in. TV"."""
    ahead = f"{follows.removeprefix('.')} {phrase.following}"
    words = [word.strip(vocabulary.EDGES + ".").lower() for word in ahead.split(maxsplit=1)[:1]]
    return ahead[0] == " " and not contexts.DISPLAYS.isdisjoint(words)


_PAUSES = frozenset([",", ";", ":"])
_NO_NOUNS = frozenset(["plus", "times", "always", "towards", "upwards", "inches", "does"])


def _goes_on(mark: str, phrase: Phrase) -> bool:
    """Whether the stop of a unit before a mark ends no sentence: "8 oz., 12 oz.", "1 (8-oz.) can"."""
    return mark in _PAUSES or (mark == ")" and phrase.following[:1].islower())


def _is_sized(follows: str, phrase: Phrase) -> bool:
    """Whether inches are of what follows: two 3″ cookies, not 3″ across."""
    following = phrase.following.strip(vocabulary.EDGES + ".").lower()
    return follows == "" and counts(phrase.following) and following not in _NO_NOUNS


def _is_counted(part: Tag, previous: str, follows: str) -> bool:
    """Whether an amount stands before the noun that it measures: "a 5 km run", "a $5-a-day plan"."""
    if part.fields.get("gap") == "-" or part.fields.get("noun"):
        return True
    if re.match(r"-[a-z]", follows):
        return True
    return previous in contexts.SINGULAR_BEHIND


_PRICED = re.compile(
    "(?:bill|deal|project|plan|package|budget|fund|contract|settlement|merger|loan|acquisition|program|house"
    "|home|mansion|prize|jackpot|lawsuit|investment|fine)[.,;:!?)]*"
)
_OWNED = frozenset(["the", "this", "that", "its", "his", "her", "their", "our"])


def _is_priced(part: Tag, previous: str, follows: str, phrase: Phrase) -> bool:
    """ "the $1.7 trillion bill", not "the $5 million was paid"."""
    is_noun = follows == "" and _PRICED.fullmatch(phrase.following) is not None
    return part.form == "money.amount" and is_noun and previous.lower() in _OWNED


def _signs_read(text: str) -> str:
    if len(text) > 2 and text[0] == "<":
        return text  # a mark of the checkpoint
    if _GREEK_WORD.search(text):
        return text
    return _SIGN.sub(lambda sign: _SIGNS[sign[0]], text)
