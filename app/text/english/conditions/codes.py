"""Where digits and letters are a code, a number that is dialed, a screen's size or a path."""

import re

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.conditions.condition import Match, counts
from firstword.app.text.english.context import Context

_YEAR = re.compile(r"(?:19|20)\d\d")


def is_code(found: Match, context: Context) -> bool:
    start = found.start()
    last, before, *others = [*context.behind(start, 6), "", ""]
    is_last = last == "digits" and before == str(len(found["digits"])) and others[:1] in (["last"], ["first"])
    if (before == "digits" and last in ("is", "are", "were")) or is_last:
        return True
    is_year = _YEAR.fullmatch(found["digits"]) is not None
    if last in contexts.LINKS and before.isdecimal() and not counts(context.ahead(found.end())):
        is_span = (is_year and _YEAR.fullmatch(before)) or others[0] in ("from", "between")
        return not is_span and not contexts.CODES.isdisjoint(word.lower() for word in others)
    if last in ("from", "between") or (is_year and last == "code" and others[:1] in (["in"], ["In"])):
        return False
    if is_behind_code(found, context):
        return True
    if len(found["digits"]) >= 4 and context.is_behind(start, contexts.ORDERS, 2):
        return len(found["digits"]) > 4
    return False


def is_behind_code(found: Match, context: Context) -> bool:
    """Behind "code" or its kin, rather than so many of what follows."""
    return context.is_behind(found.start(), contexts.CODES, 3) and not context.is_ahead(
        found.end(), contexts.COUNTED
    )


def is_behind_place(found: Match, context: Context) -> bool:
    """ "NYC 10036" and "California 90210", rather than so many of what follows."""
    place = next(iter(context.behind(found.start())), "")
    if counts(context.ahead(found.end())):
        return False
    return place.lower() in contexts.CITIES or (place in _STATES and not found["zip"].endswith("00"))


_STATES = frozenset(name.rpartition(" ")[2] for name in contexts.STATES.values()) - {"C"}


def is_airplane(found: Match, context: Context) -> bool:
    """ "the 787-9", not a score."""
    return context.is_alone(found.start(), found.end()) or context.is_behind(found.start(), contexts.ARTICLES)


def is_always(found: Match, context: Context) -> bool:
    """ "24-7 support", not "won 24-7"."""
    return (
        context.is_alone(found.start(), found.end())
        or context.is_behind(found.start(), contexts.ALWAYS_BEHIND)
        or context.is_ahead(found.end(), contexts.ALWAYS_AHEAD)
    )


_LETTERS_AND_NUMBER = re.compile(r"(?<![\w-])[A-Za-z]{2,}-\d+$")


def is_part_of_code(found: Match, context: Context) -> bool:
    """The second hyphen of "ISO-8859-1"."""
    return _LETTERS_AND_NUMBER.search(found.string[: found.start()]) is not None


def is_named(found: Match, context: Context) -> bool:
    """ "the code's 2580"."""
    word = next(iter(context.behind(found.start())), "")
    stem = word[:-2] if word[-2:] in ("'s", "’s") else word  # noqa: RUF001  an apostrophe
    return stem != word and stem.lower() in contexts.CODES and not context.ahead(found.end())


_MIXED_CODE = re.compile(r"(?<![\w-])[A-Z]*\d+[A-Z]+\d+$")


def is_within_code(found: Match, context: Context) -> bool:
    """ "7GK2-91PQ", not "B12-14"."""
    return _MIXED_CODE.search(found.string[: found.start()]) is not None


def is_version(found: Match, context: Context) -> bool:
    """ "Python 3.12", also "from Python 3.9 to 3.12" and "Python 3.12 is faster than 3.11"."""
    if context.is_behind(found.start(), contexts.VERSIONS):
        return True
    versions = _VERSION.findall(f"{context.phrase.before} {context.text[: found.start()]}")
    is_compared = context.is_behind(found.start(), _COMPARED)
    return is_compared and any(
        major == found["major"] and word.lower() in contexts.VERSIONS for word, major in versions
    )


_VERSION = re.compile(r"\b([A-Za-z]+) v?(\d+)\.\d+\b")
_COMPARED = frozenset(["than", "to", "and", "or", "vs", "not", "over", "from"])


def is_ion(found: Match, context: Context) -> bool:
    """ "Cl-", but no Ohio behind a city: "Columbus, OH-"."""
    before = f"{context.phrase.before}{context.text[: found.start()]}"
    return not before.endswith("OH") or before.removesuffix("OH").rstrip()[-1:] not in ("", ",")


