"""Where digits are a date, a year, a time or a duration."""

import re

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.conditions.condition import Match, counts
from firstword.app.text.english.context import Context

# ruff: noqa: RUF001  typographic dashes are meant


def is_date(found: Match, context: Context) -> bool:
    first, second = int(found["first"]), int(found["second"])
    return 1 <= min(first, second) <= 12 and max(first, second) <= 31 and min(first, second) > 0


_FIXED = frozenset(["eta", "etd", "dated", "sunset", "sunrise", "lunch", "arrival", "departure"])
_AT = frozenset(["at", "by", "from", "until", "till"])  # "after 2000 hours" is so many of them


def is_military(found: Match, context: Context) -> bool:
    """Hours of a day as "1900 hours", rather than so many hours."""
    start = found.start()
    if contexts.HOURS_OF.match(f"{context.text[found.end() :]} {context.phrase.following}"):
        return False
    is_fixed = context.is_behind(start, _FIXED)
    has_hours = found["unit"] or context.is_ahead(found.end(), contexts.HOURS)
    is_at = context.is_behind(start, _AT) and not context.is_behind(start, contexts.CHANGED, 3)
    is_until = contexts.UNTIL_HOURS.search(
        f"{context.phrase.before} {context.text[:start]}".rstrip()
    ) and not context.is_behind(start, contexts.CHANGED, 7)
    if found["hour"][0] == "0" and not has_hours:  # "leaves at 0645", no code
        is_told = context.is_behind(start, _AT | _OPENING) and not context.ahead(found.end())[:1].isdigit()
        return is_told and not context.is_behind(start, contexts.CODES | contexts.DIALED, 5)
    return bool(has_hours and (found["hour"][0] == "0" or is_at or is_fixed or is_until))


_SPANS = (["week"], ["weekend"], ["night"], ["morning"])
_DUE = frozenset(["by", "until", "till", "before", "after", "since", "due", "through", "thru", "eod", "cob"])
_COMMON_PARTS = frozenset({(1, 2), (1, 3), (2, 3), (1, 4), (3, 4)})


_DAYS_TOLD = frozenset(["today", "tomorrow", "date", "birthday"])
_GOES_ON = frozenset(["and", "so", "but", "or", "at", "in", "this"])


def is_month_and_day(found: Match, context: Context) -> bool:
    month, day = int(found["first"]), int(found["second"])
    if not is_date(found, context) or context.ahead(found.end()) == "of":
        return False
    behind = context.behind(found.start())
    if behind == ["is"] and context.behind(found.start(), 2)[-1].lower() in _DAYS_TOLD:
        return month >= day or not context.ahead(found.end()) or context.is_ahead(found.end(), _GOES_ON)
    if behind == ["on"] or (behind == ["of"] and context.behind(found.start(), 2)[1:] in _SPANS):
        return True
    if behind and vocabulary.is_weekday(behind[0].rstrip(".")):
        return not context.is_ahead(found.end(), contexts.PARTS_AHEAD | contexts.PARTED)
    if contexts.DAY_AHEAD.match(f"{context.text[found.end() :]} {context.phrase.following}".lstrip()):
        return (month, day) not in _COMMON_PARTS
    if month > day and month <= 12 and behind and behind[0].lower() in _DUE:
        return not contexts.SCALED.search(f"{context.phrase.before} {context.text[: found.start()]}")
    return (
        month <= 12
        and day > 12
        and day not in (16, 20)
        and context.is_behind(found.start(), contexts.DATE_BEHIND)
    )


def is_days(found: Match, context: Context) -> bool:
    """ "12/24-12/26", not "1/2-3/4 cup" or sixteenths of an inch."""
    days = [(int(found[f"{end}first"]), int(found[f"{end}second"])) for end in ("", "last_")]
    is_dated = all(1 <= month <= 12 and 1 <= day <= 31 for month, day in days)
    if not is_dated or contexts.ASKED.search(context.phrase.before):
        return False
    is_said = context.is_behind(found.start(), contexts.DATE_BEHIND | contexts.CLOSED)
    return is_said or any(day > 12 and day not in (16, 32, 64) for _, day in days)


