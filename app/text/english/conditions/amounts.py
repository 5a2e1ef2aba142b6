"""Where digits are money, a measure, a fraction, a score or part of a formula."""

import re

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.conditions.condition import Match
from firstword.app.text.english.conditions.dates import is_decade, is_minutes
from firstword.app.text.english.context import Context
from firstword.app.text.english.numbers import DIGITS as NUMBERS
from firstword.app.text.english.numbers import ordinal

# ruff: noqa: RUF001, RUF002  signs are meant


def is_per(found: Match, context: Context) -> bool:
    return all(per in units.PERIODS or (per in units.UNITS and per != "c") for per in found["per"].split("/"))


_WORD_BEHIND = re.compile(r"[A-Za-zµμ]*$")


def is_per_behind_letters(found: Match, context: Context) -> bool:
    """ "kg/d" and "5 users/h", not the variables of "x/y"."""
    word = _WORD_BEHIND.search(found.string[: found.start()])
    assert word is not None, found
    is_counted = len(word[0]) > 1 or any(character.isdigit() for character in found.string[: word.start()])
    return is_per(found, context) and (is_counted or len(found["per"]) > 1)


def is_rate(found: Match, context: Context) -> bool:
    """A unit of so much per so much, without a number: "speed in km/h"."""
    unit, per = found["unit"], found["per"]
    return f"{unit}/{per}" in _RATES or (len(unit) > 1 and unit in units.UNITS and unit in contexts.RATED)


_RATES = frozenset(["m/s", "m/s²", "m/s2", "g/L", "g/l", "g/mol", "J/mol"])


_ROADS = contexts.NUMBERED | contexts.LETTERED | {"exit", "sizes"}
_IN_MILLIONS = contexts.COUNTED - frozenset(["of", "lines", "records", "steps"])


_SIZE = re.compile(r"(?<![\w.])(?:\d{1,2}[RSW]\s?[-–/x]\s?\d{1,2}L|\d{1,2}W\s?[x/]\s?\d{1,2}L)\b")


def _is_letter(found: Match, context: Context) -> bool:
    """ "Route 9W", "2.5m views" and a size such as "38R-46L" or "32W x 30L"."""
    if found["unit"] == "m":
        return not found["per"] and _is_million(found.end(), context)
    is_size = any(size.start() <= found.start() < size.end() for size in _SIZE.finditer(found.string))
    return found["unit"].isupper() and (is_size or context.is_behind(found.start(), _ROADS))


def _is_million(end: int, context: Context) -> bool:
    """ "2.5m views", not "a 10m walk"."""
    return context.is_ahead(end, _IN_MILLIONS)


def is_unit(found: Match, context: Context) -> bool:
    unit, per, end = found["unit"], found["per"], found.end()
    if unit not in units.UNITS or (per == "gas" and unit[0] == "°"):
        return False
    is_pack = per is not None and len(per) > 2 and per.islower() and per.isalpha()  # "5 mg/tablet"
    if unit == "c":
        return context.is_ahead(end + found.string.startswith(".", end), contexts.INGREDIENTS)
    if per and not is_pack and f"{unit}/{per}" not in units.UNITS and not is_per(found, context):
        return False
    is_apart = found.string[found.start("unit") - 1].isspace()
    if not is_apart and len(unit) == 1 and _is_letter(found, context):
        return False
    if unit == "in":
        if found.string[end : end + 2].strip("-").isdecimal():
            return False  # "1-in-5"
        rest = found.string[end:].strip()
        is_closed = not context.ahead(end) and (not rest or rest[0] in ".,;:!?)")
        is_sized = context.is_ahead(end, contexts.MEASURED | contexts.DISPLAYS | {"x", "×", "by"})
        has_feet = bool(re.search(r"(?:ft|feet|foot|x|by|\bin\s?×)\s$", found.string[: found.start()]))
        return not is_apart or is_closed or is_sized or has_feet or found[0][-1] == "."
    if unit == "A" and _VOLTS.search(found.string[: found.start()]):
        return True
    if unit in ("A", "K", "N", "J", "T", "t", "d", "C", "F"):
        ahead = context.ahead(end)
        return is_apart and (not ahead or ahead in ("of", "at", "to", "and", "or", "for", "fuse", "current"))
    if unit in ("M", "B"):
        return False
    if unit in _NAMES_TOO:
        return not context.ahead(end)[:1].isalpha() or context.is_ahead(end, _NAMES_TOO[unit])
    if unit == "s":
        is_round = re.fullmatch("[1-9]0", found["number"]) is not None
        return not (is_round and is_decade(found, context, found["number"])) or context.is_ahead(
            end, contexts.TIMED
        )
    return not (unit == "m" and not is_apart and is_minutes(found, context))


