"""The forms of English that are not read as they are written, and how each is written."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from firstword.app.text.addresses import FILE
from firstword.app.text.english import conditions, contexts, numerals, units, vocabulary
from firstword.app.text.english.conditions import Condition

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant


@dataclass(frozen=True, slots=True)
class Rule:
    """A form, how it is written, and where it is meant; None: everywhere.

    needs: a character that whatever is so written has, which is looked for first, since that is quicker.
    """

    form: str
    pattern: re.Pattern[str]
    where: Condition | None = None
    needs: str = ""


_NEEDS = {
    **{"date.stamp": "T", "measure.pressure": "/", "measure.fraction": "/", "fraction.rare": "/"},
    **{"fraction.common": "/", "date.month_and_day": "/", "range.verse": ":", "range.ratio": ":"},
    **{"duration.clock": ":", "measure.latitude": "°", "serial.network": ".", "serial.version": "."},
    **{"money.comma": ",", "telephone.letters": "-", "serial.year": "-", "serial.model": "-"},
    **{"range.halves": "-", "formula.times": "x", "formula.by": "x", "electronic.handle": "@"},
    **{"formula.root": "√", "cardinal.hash": "#", "formula.function": "(", "serial.sharp": "#"},
}


def _rules(*rows: tuple[str, str] | tuple[str, str, Condition]) -> tuple[Rule, ...]:
    return tuple(
        Rule(row[0], re.compile(row[1], re.ASCII), row[2] if len(row) == 3 else None, _NEEDS.get(row[0], ""))
        for row in rows
    )


def _alternatives(words: Iterable[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)"
_NUMBER = f"(?P<number>{_AMOUNT})"
_SIGN = f"[{units.SIGNS}]"
_PREFIXED = _alternatives(units.PREFIXED)
_CODE = r"(?:US\$|[A-Z]{3,4}\b|Rs\b\.?|RM\b|kr\b|zł(?!\w)|Kč(?!\w))"
_SCALE = rf"(?P<scale>{_alternatives(vocabulary.SCALES)})(?![\w²³])"
# Any letters: whether they are a unit is looked up, which takes less time than so many branches.
_UNIT = (
    r"(?P<unit>N[·⋅]m|[lL]/100\s?km|(?:(?:sq|cu)\.?[ -]|fl\.? )?[A-Za-zµμ\u2126\u03a9]+[²³23]?"
    r"|°\s?[CF]\b|[°º][CF]?|[℃℉%‰])(?![\w°²³])"
)
_PER = r"(?:/(?P<per>[A-Za-zµμ]+[²³23]?)(?![\w/]))?"
_NOUN = r"(?P<noun>-(?:dollar|euro|pound|yen|rupee))?"
_MONTH = rf"(?P<month>{vocabulary.MONTH})"
_DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|ST|ND|RD|TH)?(?![\d:.%]\d|[\d:%]|,\d|\w|/)"
_LAST_DAY = r"(?:\s?[-–]\s?(?P<last>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%/]|\w))?"
_YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)(?![\d:]|,\d|\.\d)"
_HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"
_ZONE = rf"(?:\s(?P<zone>{contexts.ZONES})\b)?"
_WEEKDAY = rf"(?:{_alternatives(vocabulary.WEEKDAYS)})(?:(?:s|nes|rs|ur)?day)?"
_STATE = "|".join(contexts.STATES)
_STREET = (
    rf"(?P<street>(?:{_alternatives(contexts.STREETS)})\b\.?|(?:{_alternatives(contexts.STREET_WORDS)})\b)"
)
_COMPASS = r"(?:N\.?[EW]|S\.?[EW]|[NSEW])\b\.?"


DIGITS = _rules(
    (
        "telephone.number",
        r"(?<![\w.,$€£(])(?:(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ ./-])\d{3}[ .-]\d{4}|\d{3}-\d{4}"
        r"|0\d{2,4} \d{3,4} \d{3,4}|0\d(?: \d\d){4}|\d{10,15})(?:\sx(?P<extension>\d{1,5}))?"
        r"(?!\w|[.,]\d|-\d)",
    ),
    (
        "telephone.number",
        r"(?<![\w.,$€£(])\d{3}\.\d{4}(?!\w|[.,]\d|-\d)",
        conditions.behind(contexts.DIALED, 2),
    ),
    (
        "date.stamp",
        r"(?<!\w)(?P<year>\d{4})-(?P<first>\d\d)-(?P<second>\d\d)T(?P<hour>[01]\d|2[0-4]):(?P<minutes>[0-5]\d)"
        r"(?::(?P<seconds>[0-5]\d)(?:\.\d+)?)?(?P<zone>Z)?(?!\w)",
        conditions.is_date,
    ),
    (
        "time.military",
        r"(?<![\w.,:-])(?P<hour>[01]\d|2[0-4])(?P<minutes>[0-5]\d)(?:\s?(?P<unit>hrs\.?|h\b))?(?![\w.,:-])",
        conditions.is_military,
    ),
    (
        "serial.pixels",
        r"(?<!\w)(?P<wide>\d{3,4})\s?[x×]\s?(?P<high>\d{3,4})(?!\s?[x×]|\w|[.,]\d)",
        conditions.is_pixels,
    ),
    (
        "measure.pressure",
        r"(?<![\w/.,])(?P<above>\d{2,3})/(?P<below>\d{2,3})(?:\s?(?P<unit>mm\s?Hg))?(?![\w/])",
        conditions.is_pressure,
    ),
    (
        "measure.latitude",
        rf"(?<![\d.,:/]){_NUMBER}\s?°\s?(?:(?P<minutes>\d\d?)['′’]\s?)?(?P<compass>[NSEW])(?!\w)",
    ),
    (
        "date.day_first",
        rf"(?<![\w.,:/-])(?P<day>[12]\d|3[01]|0?[1-9])(?P<gap>-?){_MONTH}(?P=gap){_YEAR}(?![\w-])",
    ),
    ("serial.hexadecimal", r"(?<!\w)0x[0-9A-Fa-f]+\b"),
    ("serial.hexadecimal", r"(?<![\w:])(?=[\d:]*[A-F])[0-9A-F]{2}(?::[0-9A-F]{2})+(?![\w:])"),
    ("serial.lines", r"(?<!\w)(?P<digits>480|720|1080|1440|2160)(?P<letter>[pi])\b"),
    (
        "digits.zip",
        r"(?<![\w.,-])(?P<zip>\d{5}(?:-\d{4})?)(?![\w-])",
        conditions.behind(frozenset(["zip", "zipcode"]), 2),
    ),
    ("telephone.letters", r"(?<!\w)(?:1-)?[89]\d\d-(?P<name>[A-Z][A-Z-]{2,})\b"),
    (
        "date.iso",
        r"(?<![\d/-])(?P<year>\d{4})([-/.])(?P<first>\d\d?)\2(?P<second>\d\d?)(?![\d/-])",
        conditions.is_date,
    ),
    (
        "date.numeric",
        r"(?<![\d/.-])(?P<first>\d\d?)(?P<sign>[/.-])(?P<second>\d\d?)(?P=sign)(?P<year>\d{4}"
        r"|\d\d)(?![\d/.-]\d|\d|-)",
        lambda found, context: (
            conditions.is_date(found, context) and (found["sign"] != "-" or len(found["year"]) == 4)
        ),
    ),
    (
        "date.month_and_day",
        r"(?<![\d/.-])(?P<first>\d\d?)/(?P<second>\d\d?)(?![\d/]|[.,]\d)",
        conditions.is_month_and_day,
    ),
    ("serial.year", r"(?<![\d-])(?P<year>19\d\d|20\d\d)-(?P<digits>0\d+)(?![\d-])"),
    ("serial.groups", r"(?<![\d])\d+(?:-\d+){2,}(?![\d/])", conditions.is_no_formula),
    ("serial.groups", r"(?<![\d.,-])\d{1,4}-\d{3,7}(?![\d-]|[.,]\d)", conditions.is_filed),
    ("serial.groups", r"(?<![\d-])\d+-0\d+(?![\d:-])", lambda found, context: ":" not in found.string),
    ("serial.groups", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.,]\d|\d)"),
    (
        "cardinal.grouped",
        r"(?<![\d.,])(?P<number>[1-9]\d{0,2}(?: \d{3}){2,}|[1-9]\d{0,2} \d00)(?![\d.,]\d|\d| \d)",
    ),
    (
        "serial.groups",
        r"(?<![\d.,$-])\d{3,4}(?: \d{3,4}){1,3}(?![\d.,]\d|\w|%|/)",
        conditions.is_behind_code,
    ),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3,12})(?![\d.,]\d|\d|\w|%|/)", conditions.is_code),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3,12})(?![\d.,]\d|\d|\w|%|/)", conditions.is_named),
    ("digits.code", r"(?<![\d.,$-])(?P<digits>\d{3})(?![\d.,]\d|\d|\w|%|/|:)", conditions.is_dialed),
    (
        "date.day_first",
        rf"(?<![\d.,:/]){_DAY}{_LAST_DAY}\s+(?:of\s+)?{_MONTH}(?!\w)(?:,?\s+{_YEAR})?",
        conditions.is_month,
    ),
    (
        "address.street",
        rf"(?<![\d.,:/$-])(?P<house>\d{{1,5}})(?P<letter>[A-Z])? (?P<name>(?:{_COMPASS} )?"
        rf"(?:(?:[A-Z][\w.'’-]*|\d+(?:st|nd|rd|th)) ){{1,4}}?){_STREET}(?: (?P<compass>{_COMPASS}))?(?!\w)",
        conditions.is_address,
    ),
    (
        "duration.parts",
        r"(?<![\d.,:/$])(?:(?P<days>\d+)\s?(?:d|days?)[ ,]*(?=\d))?(?:(?P<hours>\d+)\s?(?:hrs?|h)[ ,]*)?"
        r"(?:(?P<minutes>\d+)\s?(?:mins?|m)(?![A-Za-z])[ ,]*|(?<=h)(?P<rest>\d\d)(?!\d))?"
        r"(?:(?P<seconds>\d+(?:\.\d+)?)\s?(?:secs?|s))?(?<=[a-z\d])(?<![\d]\d{3})(?![A-Za-z])",
        conditions.is_duration,
    ),
    ("serial.mixed", r"(?<![\w.,-])\d+(?!x\d)[a-z]+\d+[a-z][0-9a-z]*(?!\w)", conditions.is_mixed),
    ("duration.minutes", r"(?<![\d.,:/$])(?P<minutes>\d+)m\b(?![/²³])", conditions.is_minutes),
    (
        "duration.clock",
        r"(?<![\d.,:/])(?P<hours>\d\d?):(?P<minutes>[0-5]\d):(?P<seconds>[0-5]\d)(?![\d:]|\s?[AaPp]\.?[Mm])",
        conditions.is_elapsed,
    ),
    (
        "range.verse",
        r"(?<![\w.,:])(?P<chapter>\d{1,3}):(?P<verse>[1-9]\d{0,2})(?:[-–](?P<last>\d{1,3}))?(?![\d:])",
        conditions.is_verse,
    ),
    (
        "time.clock",
        rf"(?<![\d.,:/])(?P<hour>1[0-2]|0?[1-9])\.(?P<minutes>[0-5]\d){_HALF}{_ZONE}(?!\w)",
    ),
    (
        "time.hour",
        r"(?<![\d.,:/])(?P<hour>1[0-2]|0?[1-9]):00(?=\s?[-–—]\s?\d\d?(?::\d\d)?\s?[AaPp]\.?[Mm]\b)",
    ),
    (
        "time.clock",
        rf"(?<![\d.,:/])(?P<hour>[01]?\d"
        rf"|2[0-4]):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?{_HALF}?{_ZONE}(?![\d:])",
    ),
    ("time.hour", rf"(?<![\d.,:/])(?P<hour>1[0-2]|0?[1-9]){_HALF}{_ZONE}(?!\w)"),
    ("serial.network", r"(?<![\w.])(?P<digits>\d+(?:\.\d+){3,})(?!\d)(?::\d{2,5}\b)?"),
    ("serial.version", r"(?<![\w.])(?P<version>\d+(?:\.\d+){2})(?!\d)"),
    (
        "serial.version",
        r"(?<![\w.])(?P<version>\d+\.\d\d)(?!\d)",
        conditions.behind(
            frozenset(["version", "python", "release", "ubuntu", "node", "chapter", "section"])
        ),
    ),
    (
        "measure.feet_and_inches",
        r"(?P<feet>\d+)['′’] ?(?P<inches>\d+)(?: (?P<above>\d)/(?P<below>\d+))?(?:[\"″”]|'')?(?!\w)",
    ),
    ("measure.feet_and_inches", r"(?<![\w.,])(?P<feet>\d+)ft\s?(?P<inches>\d+)in(?!\w)"),
    (
        "measure.feet",
        r"(?P<number>\d+)['′’](?!\w)",
        lambda found, context: context.is_ahead(found.end(), contexts.SIZES),
    ),
    ("measure.inches", r"(?P<number>\d+(?:\.\d+)?)(?:″|\"(?!\w))", conditions.has_inches),
    ("measure.degrees", r"(?<![\w.])(?P<number>\d+\.\d+)(?P<unit>[CF])\b"),
    (
        "formula.scientific",
        r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)[eE](?P<power>[+-]?\d+)(?!\w)",
    ),
    (
        "fraction.score",
        r"(?<![\w/.,$€£])(?P<above>\d{1,2}(?:\.\d)?)/(?P<below>5|10|100)(?![\w/]|[.,]\d)",
        conditions.is_score,
    ),
    (
        "measure.fraction",
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3})\s)?(?P<above>\d{1,3})/(?P<below>\d{1,4})[\s-]?"
        r"(?P<unit>[A-Za-z]{1,4}|[\"″])(?![\w/])",
        conditions.is_measured_fraction,
    ),
    (
        "fraction.rare",
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3})\s)?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?![\w/]|[.,]\d|\s?=)",
        conditions.is_rare_fraction,
    ),
    (
        "fraction.common",
        r"(?<![\w/.,])(?P<whole>(?!))?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?![\d/]|[.,]\d)",
        conditions.is_proper_in_formula,
    ),
    (
        "fraction.common",
        r"(?<![\w/.,])(?:(?P<whole>\d{1,3})\s)?(?P<above>\d{1,3})/(?P<below>\d{1,4})(?:rds?|ths?|nds?)?(?![\d/=]|[.,]\d|\s?=)",
    ),
    (
        "date.decade",
        r"(?<![\w.'’$])(?P<digits>1[1-9]\d0|20\d0)['’]?s\b",
    ),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]?s\b", conditions.is_bare_decade),
    ("date.decade", r"(?<![\w.'’$])(?P<digits>[2-9]0)s(?=-(?:themed|styled?|inspired|era|born|ish|esque)\b)"),
    ("date.decade", r"(?<=\ds[-–])(?P<digits>[1-9]0)s\b"),
    ("cardinal.plural", r"(?<![\w.'’$])(?P<digits>[1-9]0)['’]s\b"),
    (
        "money.comma",
        rf"(?<![\w.,:/])(?P<whole>\d{{1,3}}),(?P<cents>\d\d)\s?(?P<sign>€|EUR\b){_PER}",
        conditions.is_money,
    ),
    (
        "money.behind",
        rf"(?<![\d.,:/]){_NUMBER}(?:\s?{_SCALE})?\s?(?P<sign>{_SIGN}|{_CODE}){_PER}",
        conditions.is_money,
    ),
    (
        "measure.amount",
        rf"(?<![\d.,:/]){_NUMBER}(?:\s?(?P<scale>hundred|thousand|million|billion|trillion)\s)?"
        rf"(?P<gap>[\s-]?){_UNIT}{_PER}(?:\.(?=\s(?:x|by)\s))?",
        conditions.is_unit,
    ),
    ("date.era", rf"(?<![\w,.])(?P<digits>\d{{1,4}}|\d{{1,3}}(?:,\d{{3}})+)\s(?P<era>{contexts.ERAS})(?!\w)"),
    ("range.halves", r"(?<![\w.,-])50-50(?![\w-])"),
    (
        "date.range",
        r"(?<![\w,.$-])(?P<year>1[1-9]\d\d|20\d\d)\s?[-–—]\s?(?P<last>1[1-9]\d\d|20\d\d|\d\d)(?![\d/:-]"
        r"|[.,]\d|\w)",
        lambda found, context: not context.has_equals,
    ),
    ("date.year", rf"(?<![\w,.])(?!1000){_YEAR}(?![\w%°]|-\d)", conditions.is_year),
    ("cardinal.letters", r"(?<![\w.])(?P<number>401)\(?(?P<letter>[kK])\b\)?"),
    ("cardinal.scaled", rf"(?<![A-Za-z]){_NUMBER}(?P<scale>[kKMBT])\b(?!-)", conditions.is_scale),
    ("ordinal.number", r"(?P<number>\d{1,3}(?:,\d{3})+|\d+)(?:[Ss][Tt]|[Nn][Dd]|[Rr][Dd]|[Tt][Hh])\b"),
    ("range.ratio", r"(?<![\w:])(?P<low>\d+):(?P<high>\d+)(?![\d:])"),
    (
        "serial.model",
        r"(?<![\w.,$:-])(?P<digits>\d{3})-(?P<variant>\d{1,3})(?![\w-])",
        conditions.behind(contexts.AIRCRAFT),
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3})(?![\d.,]\d|[\w%°/:'’-])",
        conditions.behind(contexts.AIRCRAFT | contexts.NUMBERED),
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>\d{3,4})(?![\d.,]\d|[\w%°/:'’-])",
        conditions.is_flight,
    ),
    (
        "cardinal.parts",
        r"(?<![\w.,$:-])(?P<digits>[1-5]\d\d)(?![\d.,]\d|[\w%°/:'’-])",
        conditions.is_failure,
    ),
    ("cardinal.number", r"(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?)"),
)
CURRENCIES = _rules(
    (
        "money.range",
        rf"(?P<sign>{_SIGN})\s?(?P<low>{_AMOUNT})(?:\s?(?P<low_scale>[kKMB])\b)?\s?[-–]\s?{_SIGN}?(?P<number>{_AMOUNT})"
        rf"(?:[\s-]?{_SCALE})?{_PER}",
        conditions.is_money,
    ),
    ("money.decade", rf"(?P<sign>{_SIGN})(?P<number>[1-9]0)s\b"),
    (
        "money.amount",
        rf"(?P<sign>{_SIGN})\s?(?P<number>{_AMOUNT}|\.\d+)(?P<gap>[\s-]?)(?:{_SCALE}){_NOUN}{_PER}",
        conditions.is_money,
    ),
    ("money.amount", rf"(?P<sign>{_SIGN})\s?(?P<number>{_AMOUNT}|\.\d+){_NOUN}{_PER}", conditions.is_money),
)
LETTERS = _rules(
    (
        "money.amount",
        rf"\b(?P<sign>{_PREFIXED})\s?(?P<number>{_AMOUNT}|\.\d+)(?:(?P<gap>[\s-]?)(?:{_SCALE}))?{_PER}",
        conditions.is_money,
    ),
    (
        "money.amount",
        rf"\b(?P<sign>{_CODE})\s?(?P<number>{_AMOUNT})(?:(?P<gap>[\s-]?)(?:{_SCALE}))?(?![\w-]){_PER}",
        conditions.is_money,
    ),
    ("date.month_first", rf"\b{_MONTH}\s+{_DAY}{_LAST_DAY}(?:,?\s+{_YEAR})?", conditions.is_month),
    ("date.month_and_year", rf"\b{_MONTH},?\s+{_YEAR}", conditions.is_month),
    ("date.era_first", r"\b(?P<era>AD|A\.D\.)\s(?P<digits>\d{1,4})(?!\w)"),
    ("serial.bank", r"\b(?P<letters>[A-Z]{2})(?P<digits>\d\d(?: [0-9]{4}){2,}(?: \d{1,4})?)(?!\w)"),
    (
        "address.state",
        rf"\b(?P<state>{_STATE})(?:\s(?P<zip>\d{{5}}(?:-\d{{4}})?))?(?![\w-])",
        conditions.is_state,
    ),
    ("serial.version", r"\b(?P<v>[vV])(?P<version>\d+(?:\.\d+)+)(?!\d)"),
    ("serial.groups_behind", r"\b(?P<letters>[A-Z]+)-(?P<year>19\d\d|20\d\d)-(?P<digits>\d+)(?![\d-])"),
    ("roman.number", r"\b(?P<roman>[IVXLCDM]+)(?![\w-])", numerals.is_counted),
    ("roman.number", r"\b(?P<roman>[ivxl]{2,6})(?![\w-])", numerals.is_counted),
    ("roman.year", r"\b(?P<roman>M{1,2}[CDXLIV]{2,})(?![\w-])", numerals.is_year),
    ("roman.range", r"\b(?P<roman>[IVXL]+)[-–](?P<last>[IVXL]+)(?![\w-])", numerals.is_counted),
    ("range.names", rf"\b(?P<first>{_WEEKDAY})\s?[-–]\s?(?P<last>{_WEEKDAY})(?!\w)"),
    ("range.names", rf"\b(?P<first>{vocabulary.MONTH})\s?[-–]\s?(?P<last>{vocabulary.MONTH})(?!\w)"),
    ("range.letters", r"\b(?P<first>[A-Z])–(?P<last>[A-Z])\b|\b(?:A-Z|a-z)\b"),
    (
        "measure.unit",
        r"(?<=[\d⁰¹²³⁴-⁹)] )(?P<unit>[A-Za-zµμ]+[²³]?)(?:/(?P<per>[A-Za-z]+[²³]?))?(?![\w/])",
        conditions.is_behind_power,
    ),
    ("initialism.dotted", r"\b(?:[A-Z]\.){2,}(?=[-–'’][A-Za-z])"),
    ("formula.function", r"\b(?P<name>[fgh])\((?P<of>[xyztn])\)(?!\w)"),
    ("abbreviation.route", r"\bRte\b\.?(?=\s\d)"),
    ("serial.war", r"\bWW(?P<number>[12])\b"),
    ("serial.sharp", r"\b(?P<letter>[A-G])#(?!\w)"),
    ("serial.road", r"\b(?P<letters>US|I|SR|CR)-(?P<digits>\d{1,3})\b"),
    ("serial.road", r"\b(?P<letters>A)(?P<digits>3\d0)(?=neo\b|\b)"),
    ("roman.century", r"\b(?P<roman>[IVXLCDM]+)\b", numerals.is_century),
    ("roman.ordinal", r"\b(?P<roman>[IVX]{1,7})\b", numerals.is_reign),
    (
        "initialism.letters",
        r"\b(?:US|IT|WHO|AD|BC|EST|PST|ETA|CET|AM|PM|OR|ID)(?![\w’'])",
        conditions.is_initialism,
    ),
)
OTHERS = _rules(
    (
        "telephone.number",
        r"(?<![\w.,$€£])(?:\+\d[\d .()-]{6,20}\d|\(\d{3}\) ?\d{3}[ .-]\d{4}"
        r"|\(0\d{0,4}\)(?: |(?<=\(0\))\d{2,4} )\d{3,4} \d{3,4})(?:\sx(?P<extension>\d{1,5}))?"
        r"(?!\w|[.,]\d|-\d)",
    ),
    ("roman.sign", r"(?P<roman>[Ⅰ-ⅿ]+)"),
    ("cardinal.sign", r"(?P<number>[①-⑳❶-❿])"),
    ("formula.power", r"(?<=[\w)])\^\(?(?P<power>[-−]?\w{1,9})\)?"),
    ("formula.power", r"(?<=[\w)])(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)"),
    ("formula.sign", r"(?<=[\w)])\s?(?P<sign>=|\+|÷|×)\s?(?=[\w(√-])"),
    ("formula.minus", r"(?<=[a-z])\s?[-−–]\s?(?=[\d(])", conditions.is_formula),
    ("formula.minus", r"(?<=[\d)])\s?[-−–]\s?(?=[\d(])", conditions.is_formula),
    ("formula.sign", r"(?<=[\d)])\s?(?P<sign>\*)\s?(?=[\d(])"),
    ("formula.sign", r"(?<=[\d)])(?P<sign>/)(?=[\d(])", conditions.is_formula),
    ("formula.sign", r"(?<=[\d)])\s(?P<sign>/)\s(?=[\d(])"),
    ("formula.times", r"(?<=\d)\sx\s(?=\d)", conditions.is_formula),
    ("formula.by", r"(?<=[\w\"'.])\s(?P<sign>x)\s(?=\d)"),
    ("formula.compare", r"(?P<sign>[<>≤≥≠≈])\s?(?=[\d.])"),
    (
        "range.to",
        r"(?:(?<=[\d%°])|(?<=[\w])(?<=\d[a-zA-Z])|(?<=[\d\s][apAP][mM])|(?<=\d[snrt][tdh])"
        r"|(?<=[ap]\.m\.))\s?[-–—]\s?(?=[$€£¥₹]?\d)",
    ),
    ("range.to", rf"(?<=\w)\s?[-–]\s?(?={vocabulary.MONTH}\s\d)", conditions.is_from_month),
    ("range.to", r"(?<=\d)\s?[~～]\s?(?=\d)"),
    ("range.to", r"(?<=\d[€£$%])\s?[-–—]\s?(?=\d)"),
    ("cardinal.minus", r"(?<![\w)])[-−](?=[\d$€£¥₹])"),
    ("cardinal.comma", r"(?<=\d)\s[-–—]+|(?<=[A-Za-z])\s(?:--|—)(?=\s|$)"),
    ("cardinal.hash", r"#\s?(?=\d)"),
    ("cardinal.about", r"(?<!\w)[~≈](?=\d)"),
    ("date.decade", r"['’](?P<digits>[1-9]0)s\b"),
    ("date.short_year", r"(?<!\w)['’](?P<digits>\d\d)(?!\w)"),
    ("cardinal.number", r"(?P<number>\.\d+)"),
    ("electronic.path", r"(?<![\w/.:<)])(?:~(?=/))?(?:/[A-Za-z](?:[\w.-]*\w)?)+/?", conditions.is_path),
    (
        "electronic.dot",
        r"(?<![\w.])\.(?=(?:env|git(?:ignore|hub)|bashrc|zshrc|vimrc|dockerignore|NET"
        rf"|(?!(?:go|swift|bat|lock|conf)\b(?! files?\b)){FILE})\b)",
    ),
    ("electronic.handle", r"(?<!\w)@(?P<host>[A-Za-z_](?:[\w.]*\w)?)(?![\w\u00c0-\uffff])"),
    ("formula.root", r"√\s?(?=[\d(])"),
)
AFTER_DIGIT = _rules(
    ("formula.times", r"(?<=\d)x(?=\d)", conditions.is_formula),
    ("formula.by", r"(?<=\d)x(?=\d)"),
    ("formula.multiple", r"(?<=\d)x\b", lambda found, context: not context.has_equals),
    ("cardinal.per", r"(?<=[A-Z]\$)/(?P<per>[a-z]{3,})(?![\w/])"),
    ("cardinal.per", r"(?<=[a-z])/(?P<per>[A-Za-zµμ]+[²³23]?)(?![\w/])", conditions.is_per),
)
_CODES = _rules(
    # A letter code and its number: "A4", "COVID-19", "BA2490", "c325b".
    (
        "serial.inner",
        r"(?:(?<=[a-z])|(?<=[A-Z])(?<![RG]TX)(?<!RX)(?=\d{4}|\d{3}[A-Z]))(?<!\dx)(?P<digits>\d{3,})"
        r"(?=(?!s\b|[KMGT]i?B\b)[A-Za-z])",
    ),
    ("serial.inner", r"(?<=[A-Z])(?P<digits>\d{3,})(?!\w)", conditions.is_plate),
    (
        "range.to",
        r"(?:(?<=\d [VAWCFK])|(?<=\d[VAWCFK]))\s?[-–—]\s?(?=\d+\s?[VAWCFK]\b)",
    ),
    ("serial.craft", r"(?<![A-Za-z][A-Za-z])(?<=[A-Z])-?(?P<digits>[1-9]\d\d)(?![.,]?\d|[\w-])"),
    ("serial.plural", r"(?<=[A-Z])-(?P<digits>\d{2,3})s\b"),
    ("serial.code", r"(?<=[A-Za-z])(?P<digits>\d+)(?![.,]?\d)"),
    ("serial.code", r"(?<=[A-Z])-(?P<digits>\d+)(?![.,]?\d|s\b)"),
)
DIGITS_OF_CODE = (*_CODES, *DIGITS)
HYPHENS_OF_CODE = (*_CODES, *OTHERS)
SLASHES = (*AFTER_DIGIT, *OTHERS)
BLANKS = tuple(rule for rule in OTHERS if "\\s" in rule.pattern.pattern)  # what may begin with a blank
