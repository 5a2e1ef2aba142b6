"""Where a form is meant: what the words beside it say of a number, a letter or an abbreviation."""

import re
from collections.abc import Callable

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.context import Context

Match = re.Match[str]
Condition = Callable[[Match, Context], bool]


def behind(words: frozenset[str], count: int = 1) -> Condition:
    return lambda found, context: context.is_behind(found.start(), words, count)


def is_date(found: Match, context: Context) -> bool:
    first, second = int(found["first"]), int(found["second"])
    return 1 <= min(first, second) <= 12 and max(first, second) <= 31 and min(first, second) > 0


def is_no_formula(found: Match, context: Context) -> bool:
    return not context.has_equals


_AT = frozenset(["at", "by", "from", "until", "till"])  # "after 2000 hours" is so many of them


def is_military(found: Match, context: Context) -> bool:
    """Hours of a day as "1900 hours", rather than so many hours."""
    start = found.start()
    if contexts.HOURS_OF.match(f"{context.text[found.end() :]} {context.phrase.following}"):
        return False
    has_hours = found["unit"] or context.is_ahead(found.end(), contexts.HOURS)
    is_at = context.is_behind(start, _AT) and not context.is_behind(start, contexts.CHANGED, 3)
    is_until = contexts.UNTIL_HOURS.search(
        f"{context.phrase.before} {context.text[:start]}".rstrip()
    ) and not context.is_behind(start, contexts.CHANGED, 7)
    return bool(has_hours and (found["hour"][0] == "0" or is_at or is_until))


def is_pressure(found: Match, context: Context) -> bool:
    return found["unit"] is not None or context.is_behind(found.start(), contexts.PRESSURE, 2)


def is_flight(found: Match, context: Context) -> bool:
    """A number behind "flight", with an airline's code between or without."""
    behind = context.behind(found.start(), 2)
    is_airline = len(behind) == 2 and behind[1].lower() == "flight" and re.fullmatch("[A-Z]{2}", behind[0])
    return bool((behind and behind[0].lower() in contexts.IN_TWO_PARTS) or is_airline)


def is_rare_fraction(found: Match, context: Context) -> bool:
    """One that halves, thirds and their kin do not cover: "22/7", and any before "of"."""
    above, below = int(found["above"]), int(found["below"])
    is_common = above < below <= 10  # "fraction.common"
    if (
        below < 2
        or is_common
        or above == below
        or above + below == 100
        or (above, below) in contexts.NO_FRACTIONS
    ):
        return False
    is_improper = above > 12 and below < 10 and above % below > 0
    return is_improper or context.is_ahead(found.end(), contexts.OF)


def is_proper_in_formula(found: Match, context: Context) -> bool:
    return context.has_equals and int(found["above"]) < int(found["below"])


def is_month_and_day(found: Match, context: Context) -> bool:
    month, day = int(found["first"]), int(found["second"])
    if not is_date(found, context) or context.ahead(found.end()) == "of":
        return False
    if context.behind(found.start()) == ["on"]:
        return True
    return (
        month <= 12
        and day > 12
        and day not in (16, 20)
        and context.is_behind(found.start(), contexts.DATE_BEHIND)
    )


def is_month(found: Match, context: Context) -> bool:
    """Small "may" and "march" are verbs unless a year, an ordinal or a preposition says otherwise."""
    if found["month"] not in ("may", "march", "mar", "sep", "dec", "jan"):
        return True
    groups = found.groupdict()
    if groups.get("year") or found[0][-2:] in ("st", "nd", "rd", "th"):
        return True
    return context.is_behind(found.start(), contexts.MONTH_BEHIND)


def is_duration(found: Match, context: Context) -> bool:
    given = [name for name, value in found.groupdict().items() if value]
    return len(given) >= 2


def is_minutes(found: Match, context: Context) -> bool:
    end = found.end()
    if context.is_ahead(end, contexts.AGO):
        return True
    return context.is_behind(found.start(), contexts.WAITED) and not context.is_ahead(end, contexts.MEASURED)