_NAMES_TOO = {  # of a singer and universities, and of Australia
    "IU": contexts.DOSED,
    "AU": frozenset(["from", "away", "of", "or", "and", "to", "wide", "across"]),
}
_VOLTS = re.compile(r"\d\s?V(?:/|, ?| |=)$")  # before amperes: "12V/2A"


def is_beside_volts(found: Match, context: Context) -> bool:
    return _VOLTS.search(found.string[: found.end()]) is not None


def is_unit_alone(found: Match, context: Context) -> bool:
    """Before a slash and something else: "350°F/Gas 4"."""
    return found["unit"] in units.UNITS and found["unit"] not in {"in", *"AKNJTCFMBc"}


_AGAIN = re.compile(r"\s?[/(–-]\s?(?P<number>[−-]?\d{1,3})\s?°?(?P<unit>[CF])\b")
_BEFORE = re.compile(r"(?<![\w.,])(?P<number>[−-]?\d{1,3})\s?°?(?P<unit>[CF])\s?[/(–-]\s?$")
_SAID_ONCE = re.compile(rf"\d\s?(?:°\s?[CF]?|[CF]|[AaPp]\.?[Mm]\.?(?:\s(?:{contexts.ZONES}))?)$")


_PORTIONED = re.compile(r"\d\s?(?P<unit>mg|mcg|[µμ]g|g|kcal|kJ|kWh|[Ll]|IU|mmol|[Cc]al)$")


def is_share(found: Match, context: Context) -> bool:
    """So much of something in so much else: "250mg/5mL"."""
    portion = _PORTIONED.search(found.string[: found.start()])
    return portion is not None and portion["unit"] != found["per"]


def is_said_twice(found: Match, context: Context) -> bool:
    """A temperature or a time of day in two scales or zones: "72F/22C", "8pm ET/5pm PT"."""
    return _SAID_ONCE.search(found.string[: found.start()]) is not None


def is_temperature(found: Match, context: Context) -> bool:
    """ "a high of 72F" and "72F / 22C", not "Seat 22C"."""
    start, end = found.start(), found.end()
    words = [word.lower() for word in context.behind(start, 5)]
    if any(word in contexts.LETTERED or word.removesuffix("s") in contexts.LETTERED for word in words):
        return False
    other = _AGAIN.match(found.string, end) or _BEFORE.search(found.string[:start])
    if other is not None and other["unit"] != found["unit"]:
        celsius, fahrenheit = sorted((found, other), key=lambda one: one["unit"])
        return abs(_degrees(celsius) * 1.8 + 32 - _degrees(fahrenheit)) < 2
    return not contexts.TEMPERED.isdisjoint(words) or context.is_ahead(end, contexts.WEATHERED)


def _degrees(found: Match) -> float:
    return float(found["number"].replace("−", "-"))


def is_size(found: Match, context: Context) -> bool:
    """ "3 m × 4 m" and "5 in × 7 in", not "400 m × 5 in the rain"."""
    if not found["other"].endswith("in") or found.string[: found.start()].endswith("in"):
        return True
    return not context.ahead(found.end("other"))


_LONG_NUMBER = re.compile(
    r"\b10(?:\^\S+|[⁰¹²³⁴-⁹⁻]+)$|(?<![\w.])\d+(?:\.\d+)?[eE][+-]?\d+$|(?<![\d.,])[1-9]\d{0,2}(?: \d{3})+$"
)


