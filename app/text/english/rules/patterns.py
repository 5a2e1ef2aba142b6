"""What rules of English need in a text, and the patterns that several of them are made of."""

import re

from firstword.app.text.english import contexts, units, vocabulary
from firstword.app.text.english.conditions.condition import Condition
from firstword.app.text.english.context import Context
from firstword.app.text.rules import Rule, Rules, alternatives

# ruff: noqa: RUF001  typographic dashes and signs are meant


_FORMS_THAT_NEED = {
    " ": (
        *("abbreviation.number", "abbreviation.book", "abbreviation.floor", "abbreviation.month"),
        *("abbreviation.route", "address.street", "cardinal.scaled_apart", "date.era", "date.era_first"),
        *("date.month_and_year", "date.month_first", "measure.stone"),
        *("money.fraction", "serial.bank"),
    ),
    "-": (
        *("cardinal.always", "date.joined_day_first", "date.joined_month_first", "date.joined_short_year"),
        *(
            "abbreviation.party",
            "date.season",
            "date.year_and_month",
            "digits.long_zip",
            "formula.ion",
            "range.halves",
        ),
        *("serial.groups_behind", "serial.model", "serial.record", "serial.year"),
        *("telephone.letters", "telephone.toll_free"),
    ),
    "-–": (
        "range.circa",
        "range.letters",
        "range.names",
        "range.workdays",
        "roman.range",
        "serial.hyphen",
        "serial.tally",
    ),
    "-–—": ("date.range", "money.range", "time.short_hour"),
    "-–—~～": ("range.to",),
    "-–—/": ("cardinal.comma",),
    "-–−": ("cardinal.minus", "formula.grade", "formula.minus"),
    " -": ("serial.groups",),
    "-./": ("date.iso", "date.numeric"),
    ":": (
        *("date.stamp", "duration.clock", "duration.hours", "range.ratio", "range.verse", "serial.standard"),
        *("time.offset", "time.on_hour"),
    ),
    ":x": ("serial.hexadecimal",),
    ".:": ("time.clock",),
    "/": (
        *("cardinal.all_year", "cardinal.per", "date.days", "date.month_and_day", "date.month_of_year"),
        *("duration.fraction", "electronic.community", "electronic.path", "fraction.common"),
        *("fraction.part", "fraction.parts", "fraction.rare", "fraction.score", "measure.fraction"),
        *(
            "measure.per",
            "measure.pressure",
            "measure.rate",
            "range.pair",
            "range.weekdays",
            "range.wickets",
            "time.central",
        ),
    ),
    "0": ("formula.chemical", "formula.logarithm", "money.amount", "serial.road", "serial.war"),
    ".": (
        *("abbreviation.counted", "electronic.dot", "initialism.dotted", "serial.network", "serial.series"),
        "serial.version",
    ),
    "'’": ("date.month_and_short_year", "date.short_year"),
    "'’′": ("duration.match", "measure.feet", "measure.foot"),
    "'′’f": ("measure.feet_and_inches",),
    "\"'″": ("measure.inches",),
    '":”″': ("duration.pace",),
    "(": ("formula.call", "formula.function"),
    "°": ("measure.latitude",),
    " °": ("measure.unit",),
    "*+/=×÷": ("formula.sign",),
    "x×": ("formula.by", "serial.pixels"),
    "x": ("formula.multiple", "formula.times"),
    "<>": ("formula.limit",),
    "<>≈≠≤≥": ("formula.compare",),
    "~≈": ("cardinal.about",),
    "+": ("electronic.keys",),
    "+-⁺⁻": ("formula.charge",),
    "!": ("formula.factorial",),
    "#": ("cardinal.hash", "serial.sharp"),
    "@": ("electronic.handle",),
    "√": ("formula.root",),
    "△": ("formula.triangle",),
    "$€£": ("money.for",),
    "€": ("money.grouped",),
    ",": ("cardinal.european", "money.comma"),
    "s": (
        "cardinal.plural",
        "cardinal.team",
        "date.decade",
        "money.decade",
        "money.many",
        "serial.models",
        "serial.plural",
    ),
    "p": ("measure.percentage", "measure.points", "measure.type"),
    "ip": ("serial.lines",),
    "m": ("duration.minutes",),
    "y": ("duration.age", "duration.aged"),
    "owdy": ("duration.ago",),
    "Kk": ("cardinal.letters", "measure.karat"),
    "kKmMbBTn": ("cardinal.scaled",),
    "CF": ("measure.degrees",),
    "Ee": ("formula.scientific",),
    "W": ("date.week",),
    "q": ("duration.every",),
    "c": ("money.cents",),
    "cs": ("serial.letter",),
    "tdh": ("roman.raised",),
    "IV": ("roman.lettered",),
    "IVXLCDM": ("roman.century", "roman.year"),
    "IVXLCDMivxl": ("roman.number", "roman.ordinal"),
}
"""By characters of which whatever is so written has one, "0" for any digit."""
_NEEDS = {form: needs for needs, forms in _FORMS_THAT_NEED.items() for form in forms}