def is_plate(found: Match, context: Context) -> bool:
    """Digits behind letters that stand behind digits, as "7ABC123"."""
    return re.search(r"(?<!\w)[0-9][0-9A-Z]*[A-Z]$", found.string[: found.start()]) is not None


def is_tally(found: Match, context: Context) -> bool:
    """So many games won and so many lost, as in "a 11-3 record" and "are 11-3 this season"; no score."""
    start, end = found.start(), found.end()
    last, before = [*map(str.lower, context.behind(start, 2)), "", ""][:2]
    if (last, before) in _TALLIED or context.is_ahead(end, contexts.RECORD):
        return True
    games = int(found["won"]) + int(found["lost"])
    ahead = context.ahead(end)
    if (last == "the" and ahead.istitle()) or (last == "are" and games > 7 and ahead.lower() in _GOES_ON):
        return True
    return last in contexts.PLAYED and context.is_ahead(end, contexts.PLAYED_SINCE)


_GOES_ON = frozenset(["", "and", "but", "with", "after", "entering", "heading"])
_TALLIED = frozenset(
    {*((verb, "record") for verb in ("of", "is", "was")), ("to", "improved"), ("to", "improve")}
)


def is_in_parts(found: Match, context: Context) -> bool:
    """A number behind "flight", with an airline's code between or without; of a course, a law or a form."""
    last = next(iter(context.behind(found.start())), "")
    if re.fullmatch("[A-Z]{2}", last) and (is_of_flight(found, context) or _is_flown(found, last, context)):
        return True
    if last[:1].isupper() and last.lower() in contexts.COURSES:
        return len(found["digits"]) == 3 and not context.is_ahead(found.end(), contexts.COUNTED)
    is_law = last.lower() in contexts.LAWS and len(found["digits"]) == 4
    return is_law or last.lower() in contexts.IN_TWO_PARTS


def _is_flown(found: Match, airline: str, context: Context) -> bool:
    """ "UA 328 departs"."""
    return airline in contexts.AIRLINES and context.is_ahead(found.end(), contexts.FLOWN)


_STATES_OF_HTTP = frozenset(
    {226, *range(100, 104), *range(200, 209), *range(300, 309), *range(400, 452), *range(500, 512)}
)


def is_failure(found: Match, context: Context) -> bool:
    """A state of HTTP, rather than so many errors."""
    start, end = found.start(), found.end()
    if int(found["digits"]) not in _STATES_OF_HTTP:
        return False
    behind = context.behind(start, 4)
    is_listed = behind[:1] in (["and"], ["or"]) and any(word.lower() == "http" for word in behind)
    if is_listed or context.is_behind(start, frozenset(["error"])):
        return is_listed or not counts(context.ahead(end))
    is_error = context.is_ahead(end, frozenset(["error"])) and context.is_behind(start, contexts.ARTICLES)
    return is_error or context.is_behind(start, frozenset(["http", "https"]))


def is_dialed(found: Match, context: Context) -> bool:
    """A short number that is called, rather than so many of what follows."""
    start, end = found.start(), found.end()
    is_call = context.is_ahead(end, frozenset(["call", "calls"]))
    if found["digits"] not in contexts.EMERGENCY or (counts(context.ahead(end)) and not is_call):
        return False
    nearest = next((word for word in context.behind(start, 4) if word not in ("number", "is", "at")), "")
    is_helpline = nearest.lower() in contexts.HELPLINES and (is_call or not context.ahead(end))
    return is_helpline or context.is_behind(start, contexts.DIALED, 4)


def is_no_count(found: Match, context: Context) -> bool:
    """Digits that touch are no telephone before what they count."""
    return not found[0].isdecimal() or not counts(context.ahead(found.end()))


_PAGED = frozenset(["page", "pages", "pp", "lines", "verses", "between"])


def is_local_number(found: Match, context: Context) -> bool:
    """ "555-0123", not "500-1000 people" or "pages 100-1000"."""
    start = found.start()
    if counts(context.ahead(found.end())) or context.is_behind(start, _PAGED):
        return False
    first, second = map(int, found[0][:8].split("-"))
    return first % 10 + second % 10 > 0 or context.is_behind(start, _CALLED, 3)


_CALLED = contexts.DIALED | contexts.HELPLINES | {"telephone", "tel", "number", "fax", "text", "freephone"}
_SPANNED = frozenset(["between", "from"])