def is_behind_long_number(found: Match, context: Context) -> bool:
    """A unit behind a power of ten, or digits in groups: "3e8 m/s", "1 000 000 km"."""
    before = f"{context.phrase.before} {context.text[: found.start()]}".rstrip()
    unit = found["unit"]
    if _LONG_NUMBER.search(before) is None or unit in ("in", "A", "C", "d", "t", "h", "c"):
        return False
    return unit in units.UNITS and (not found["per"] or is_per(found, context))


_KARATS = frozenset(["9", "10", "14", "18", "22", "24"])


def is_scale(found: Match, context: Context) -> bool:
    """Whether K, M or B behind a number is one, not the letter of a room or a name."""
    scale, number, end = found["scale"], found["number"], found.end()
    if scale in ("bn", "mn", "tn"):
        return True
    if scale == "m":
        return _is_million(end, context)
    if scale in ("k", "K") and number in _KARATS and context.is_ahead(end, contexts.JEWELRY):
        return False
    if scale == "K" and number in ("4", "8") and not context.is_ahead(end, contexts.COUNTABLE):
        return False
    if context.is_behind(found.start(), contexts.LETTERED):
        return False
    ahead = context.ahead(end).strip(vocabulary.EDGES + ".").lower()
    if "." in number or "," in number or ahead in contexts.COUNTABLE:
        return True
    if scale in ("k", "K") and len(number) <= 3:
        is_race = (
            ahead in contexts.RACES
            or (
                context.is_behind(found.start(), contexts.RAN, 3)
                and not context.is_behind(found.start(), contexts.RAN)
            )
            or (not ahead and context.is_behind(found.start(), contexts.ARTICLES))
        )
        return not is_race and number != "401" and ahead != "plan"
    return context.is_behind(found.start(), contexts.ABOUT) and not ahead[:1].isupper()


def is_pressure(found: Match, context: Context) -> bool:
    if found["unit"] is not None or context.is_behind(found.start(), contexts.PRESSURE, 2):
        return True
    is_usual = 80 <= int(found["above"]) <= 220 and 40 <= int(found["below"]) <= 130
    return is_usual and context.is_behind(found.start(), contexts.PRESSURE, 6)


_INCHES = re.compile(r"(?<=[0-9])\"")


def has_inches(found: Match, context: Context) -> bool:
    return not context.phrase.is_quoted and '"' not in _INCHES.sub("", found.string[: found.start()])


def is_measured_fraction(found: Match, context: Context) -> bool:
    if found["unit"] in ('"', "″"):
        return has_inches(found, context)
    if found["unit"] == "in":
        return not context.ahead(found.end())
    if found["unit"] == "c":
        end = found.end()
        return context.is_ahead(end + found.string.startswith(".", end), contexts.INGREDIENTS)
    return len(found["unit"]) > 1 and found["unit"] in units.UNITS


def is_part(found: Match, context: Context) -> bool:
    """ "Page 3/10" and "Step 1/5", not "Part 1/2 cup"."""
    if int(found["above"]) > int(found["below"]):
        return False
    ahead = context.ahead(found.end()).strip(vocabulary.EDGES + ".").lower()
    is_measured = ahead == "of" or ahead in units.UNITS or ahead in contexts.PARTED
    return not is_measured and context.is_behind(found.start(), contexts.PAGED)


def is_type(found: Match, context: Context) -> bool:
    """The size of letters, rather than so many pints."""
    return context.is_ahead(found.end(), contexts.TYPEFACES)


_COUNT = frozenset([*"23456789", *NUMBERS[2:], "ten", "several", "many", "no"])


_THE = frozenset(["the"])