def is_month(found: Match, context: Context) -> bool:
    """Small "may" and "march" are verbs unless a year, an ordinal or a preposition says otherwise."""
    if _counts_behind_month(found, context):
        return False
    if found["month"] not in ("may", "march", "mar", "sep", "dec", "jan"):
        return True
    groups = found.groupdict()
    if context.is_alone(found.start(), found.end()):
        return True
    *_, before, last = ["", "", *f"{context.phrase.before} {context.text[: found.start()]}".split()]
    last = last.strip(vocabulary.EDGES).rstrip(".")
    if is_small_weekday(last, before, found["month"]) or vocabulary.is_weekday(last):
        return True
    if groups.get("year") or found[0][-2:] in ("st", "nd", "rd", "th"):
        return True
    is_first = not context.behind(found.start()) and found["month"] in ("sep", "dec", "jan")
    return is_first or context.is_behind(found.start(), contexts.MONTH_BEHIND)


def _counts_behind_month(found: Match, context: Context) -> bool:
    """ "In June 20 kids joined" and "May 5 people come?", not "the May 5 meetings"."""
    groups = found.groupdict()
    if groups.get("year") or groups.get("last") or not groups.get("day") or not found[0][-1].isdigit():
        return False
    if found["month"] == "May" and not context.behind(found.start()):
        ahead = f"{context.text[found.end() :]} {context.phrase.following}"
        return context.is_ahead(found.end(), _PERSONS) or _OF_US.match(ahead) is not None
    is_named = context.is_ahead(found.end(), _NAMED_FOR_DAY)
    return context.is_behind(found.start(), _IN) and counts(context.ahead(found.end())) and not is_named


_PERSONS = frozenset(["people", "kids", "children", "guests", "friends", "persons"])
_OF_US = re.compile(r"\s*of (?:us|you|them|the)\b")
_NAMED_FOR_DAY = frozenset(
    ["filings", "riots", "fireworks", "parades", "celebrations", "parties", "protests"]
)


def is_small_weekday(word: str, before: str, month: str) -> bool:
    """A day of the week in small letters; not "He sat. may be" or "the sun. march on"."""
    day = word.rstrip(".").capitalize()
    if day in vocabulary.WORDS_TOO and month in _VERBS:
        return before[-1:] in ("", *",;:(") or before.lower() in contexts.ON_DAY
    return vocabulary.is_weekday(day)


_VERBS = frozenset(["may", "march", "mar"])


def is_from_month(found: Match, context: Context) -> bool:
    """A dash behind a day of a month, before another."""
    return any(vocabulary.MONTH_NAME.fullmatch(word) for word in context.behind(found.start(), 3))


_DAY_AND_MONTH = re.compile(rf"\d\s(?:{vocabulary.MONTH})$")


def is_behind_day_and_month(found: Match, context: Context) -> bool:
    return _DAY_AND_MONTH.search(found.string[: found.start()]) is not None


_MONTH_OF_YEAR = re.compile(r"(?:0\d|[2-9]|1[0-2])/(?:19|20)\d\d")


def is_month_of_year(found: Match, context: Context) -> bool:
    """ "from 09/2024", not "Resolution 7/2024"."""
    if context.is_behind(found.start(), contexts.FILES) or context.is_ahead(found.end(), contexts.PARTS):
        return False
    if context.is_alone(found.start(), found.end()):
        return True
    if found["first"] == "1":
        return False  # "by 1/2000", a fraction
    last, month, *_ = [*context.behind(found.start(), 2), "", ""]
    is_end = last in ("to", "and") and _MONTH_OF_YEAR.fullmatch(month) is not None
    is_told = context.is_behind(found.start(), contexts.MONTH_OF_YEAR_BEHIND)
    return found["first"][0] == "0" or is_end or is_told


def is_year_and_month(found: Match, context: Context) -> bool:
    """ "2024-03", neither the years 2003 to 2004 nor the number of a file."""
    if int(found["first"]) > int(found["year"][2:]):
        return False
    named = contexts.FILES | contexts.NAMED_BY_CODE | contexts.ORDERS | contexts.CODES
    return not context.is_behind(found.start(), named, 2)


def is_joined_month(found: Match, context: Context) -> bool:
    """ "updated 05-2019", not "Executive Order 05-2019" or "Form 05-2019"."""
    last = next(iter(context.behind(found.start())), "")
    is_name = last[:1].isupper() and not last.endswith("ed") and last not in contexts.STARTERS
    if is_name:
        return (
            context.is_behind(found.start(), contexts.MONTH_OF_YEAR_BEHIND)
            or context.phrase.previous[-1:] == ":"
        )
    named = contexts.FILES | contexts.NAMED_BY_CODE | contexts.ORDERS | contexts.CODES
    return not context.is_behind(found.start(), named, 2)


