"""Forms that begin with a letter; the first that fits, in this order, is taken."""

from firstword.app.text.english import contexts, numerals, vocabulary
from firstword.app.text.english.conditions import amounts, codes, dates, money, names
from firstword.app.text.english.conditions.condition import behind
from firstword.app.text.english.rules.patterns import (
    AMOUNT,
    CODE,
    DAY,
    LAST_DAY,
    MONTH,
    PER_PRICE,
    PLACES,
    PREFIXED,
    SCALE,
    STATE,
    WEEKDAY,
    YEAR,
    compile_rules,
)

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant

LETTERS = compile_rules(
    (
        "money.amount",
        rf"\b(?P<sign>{PREFIXED})\s?(?P<number>{AMOUNT}|\.\d+)(?:(?P<gap>[\s-]?)(?:{SCALE}))?{PER_PRICE}",
        money.is_money,
    ),
    (
        "money.amount",
        rf"\b(?P<sign>{CODE})\s?(?P<number>{AMOUNT})(?:(?P<gap>[\s-]?)(?:{SCALE}))?(?![\w-]){PER_PRICE}",
        money.is_money,
    ),
    (
        "money.amount",
        rf"\b(?P<sign>USD|EUR|GBP|JPY|AUD|CHF|INR|CNY|RMB|HKD)(?=\d)(?P<number>{AMOUNT})"
        rf"(?:(?P<gap>[\s-]?)(?:{SCALE}))?(?![\w-]){PER_PRICE}",
        money.is_money,
    ),
    (
        "date.joined_short_year",
        rf"\b(?=[A-Z][a-z][a-z]-\d\d\b){MONTH}-(?P<digits>[0-3]\d)(?![\w-])",
    ),
    ("abbreviation.number", r"(?<=\d )[Nn]o\.(?= \d)"),
    ("date.month_first", rf"\b{MONTH}\s+{DAY}{LAST_DAY}(?:,?\s+{YEAR})?", dates.is_month),
    ("abbreviation.month", rf"\b{MONTH}(?<=\.)(?=\s\d)"),
    ("date.joined_month_first", rf"\b{MONTH}-(?P<day>[12]\d|3[01]|0?[1-9])-{YEAR}(?![\w-])"),
    ("date.month_and_year", rf"\b{MONTH},?\s+{YEAR}", dates.is_month),
    ("date.month_and_short_year", rf"\b(?=[A-Za-z]+\.?\s?['’]\d){MONTH}\s?['’](?P<digits>\d\d)(?!\w)"),
    ("date.era_first", r"\b(?P<era>AD|A\.D\.)\s(?P<digits>\d{1,4})(?!\w)"),
    ("serial.bank", r"\b(?P<letters>[A-Z]{2})(?P<digits>\d\d(?: [0-9]{4}){2,}(?: \d{1,4})?)(?!\w)"),
    (
        "address.state",
        rf"\b(?P<state>{STATE})(?:\s(?P<zip>\d{{5}}(?:-\d{{4}})?))?(?![\w-])",
        names.is_state,
    ),
    ("serial.version", r"\b(?P<v>[vV])(?P<version>\d+(?:\.\d+)+)(?!\d)"),
    ("serial.groups_behind", r"\b(?P<letters>[A-Z]+)-(?P<year>19\d\d|20\d\d)-(?P<digits>\d+)(?![\d-])"),
    ("roman.number", r"\b(?P<roman>[IVXLCDM]+)(?!\w|-(?![A-Z]\b))", numerals.is_counted),
    ("roman.lettered", r"\b(?P<roman>I{1,3}|IV)(?P<letter>[A-C])(?![\w-])", behind(contexts.STAGED)),
    ("roman.number", r"\b(?P<roman>[ivxl]{2,6})(?![\w-])", numerals.is_counted),
    ("roman.number", r"(?:(?<=\d\()|(?<=\)\())(?P<roman>[ivx]{2,6})(?=\))", numerals.is_any),
    ("roman.year", r"\b(?P<roman>M{1,2}[MCDXLIV]{2,})(?![\w-])", numerals.is_year),
    ("roman.range", r"\b(?P<roman>[IVXL]+)[-–](?P<last>[IVXL]+)(?![\w-])", numerals.is_counted),
    ("range.names", rf"\b(?P<first>{WEEKDAY})\.?\s?[-–]\s?(?P<last>{WEEKDAY})(?!\w)"),
    ("range.names", rf"\b(?P<first>{vocabulary.MONTH})\s?[-–]\s?(?P<last>{vocabulary.MONTH})(?!\w)"),
    ("range.pair", rf"\b(?P<first>{vocabulary.MONTH})/(?P<last>{vocabulary.MONTH})(?!\w)"),
    ("duration.every", r"\bq\.?\s?(?P<number>\d{1,2})(?:-(?P<last>\d{1,2}))?\s?h(?:rs?)?\b"),
    (
        "electronic.keys",
        r"\b(?:Ctrl|Control|Cmd|Command|Alt|Option|Shift|Win|Fn)\+(?:[A-Z][a-z]+\+)*(?:[A-Z][A-Za-z]*\d{0,2}|\d)(?![\w+-])",
    ),
    (
        "abbreviation.party",
        rf"(?:(?<=\()|(?<=^))(?P<party>[DRI])-(?P<place>{PLACES})(?=[),])",
        names.is_of_party,
    ),
    ("formula.by", r"(?<=\d[\"″'′’])x(?=\d)"),
    ("range.weekdays", r"\b(?:M/W/F|Tu?/Th)\b"),
    ("range.workdays", r"\b(?P<first>M|Tu?|W|Th)[-–](?P<last>F|Th|Sa|Su)\b", dates.is_workdays),
    ("range.letters", r"\b(?P<first>[A-Z])–(?P<last>[A-Z])\b|\b(?:A-Z|a-z)\b"),
    (
        "measure.unit",
        r"(?<=[\d⁰¹²³⁴-⁹)] )(?P<unit>[A-Za-zµμ]+[²³]?)(?:/(?P<per>[A-Za-z]+[²³]?))?(?![\w/])",
        amounts.is_behind_long_number,
    ),
    ("initialism.dotted", r"\b(?:[A-Z]\.){2,}(?=[-–'’][A-Za-z]|\s|$)"),
    ("formula.logarithm", r"\blog(?P<base>\d{1,3})(?=\s?[\w(]|$)"),
    ("formula.call", rf"(?<![\w.])(?P<name>{'|'.join(vocabulary.FUNCTIONS)})(?=\()"),
    ("formula.chemical", r"\b(?=[A-Za-z]*\d)(?:[A-Z][a-z]?\d{0,3}){2,12}(?![\w-])", codes.is_chemical),
    ("formula.function", r"\b(?P<name>[fgh])\((?P<of>[xyztn]|\d{1,3})\)(?!\w)"),
    ("abbreviation.book", r"(?<=\d )(?P<book>Sam|Tim|Pet)\.(?=\s\d{1,3}:\d)"),
    (
        "abbreviation.counted",
        r"(?<![\w.])(?:[Nn]os?|[Ff]igs?|[Vv]ol|[Cc]h|[Ss]ec|pp?|[Ee]q|[Ee]p|[Aa]rt)\.(?=\d)",
    ),
    (
        "measure.rate",
        r"\b(?P<unit>[A-Za-zµμ]{1,4})/(?P<per>h|hr|s|sec|min|s²|s2|m²|m³|m2|m3|cm²|cm³|cm2|cm3|L|l|dL|dl|mL|ml|kg|g"
        r"|day|d|yr|gal|mol|ha)(?![\w/²³])",
        amounts.is_rate,
    ),
    ("abbreviation.floor", r"(?<=\d(?:st|nd|rd|th) )[Ff]l\b(?!\.?\s?oz)\.?"),
    ("abbreviation.route", r"\b(?P<road>Rte|Rt|Hwy)\b\.?(?=\s\d)"),
    ("electronic.community", r"(?<![\w/])(?P<at>[ru])/(?=(?P<host>[A-Za-z]\w{3,}))", codes.is_community),
    ("serial.war", r"\bWW(?P<number>[12])\b"),
    ("serial.sharp", r"\b(?P<letter>[A-G])#(?!\w)"),
    ("serial.road", r"\b(?P<letters>US|I|SR|CR)-(?P<digits>\d{1,3})\b"),
    ("serial.series", r"\b(?P<letter>[A-Z])\.(?P<digits>\d{3})(?![.,]?\d|\w)"),
    ("abbreviation.hours", r"(?<=\d:\d\d\s)hrs\b(?:\.(?= [a-z]))?"),
    ("address.compass", r"\b(?P<compass>[NS][EW]?|[EW])(?!\w|\.\w|['’&/-])", names.is_wind),
    ("address.compass", r"\b(?P<compass>[NSEW])(?:\.$|(?=/[A-Z]|[,;:)]?$))", names.is_way),
    ("serial.road", r"\b(?P<letters>A)(?P<digits>3\d0)(?=neo\b|\b)"),
    ("roman.raised", r"\b(?P<roman>[IVX]{2,8})(?:st|nd|rd|th)\b", numerals.is_any),
    ("roman.century", r"\b(?P<roman>[IVXLCDM]+)\b", numerals.is_century),
    ("roman.ordinal", r"\b(?P<roman>[IVX]{1,7})\b", numerals.is_reign),
    ("roman.ordinal", r"\b(?P<roman>[ivx]{2,7})(?![\w-])", numerals.is_small_reign),
    (
        "initialism.letters",
        r"\b(?:US|IT|WHO|AD|BC|EST|PST|ETA|CET|AM|PM|OR|ID)(?![\w’'])",
        names.is_initialism,
    ),
)