def is_elapsed(found: Match, context: Context) -> bool:
    """Hours, minutes and seconds that passed, rather than a time of day."""
    if context.is_behind(found.start(), contexts.CLOCK - contexts.DURATIONS):
        return False
    is_short = len(found["hours"]) == 1 or found["hours"] == "00"
    return is_short or context.is_behind(found.start(), contexts.DURATIONS)


def is_per(found: Match, context: Context) -> bool:
    per = found["per"]
    return per in units.PERIODS or per in units.UNITS


def is_money(found: Match, context: Context) -> bool:
    sign, per = found["sign"], found["per"]
    return (sign in units.MONEY or sign in units.CODES or sign in units.PREFIXED) and (
        not per or per in units.PERIODS or per in units.UNITS or len(per) > 2
    )


def is_unit(found: Match, context: Context) -> bool:
    unit, per, end = found["unit"], found["per"], found.end()
    if unit not in units.UNITS or (per and f"{unit}/{per}" not in units.UNITS and not is_per(found, context)):
        return False
    is_apart = found.string[found.start("unit") - 1].isspace()
    if unit == "in":
        rest = found.string[end:].strip()
        is_closed = not context.ahead(end) and (not rest or rest[0] in ".,;:!?)")
        is_sized = context.is_ahead(end, contexts.MEASURED | {"x", "by"})
        has_feet = bool(re.search(r"(?:ft|feet|foot|x|by)\s$", found.string[: found.start()]))
        return not is_apart or is_closed or is_sized or has_feet
    if unit in ("A", "K", "N", "J", "T", "t", "d", "C", "F"):
        ahead = context.ahead(end)
        return is_apart and (not ahead or ahead in ("of", "at", "to", "and", "or", "for", "fuse", "current"))
    if unit in ("M", "B"):
        return False
    if unit == "s":
        return not is_decade(found, context) or context.is_ahead(end, contexts.TIMED)
    return not (unit == "m" and is_minutes(found, context))


def is_measured_fraction(found: Match, context: Context) -> bool:
    if found["unit"] in ('"', "″"):
        return has_inches(found, context)
    return len(found["unit"]) > 1 and found["unit"] in units.UNITS and found["unit"] != "in"


def is_decade(found: Match, context: Context) -> bool:
    return context.is_behind(found.start(), contexts.DECADE_BEHIND)


def is_bare_decade(found: Match, context: Context) -> bool:
    """ "30s" only after a word such as "the"; the later ones unless somebody waits for so long."""
    if found["digits"] in ("60", "70", "80", "90"):
        waited = contexts.WAITED | contexts.DURATIONS | contexts.ABOUT | contexts.ARTICLES
        if not context.is_behind(found.start(), waited - contexts.DECADE_BEHIND):
            return not context.is_ahead(found.end(), contexts.AGO | contexts.TIMED)
    return is_decade(found, context) and found.string[found.start() - 1 : found.start()] != "$"


def is_scale(found: Match, context: Context) -> bool:
    """Whether K, M or B behind a number is one, not the letter of a room or a name."""
    scale, number, end = found["scale"], found["number"], found.end()
    if scale == "K" and number in ("4", "8") and not context.is_ahead(end, contexts.COUNTABLE):
        return False
    if context.is_behind(found.start(), contexts.LETTERED):
        return False
    ahead = context.ahead(end).strip(vocabulary.EDGES + ".").lower()
    if "." in number or "," in number or ahead in contexts.COUNTABLE:
        return True
    if scale in ("k", "K") and len(number) <= 3:
        is_race = ahead in contexts.RACES or (
            not ahead and context.is_behind(found.start(), contexts.ARTICLES)
        )
        return not is_race and number != "401" and ahead != "plan"
    return context.is_behind(found.start(), contexts.ABOUT) and not ahead[:1].isupper()


_COUNTED_BEHIND = frozenset(["of", "between"])
_CHANGED_TO = frozenset(["from", "to", "by"])