def is_plural(found: Match, context: Context) -> bool:
    """ "two 5s", "3s and 4s" and "100s of people", rather than so many seconds."""
    start, end = found.start(), found.end()
    if found["digits"] in ("10", "100", "1000"):
        is_place = context.is_behind(start, _THE) and not context.is_ahead(end, contexts.TIMED)
        return context.is_ahead(end, contexts.OF) or is_place
    if len(found["digits"]) > 1:
        return False
    before = _LISTED_BEFORE.search(f"{context.phrase.before} {context.text[:start]}")
    assert before is not None, found
    is_listed = before["listed"] or _LISTED.match(f"{context.text[end:]} {context.phrase.following}")
    is_said = before["word"] == "" or before["word"].lower() in contexts.SEVERAL_BEHIND
    following = context.phrase.following.strip(".,!?").lower().removesuffix("s")
    is_timed = following in contexts.TIMED or following in contexts.PASSED
    is_told = contexts.SEVERAL_OF.search(before.string[: before.start("listed")]) is not None
    is_counted = is_told or context.is_behind(start, _COUNT)
    return is_counted or (bool(is_listed) and is_said and not is_timed)


_LISTED = re.compile(r"(?:,|,? (?:and|or)) [2-9]s(?!\w)")
_LISTED_BEFORE = re.compile(r"(?P<word>\S*)\s*(?P<listed>(?:(?<!\S)[2-9]s(?:,|,?\s+(?:and|or))\s+)*)$")


def is_improper_alone(found: Match, context: Context) -> bool:
    """ "5/2" as the whole text, which among others may be a day."""
    parts = int(found["above"]), int(found["below"])
    is_other = parts in contexts.NO_FRACTIONS or sum(parts) == 100 or (parts[0] == parts[1] > 1)
    return (
        (parts[0] >= parts[1] or parts[1] > 31)
        and not is_other
        and context.is_alone(found.start(), found.end())
    )


def is_points(found: Match, context: Context) -> bool:
    """So many that somebody scores, or a market falls by, rather than pints."""
    if context.is_ahead(found.end(), contexts.OF):
        return False
    if found.string[: found.start()].endswith(("±", "+")):
        return True
    amount = float(found["number"].replace(",", ""))
    return amount >= 20 or context.is_behind(found.start(), contexts.SCORED | contexts.CHANGED, 2)


def is_percentage_point(found: Match, context: Context) -> bool:
    """ "up 3.2pp", not pages; behind a currency it is per person."""
    if _CURRENCY.search(context.text):
        return False
    return "." in found["number"] or context.is_behind(found.start(), contexts.CHANGED | {"by"}, 2)


_CURRENCY = re.compile("[$€£¥₹]")
_PORTION = re.compile(r"(?<![\w.,/\"'])\d{1,3}$")
_OF_WEIGHT = re.compile(r"\d+(?:\.\d+)?\s?(?:k?g|mg|m[lL]|c?[lL]|oz|lbs?)\b")


def is_several(found: Match, context: Context) -> bool:
    """ "2 x 400g": so many of a weight or a volume, which has no sides."""
    before, ahead = found.string[: found.start()], found.string[found.end() :]
    return _PORTION.search(before) is not None and _OF_WEIGHT.match(ahead) is not None


_SCORER = re.compile(r"[(\[][^()\[\]]*[A-Z][\w.'’-]+,?(?: \d{1,3}(?:\+\d{1,2})?['’′],)* ?$")
_QUOTED = re.compile(r"(?<!\w)['‘]")
_RESULT = re.compile(
    r"\d[-–:]\d|\d\+\d\d?['’′]|\b(?:[Gg]oals?|[Ss]cor(?:ed?|ers?|ing)|[Bb]eat|[Dd]rew|vs?)\b"
)


def is_minute_of_match(found: Match, context: Context) -> bool:
    """ "2-0 (Saka 23', 90+2')": when somebody scored; no feet, and no end of a quotation."""
    before = f"{context.phrase.before}{context.text[: found.start()]}"
    if _QUOTED.search(before):
        return False
    if found["added"] is not None:
        return found["minutes"] in ("45", "90", "105", "120")
    is_told = int(found["minutes"]) <= 120 and _RESULT.search(before) is not None
    return is_told and _SCORER.search(before) is not None