def is_called(found: Match, context: Context) -> bool:
    """ "call us on 0800 1111", not "open 0800 1700"."""
    start = found.start()
    is_told = context.is_behind(start, _CALLED, 4) and not context.is_behind(start, _SPANNED)
    return is_told or context.is_alone(start, found.end())


_TOLL_FREE = frozenset(["number", "numbers", "line", "lines", "hotline", "call", "calls"])


def is_toll_free(found: Match, context: Context) -> bool:
    """ "1-800 numbers", not "pages 1-800"."""
    return context.is_ahead(found.end(), _TOLL_FREE) or context.is_behind(found.start(), contexts.DIALED, 3)


def is_area_code(found: Match, context: Context) -> bool:
    return context.phrase.following.strip(vocabulary.EDGES + ".").lower() == "code"


def is_of_flight(found: Match, context: Context) -> bool:
    """ "flight UA328", "my flight number is UA328": in two parts, as "flight 328" is."""
    words = (word.lower() for word in context.behind(found.start(), 4)[1:])
    return next((word for word in words if word not in _BEHIND_FLIGHT), "") == "flight"


_BEHIND_FLIGHT = frozenset(["is", "was", "number", "no"])


def is_of_grades(found: Match, context: Context) -> bool:
    """ "grades K-5", not "a K-12 school"."""
    return context.behind(found.start(), 2)[1:] in (["grades"], ["Grades"])


def is_filed(found: Match, context: Context) -> bool:
    before = f"{context.phrase.before} {context.text[: found.start()]}".rstrip()
    return contexts.FILED.search(before) is not None and not counts(context.ahead(found.end()))


def is_pixels(found: Match, context: Context) -> bool:
    """Of a screen, rather than so many centimeters."""
    start, end = found.start(), found.end()
    unit = context.ahead(end).strip(vocabulary.EDGES + ".")
    if context.has_equals or (unit in units.UNITS and unit not in ("in", "px")):
        return False
    is_known = found["wide"] in contexts.WIDTHS and found["high"] in contexts.HEIGHTS
    return is_known or unit in contexts.SCREENS or context.is_behind(start, contexts.SCREENS, 3)


def is_mixed(found: Match, context: Context) -> bool:
    """Digits and letters of a code, rather than "5ft10in"."""
    return not any(len(part) > 1 and part in units.UNITS for part in re.findall("[a-z]+", found[0]))


_SYMBOLS = re.compile(r"(?<![\w-])((?:[A-Z][a-z]?\d?)+)$")


def is_of_elements(found: Match, context: Context) -> bool:
    """The charge of "SO4 2-"."""
    before = _SYMBOLS.search(found.string[: found.start()])
    symbols = re.findall("[A-Z][a-z]?", before[0]) if before else []
    return len(symbols) > 1 and contexts.ELEMENTS.issuperset(symbols)


def is_chemical(found: Match, context: Context) -> bool:
    """ "CaCO3" and "H2SO4", of known elements, rather than a name in capitals."""
    symbols = re.findall("[A-Z][a-z]?", found[0])
    is_told = any(len(symbol) == 2 for symbol in symbols) or _OF_ACID.search(found[0]) is not None
    return is_told and contexts.ELEMENTS.issuperset(symbols)


_OF_ACID = re.compile("SO[34]|NO[23]|PO4|CO3")


def is_model_size(found: Match, context: Context) -> bool:
    """ "Qwen2.5-7B", a version and a size behind a name."""
    return re.search(r"[A-Za-z]-?\d+(?:\.\d+)?$", found.string[: found.start()]) is not None


def is_path(found: Match, context: Context) -> bool:
    """Of a file, or a command that begins with a slash; no sound between two of them, as "/i/"."""
    parts = found[0].strip("/").split("/")
    if len(parts) == 1:
        is_sound = found[0].endswith("/") and not found.string[found.end() :][:1].isalnum()
        is_typed = not is_sound and context.is_behind(found.start(), contexts.TYPED)
        return is_typed or parts[0] in contexts.ROOTS
    return "/" not in context.phrase.previous  # "he/him /she/her"


def is_community(found: Match, context: Context) -> bool:
    """ "r/python" and "u/someone", not "10 r/hour" or "make a u/turn"."""
    is_counted = next(iter(context.behind(found.start())), "")[-1:].isdigit()
    return not is_counted and found["host"] not in {"turn", "turns", "each", *units.PERIODS}