_LAST_HOUR = re.compile(r"[ap]?(?:[-–]\d{1,2}[ap])?")


def is_hour_apart(found: Match, context: Context) -> bool:
    """ "8/7c": a time in the East, and what it is an hour to the west; no part of a cup."""
    return int(found["hour"]) % 12 == (int(found["other"]) + 1) % 12 and found["hour"] != "1"


def is_short_hour(found: Match, context: Context) -> bool:
    """ "open 2p-3p", not "2p-3p transition"."""
    last = _LAST_HOUR.match(found.string, found.end())
    return last is not None and not context.is_ahead(last.end(), contexts.ORBITALS)


_LENGTHS = re.compile(
    r"\s*\d+(?:\.\d+)?[\s-]?(?:[cm]?m|in(?! the)|inch(?:es)?|ft|feet|foot|[\"'″′]"
    r"|(?:row|cable|connector|adapter|pin)s?)(?!\w)"
)


def is_workdays(found: Match, context: Context) -> bool:
    """ "M-F 9-5" and "M-F 2 times a day", not "M-F 10 cm" or the cable of "M-F 8 rows"."""
    ahead = f"{found.string[found.end() :]} {context.phrase.following}"
    return ahead.lstrip()[:1].isdigit() and _LENGTHS.match(ahead) is None


def is_next_year(found: Match, context: Context) -> bool:
    """ "the 2003-04 season"."""
    return int(found["last"]) == int(found["year"][2:]) + 1 and not context.is_behind(
        found.start(), contexts.FILES | contexts.NAMED_BY_CODE, 2
    )


def is_duration(found: Match, context: Context) -> bool:
    given = [name for name, value in found.groupdict().items() if value]
    return len(given) >= 2


_IN = frozenset(["in"])


def is_minutes(found: Match, context: Context) -> bool:
    end = found.end()
    if context.is_ahead(end, contexts.AGO):
        return True
    if context.is_behind(found.start(), _IN) and len(found[0].partition("m")[0].strip()) > 2:
        return False  # "In 800m, turn left"
    return context.is_behind(found.start(), contexts.WAITED) and not context.is_ahead(end, contexts.MEASURED)


_EXPOSED = frozenset(["shutter", "speed", "exposure", "delay", "pause", "every", "for", "at", "to", "within"])
_WAITED = frozenset(["wait", "waits", "waited", "takes", "took"])


def is_part_of_second(found: Match, context: Context) -> bool:
    """ "wait 1/2s" and "1/250s", not "two 1/2s"."""
    above, below = int(found["above"]), int(found["below"])
    return above < below and (below > 32 or context.is_behind(found.start(), _EXPOSED | _WAITED))


def is_pace(found: Match, context: Context) -> bool:
    """So long for each mile or kilometer, not the height of somebody."""
    return found["per"] is not None or context.ahead(found.end()) == "per"


def is_in_hours(found: Match, context: Context) -> bool:
    """ "slept 7:20 hrs", not "at 6:00 hrs", "departs 8:15 hrs" or "9:00 hrs to 6:00 hrs"."""
    ahead = f"{context.text[found.end() :]} {context.phrase.following}"
    is_told = context.is_behind(found.start(), _OPENING) or context.is_behind(found.start(), _TIMETABLED, 2)
    return not (
        is_told
        or context.is_behind(found.start(), contexts.CLOCK - contexts.DURATIONS)
        or _UNTIL_HOUR.match(ahead)
    )


_OPENING = frozenset(
    ["departs", "leaves", "arrives", "opens", "closes", "begins", "starts", "ends", "boards"]
)
_TIMETABLED = frozenset(["eta", "etd", "boarding", "timing", "timings", "departure", "arrival"])
_UNTIL_HOUR = re.compile(r"\s*(?:to|until|till|-|–)(?:\s+\d|\s*$)")


def is_elapsed(found: Match, context: Context) -> bool:
    """Hours, minutes and seconds that passed, rather than a time of day."""
    if context.is_behind(found.start(), contexts.CLOCK - contexts.DURATIONS):
        return False
    is_short = len(found["hours"]) == 1 or found["hours"] == "00"
    return is_short or context.is_behind(found.start(), contexts.DURATIONS)


_RATIOS = frozenset(["ratio", "odds", "split", "proportion", "mix"])