def compile_rules(*rows: tuple[str, str] | tuple[str, str, Condition]) -> Rules[Context]:
    return Rules(
        *(
            Rule(form, re.compile(pattern, re.ASCII), where[0] if where else None, _NEEDS.get(form, ""))
            for form, pattern, *where in rows
        )
    )


AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d\d)+,\d{3}|\d+)(?:\.\d+)?(?!\d)"
NUMBER = f"(?P<number>{AMOUNT})"
SIGN = f"[{units.SIGNS}]"
PREFIXED = alternatives(units.PREFIXED)
CODE = rf"(?:US\$|[A-Z]{{3,4}}\b|(?:{'|'.join(units.SMALL_CODES)})\b|Rs\b\.?|RM\b|kr\b|zł(?!\w)|Kč(?!\w))"
SCALE = rf"(?P<scale>{alternatives(vocabulary.SCALES)})(?![\w²³])"
# Any letters: whether they are a unit is looked up, which takes less time than so many branches.
UNIT = (
    r"(?P<unit>N[·⋅]m|ft-lbs?|lb-ft|[lL]/100\s?km|(?:(?:sq|cu)\.?[ -]|fl\.? )?[A-Za-zµμ\u2126\u03a9]+[²³23]?"
    r"|°\s?[CF]\b|[°º][CF]?|[℃℉%‰★⭐])(?![\w°²³])"
)
PER = r"(?:\.?/(?P<per>(?:(?:sq|cu)\.?[ -])?[A-Za-zµμ]+[²³23]?(?:/[A-Za-z]+)?)(?![\w/]))?"
_PERIOD = alternatives(units.PERIODS)
PER_PRICE = (
    r"(?:(?:/|(?<=\d)(?=pp\b))"
    rf"(?P<per>(?:{alternatives({*units.PERIODS, *units.UNIT_WORDS, *units.PRICED})})/[A-Za-z]+"
    rf"|\d{{1,4}}\s?(?:k?g|m?[lL]|oz|lbs?|km|mi|min|hrs?)|[A-Za-z]+/(?:{_PERIOD})"
    r"|(?:(?:sq|cu|fl)\.?[ -])?[A-Za-zµμ]+[²³23]?)(?![\w/])(?:\.(?=\s\+))?)?"
)
NOUN = r"(?P<noun>-(?:dollar|euro|pound|yen|rupee))?"
MIXED = r"(?:\s|-(?=(?:1/2|[12]/3|[13]/4|[1357]/8|\d\d?/(?:16|32))(?![\d/])))"
"""Between a whole number and a fraction: "1 3/4", "1-3/4"."""
MONTH = rf"(?P<month>{vocabulary.MONTH})"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|ST|ND|RD|TH)?(?![\d:.%]\d|[\d:%]|,\d|\w|/)"
LAST_DAY = r"(?:\s?[-–]\s?(?P<last>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%/]|\w))?"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d|2100)(?![\d:]|,\d|\.\d)"
HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?|(?<=:\d\d[ap])\b))"
ZONE = rf"(?:\s(?P<zone>{contexts.ZONES}|{contexts.SMALL_ZONES})\b)?"
WEEKDAY = rf"(?:{alternatives(vocabulary.WEEKDAYS)})(?:(?:s|nes|rs|ur)?day)?"
STATE = "|".join(contexts.STATES)
PLACES = alternatives({*vocabulary.PLACES, *vocabulary.PLACES_OF_MEMBERS, *contexts.STATES})
STREET = rf"(?P<street>(?:{alternatives(contexts.STREETS)})\b\.?|(?:{alternatives(contexts.STREET_WORDS)})\b)"
COMPASS = r"(?:N\.?[EW]|S\.?[EW]|[NSEW])\b\.?"