_MEASURED = re.compile(r"(?<![\w.])\d+(?:\.\d+)?\s?(?P<unit>[A-Za-z]{1,4}[²³]?)$")
_MEASURE = re.compile(r"\d+(?:\.\d+)?\s?(?P<unit>[A-Za-z]{1,4}[²³]?)(?![\w-])")
_DIMENSIONS = (
    frozenset(["s", "sec", "secs", "min", "mins", "h", "hr", "hrs", "ms"]),
    frozenset(["mm", "cm", "m", "km"]),
    frozenset(["mcg", "mg", "g", "kg"]),
    frozenset(["ml", "mL", "cl", "dl", "l", "L"]),
    frozenset(["KB", "MB", "GB", "TB"]),
    frozenset(["Hz", "kHz", "MHz", "GHz"]),
    frozenset(["ft", "mi", "yd"]),
)


def is_from_measure(found: Match, context: Context) -> bool:
    """ "45 min–1 hr" and "10 km - 15 km", not "500 mg - 60 tablets"."""
    low = _MEASURED.search(found.string[: found.start()])
    high = _MEASURE.match(found.string, found.end())
    if low is None or high is None or low["unit"] not in units.UNITS or context.has_equals:
        return False
    if found[0].strip() != found[0] and "-" in found[0]:
        return low["unit"] == high["unit"]
    return any({low["unit"], high["unit"]} <= units_of for units_of in _DIMENSIONS)


def is_before_noon(found: Match, context: Context) -> bool:
    return context.is_ahead(found.end(), frozenset(["noon", "midnight"]))


def is_basis(found: Match, context: Context) -> bool:
    """Hundredths of a percent, rather than bits per second, of which there are more."""
    if found["unit"] == "bp":  # also pairs of bases
        is_changed = context.is_behind(found.start(), contexts.CHANGED | contexts.RAISED, 3)
        return is_changed or context.is_ahead(found.end(), contexts.RAISED)
    if context.is_ahead(found.end(), contexts.LINES):
        return False
    return float(found["number"].replace(",", "")) < 1000


def is_stone(found: Match, context: Context) -> bool:
    """ "She lost 1 st", not "She lost 1 st place"."""
    return context.is_behind(found.start(), contexts.WEIGHED) and not context.is_ahead(found.end(), _RANKED)


_RANKED = frozenset(["place", "prize", "round", "game", "match", "set", "half", "leg"])


def is_karat(found: Match, context: Context) -> bool:
    return context.is_ahead(found.end(), contexts.JEWELRY - _COLORS)


_COLORS = frozenset(["white", "rose", "yellow"])  # of which so many thousands may be too
_QUOTE_OPEN = re.compile(r"(?<!\w)['‘](?!.*[^\s'’]['’](?!\w))")
_OTHER_SIDE = re.compile(r"(?:\s?[x×]\s?\d+['′’])?")


def is_foot(found: Match, context: Context) -> bool:
    """ "a 10' ladder" and "4'x8' sheet"."""
    other = _OTHER_SIDE.match(found.string, found.end())
    if _QUOTE_OPEN.search(f"{context.phrase.before}{context.text[: found.start()]}"):
        return False  # "tap 'Lesson 2' panel"
    return other is not None and context.is_ahead(other.end(), contexts.SIZED)


def is_far(found: Match, context: Context) -> bool:
    """ "above 7,000'", with no quotation open."""
    before = f"{context.phrase.before} {context.text[: found.start()]}"
    return "," in found["number"] and _QUOTE_OPEN.search(before) is None


def is_scale_alone(found: Match, context: Context) -> bool:
    return not found["per"] or is_per(found, context)


_BRACKETED = re.compile(r"(?<!\w)\([A-Za-z]\)$")
_WORD = re.compile(r"(?:[A-Za-z]{4,}|(?![^AEIOUaeiou]{2}[^AEIOUaeiouy]$)[A-Za-z]{3})$")