def is_year(found: Match, context: Context) -> bool:
    """Four digits are a year unless they count what follows."""
    if context.is_behind(found.start(), contexts.YEAR_BEHIND):
        return not _measures(found, context)
    return (
        not _counts(context.ahead(found.end()))
        or found["year"][1:] == "000"
        or (found["year"][2:] != "00" and found["year"][1] not in "0")
    )


def _measures(found: Match, context: Context) -> bool:
    """ "a total of 1350 dollars", not "In 2019 euros were used"."""
    start, end = found.start(), found.end()
    if context.is_ahead(end, contexts.MEASURES) and context.is_behind(start, contexts.MEASURED_BEHIND):
        return True
    is_counted = context.is_behind(start, _COUNTED_BEHIND) or (
        context.is_behind(start, _CHANGED_TO) and context.is_behind(start, contexts.CHANGED, 3)
    )
    return is_counted and context.is_ahead(end, contexts.AMOUNTS)


def _counts(ahead: str) -> bool:
    """Whether a number counts the word that follows it."""
    bare = ahead.strip(vocabulary.EDGES + ".")
    return bare.islower() and (
        bare in contexts.COUNTABLE
        or bare in ("people", "women", "men", "children", "square", "different", "new", "other")
        or (
            bare.endswith("s")
            and not bare.endswith("ss")
            and bare not in ("is", "was", "has", "as", "its", "this")
        )
    )


_YEAR = re.compile(r"(?:19|20)\d\d")


def is_code(found: Match, context: Context) -> bool:
    start = found.start()
    last, before, *others = [*context.behind(start, 6), "", ""]
    if before == "digits" and last in ("is", "are", "were"):
        return True
    is_year = _YEAR.fullmatch(found["digits"]) is not None
    if last in contexts.LINKS and before.isdecimal() and not _counts(context.ahead(found.end())):
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


def is_named(found: Match, context: Context) -> bool:
    """ "the code's 2580"."""
    word = next(iter(context.behind(found.start())), "")
    stem = word[:-2] if word[-2:] in ("'s", "’s") else word  # noqa: RUF001  an apostrophe
    return stem != word and stem.lower() in contexts.CODES and not context.ahead(found.end())


def is_plate(found: Match, context: Context) -> bool:
    """Digits behind letters that stand behind digits, as "7ABC123"."""
    return re.search(r"(?<!\w)[0-9][0-9A-Z]*[A-Z]$", found.string[: found.start()]) is not None


_STATES_OF_HTTP = frozenset(
    {226, *range(100, 104), *range(200, 209), *range(300, 309), *range(400, 452), *range(500, 512)}
)


def is_failure(found: Match, context: Context) -> bool:
    """A state of HTTP, rather than so many errors."""
    start, end = found.start(), found.end()
    if int(found["digits"]) not in _STATES_OF_HTTP:
        return False
    if context.is_behind(start, frozenset(["error"])):
        return not _counts(context.ahead(end))
    is_error = context.is_ahead(end, frozenset(["error"])) and context.is_behind(start, contexts.ARTICLES)
    return is_error or context.is_behind(start, frozenset(["http", "https"]))


def is_score(found: Match, context: Context) -> bool:
    """So many of five, ten or a hundred points."""
    if int(found["above"].partition(".")[0]) > int(found["below"]):
        return False
    ahead = context.ahead(found.end()).strip(vocabulary.EDGES + ".").lower()
    if ahead == "of" or ahead in units.UNITS or ahead in contexts.PARTED:
        return False
    last, verb, *_ = [*context.behind(found.start(), 2), "", ""]
    is_given = last in ("it", "a") and verb.lower() in contexts.GIVEN and not ahead
    is_scored = context.is_behind(found.start(), contexts.SCORED, 2)
    return "." in found["above"] or ahead in contexts.SCORES or is_scored or is_given