def is_elapsed_minutes(found: Match, context: Context) -> bool:
    """ "He ran 10 km in 45:30", "45:10 minutes" and "39:05.9", not a ratio of 70:30."""
    is_left = found["minutes"] == "0" and context.is_ahead(found.end(), contexts.AGO)
    if found["unit"] or "." in found["seconds"] or is_left:
        return True
    if int(found["minutes"]) + float(found["seconds"]) == 100 or context.is_behind(found.start(), _RATIOS, 4):
        return False
    return context.is_behind(found.start(), contexts.DURATIONS - _IS)


_MIXED = frozenset(["ratio", "odds", "scale", "dilution", "proportion", "mixture"])


def is_ratio(found: Match, context: Context) -> bool:
    """ "a 1:10 ratio", "odds of 5:10"."""
    return context.is_ahead(found.end(), _MIXED) or context.is_behind(found.start(), _MIXED, 2)


_IS = frozenset(["is", "was", "of", "for"])


def is_age(found: Match, context: Context) -> bool:
    """ "she is 5yo", not "a 5yo boy"."""
    ahead = context.ahead(found.end())
    return not ahead[:1].isalpha() or context.is_ahead(found.end(), contexts.AGED)


def is_decade(found: Match, context: Context, digits: str) -> bool:
    """ "in the 30s" and "in 80s style", not "done in 30s" or "reloads in 60s."."""
    if context.is_behind(found.start(), _IN):
        return digits >= "60" and context.ahead(found.end())[:1].isalpha()
    return context.is_behind(found.start(), contexts.DECADE_BEHIND)


def is_bare_decade(found: Match, context: Context) -> bool:
    """ "30s" only after a word such as "the"; the later ones unless somebody waits for so long."""
    digits, start, end = found["digits"], found.start(), found.end()
    if digits >= "50" and context.is_ahead(end, contexts.OF_DECADE):
        is_made = context.is_behind(start, contexts.ARTICLES) and context.is_behind(start, contexts.MADE, 2)
        return not (is_made and context.is_ahead(end, contexts.MADE_OF_SECONDS))
    if context.is_ahead(end, _OUTDOORS):
        return True
    is_late = digits in ("60", "70", "80", "90") and not context.is_behind(start, _IN)
    if is_late and not context.is_behind(start, _waited(digits, found, context) - contexts.DECADE_BEHIND):
        ahead = f"{context.text[end:]} {context.phrase.following}"
        is_rest = _OF_REST.match(ahead) is not None and not context.is_behind(start, contexts.DECADE_BEHIND)
        return not is_rest and not context.is_ahead(end, contexts.AGO | contexts.TIMED | contexts.EXERCISED)
    return is_decade(found, context, digits) and found.string[start - 1 : start] != "$"


def _waited(digits: str, found: Match, context: Context) -> frozenset[str]:
    """The words behind which so many seconds are said."""
    start, ahead = found.start(), context.ahead(found.end())
    exercised = contexts.WAITED | contexts.DURATIONS | contexts.EXERCISED | contexts.REPEATED
    words = exercised | contexts.ABOUT
    if digits in ("60", "90"):
        words |= _JUST if _CAPITALIZED.match(ahead) else _JUST | _ONE
    return words if context.is_behind(start, exercised, 2) else words - _SOME


_OF_REST = re.compile(r"\s*of (?:rest|work|plank|planks|running|jogging|walking|jumping|silence)\b")
_OUTDOORS = frozenset(["outside", "outdoors"])
_CAPITALIZED = re.compile(r"[A-Z][a-z]")
_SOME = frozenset(["some"])  # "some 80s", but "rest for some 60s"
_JUST = frozenset(["just"])
_ONE = frozenset(["a"])  # "a 90s clip", but "an 80s mix" and "a 60s Mustang"


_COUNTED_BEHIND = frozenset(["of", "between"])
_CHANGED_TO = frozenset(["from", "to", "by"])


_CONSTANT = frozenset(["constant", "real", "nominal", "adjusted", "inflation-adjusted"])  # of money
_CURRENCIES = frozenset(["dollars", "euros", "pounds", "yen", "rupees"])


def is_year(found: Match, context: Context) -> bool:
    """Four digits are a year unless they count what follows, or stand in a formula."""
    if context.has_equals and not context.ahead(found.end())[:1].isalpha():
        return context.is_behind(found.start(), _IN)
    if context.is_behind(found.start(), contexts.YEAR_BEHIND):
        return not _measures(found, context)
    ahead = context.ahead(found.end())
    if ahead in _CURRENCIES:
        return context.is_behind(found.start(), _CONSTANT)
    return (
        not counts(ahead)
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