def is_note(found: Match, context: Context) -> bool:
    """A note's number behind a word, or a letter in brackets behind one, neither a power nor a unit's."""
    before = found.string[: found.start()]
    word = _WORD.search(before)
    is_word = word is not None and word[0] not in units.UNITS and word[0] not in vocabulary.FUNCTIONS
    is_letter = len(context.phrase.previous) > 1 and context.phrase.previous.isalpha()
    return not context.has_equals and (is_word or (is_letter and _BRACKETED.search(before) is not None))


def is_factorial(found: Match, context: Context) -> bool:
    return found.end() < len(found.string) or context.phrase.following[:1] in tuple("=/×*+")


_TERM = re.compile(r"(?:\d+(?![ap]m)[a-z]{0,3}|[a-z])[²³⁴-⁹]?(?!\w)")


def is_power_ahead(found: Match, context: Context) -> bool:
    """ "a² - b²", not "x² - so called"."""
    return _TERM.match(found.string[found.end() :] or context.phrase.following) is not None


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
    before = f"{context.phrase.before} {context.text[: found.start()]}"
    is_chance = above == 1 and not 1900 < below < 2000 and below != 2001
    is_small = above < below > 31 and (is_chance or context.is_ahead(found.end(), contexts.CHANCES))
    is_small = is_small and not context.is_behind(found.start(), contexts.FILES | contexts.NAMED_BY_CODE, 2)
    is_factor = above > below and contexts.SCALED.search(before) is not None
    ahead = context.ahead(found.end())
    return is_improper or is_small or is_factor or ahead[:1] == "π" or ahead == "of"


def is_proper_in_formula(found: Match, context: Context) -> bool:
    return context.has_equals and int(found["above"]) < int(found["below"])


def is_ending_right(found: Match, context: Context) -> bool:
    """ "13 th", "22 nd": what an ordinal ends in, behind a blank; "5 st" is a weight."""
    spoken = ordinal(found["number"])
    return found["end"] == {"first": "st", "second": "nd", "third": "rd"}.get(
        re.split("[ -]", spoken)[-1], "th"
    )


def is_score(found: Match, context: Context) -> bool:
    """So many of five, ten or a hundred points; of others where a score is told."""
    if int(found["above"].partition(".")[0]) > int(found["below"]):
        return False
    ahead = context.ahead(found.end()).strip(vocabulary.EDGES + ".").lower()
    if ahead == "of" or ahead in units.UNITS or ahead in contexts.PARTED:
        return False
    last, verb, *_ = [*context.behind(found.start(), 2), "", ""]
    if last == "of" and verb.lower() in contexts.RATINGS:
        return True
    if found["below"] not in ("5", "10", "100"):
        return last.lower() in contexts.SCORED or last.lower() == "got"
    is_given = last in ("it", "a") and verb.lower() in contexts.GIVEN and not ahead
    is_scored = context.is_behind(found.start(), contexts.SCORED, 2)
    is_full = found["above"] == found["below"] == "10" and not verb + last and ahead in contexts.PRAISED
    is_told = ahead in contexts.SCORES and (last.lower(), ahead) != ("the", "mark")
    return "." in found["above"] or is_told or is_scored or is_given or is_full


def is_formula(found: Match, context: Context) -> bool:
    return context.has_equals


def is_asked(found: Match, context: Context) -> bool:
    """What remains, as in "What is 12 - 5?", rather than from one to the other."""
    return contexts.ASKED.search(context.phrase.before) is not None


def is_multiple(found: Match, context: Context) -> bool:
    """ "3x as fast", not the variable of "2x + 1"."""
    return not context.has_equals and _ALGEBRA.search(context.text) is None


_ALGEBRA = re.compile(r"[²³⁴-⁹^]|[\dx] [+−] ?\d*[a-z]?\b|x [-–] \d")


def is_quotient(found: Match, context: Context) -> bool:
    return context.has_equals and "==" not in found.string


def is_no_formula(found: Match, context: Context) -> bool:
    return not context.has_equals