def is_dialed(found: Match, context: Context) -> bool:
    """A short number that is called, rather than so many of what follows."""
    start, end = found.start(), found.end()
    is_call = context.is_ahead(end, frozenset(["call", "calls"]))
    if found["digits"] not in contexts.EMERGENCY or (_counts(context.ahead(end)) and not is_call):
        return False
    nearest = next((word for word in context.behind(start, 4) if word not in ("number", "is", "at")), "")
    is_helpline = nearest.lower() in contexts.HELPLINES and (is_call or not context.ahead(end))
    return is_helpline or context.is_behind(start, contexts.DIALED, 4)


def is_filed(found: Match, context: Context) -> bool:
    before = f"{context.phrase.before} {context.text[: found.start()]}".rstrip()
    return contexts.FILED.search(before) is not None and not _counts(context.ahead(found.end()))


def is_pixels(found: Match, context: Context) -> bool:
    """Of a screen, rather than so many centimeters."""
    start, end = found.start(), found.end()
    unit = context.ahead(end).strip(vocabulary.EDGES + ".")
    if context.has_equals or (unit in units.UNITS and unit not in ("in", "px")):
        return False
    is_known = found["wide"] in contexts.WIDTHS and found["high"] in contexts.HEIGHTS
    return is_known or unit in contexts.SCREENS or context.is_behind(start, contexts.SCREENS, 3)


def is_verse(found: Match, context: Context) -> bool:
    """Chapter and verse behind the name of a book, rather than a time of day behind somebody's."""
    book = (context.behind(found.start()) or [""])[0]
    is_book = book.istitle() and book.lower() in contexts.SCRIPTURE
    following = f"{found.string[found.end() :]} {context.phrase.following}".lstrip()
    return is_book and re.match(r"[ap]\.?m\b", following, re.IGNORECASE) is None


def is_mixed(found: Match, context: Context) -> bool:
    """Digits and letters of a code, rather than "5ft10in"."""
    return not any(len(part) > 1 and part in units.UNITS for part in re.findall("[a-z]+", found[0]))


def is_from_month(found: Match, context: Context) -> bool:
    """A dash behind a day of a month, before another."""
    return any(vocabulary.MONTH_NAME.fullmatch(word) for word in context.behind(found.start(), 3))


def is_address(found: Match, context: Context) -> bool:
    street = found["street"].rstrip(".")
    return street in contexts.STREETS or street in contexts.STREET_WORDS


def is_state(found: Match, context: Context) -> bool:
    if found["zip"]:
        return True
    if found["state"] in ("OK", "HI", "IN", "ID", "ME", "OH"):
        return False
    before = f"{context.phrase.before}{context.text[: found.start()]}".rstrip()
    city = before.rpartition(" ")[2]
    return before.endswith(",") and city[:1].isupper() and len(city) > 4 and not context.ahead(found.end())


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


def has_inches(found: Match, context: Context) -> bool:
    return not context.phrase.is_quoted and '"' not in found.string[: found.start()]


def is_behind_power(found: Match, context: Context) -> bool:
    """A unit behind a power of ten."""
    before = f"{context.phrase.before} {context.text[: found.start()]}".rstrip()
    unit = found["unit"]
    if re.search(r"\b10(?:\^\S+|[⁰¹²³⁴-⁹⁻]+)$", before) is None or unit in ("in", "A", "C", "d", "t", "h"):
        return False
    return unit in units.UNITS and (not found["per"] or is_per(found, context))


def is_path(found: Match, context: Context) -> bool:
    """Of a file, or a command that begins with a slash; no sound between two of them, as "/i/"."""
    parts = found[0].strip("/").split("/")
    if len(parts) == 1:
        is_sound = found[0].endswith("/") and not found.string[found.end() :][:1].isalnum()
        is_typed = not is_sound and context.is_behind(found.start(), contexts.TYPED)
        return is_typed or parts[0] in contexts.ROOTS
    return "/" not in context.phrase.previous  # "he/him /she/her"


def is_formula(found: Match, context: Context) -> bool:
    return context.has_equals
