"""Write the numbers of an English phrase in words: amounts, measures, dates, times, telephone numbers."""

import re
from collections.abc import Callable

from firstword.app.text import english_vocabulary as vocabulary

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    *DIGITS,
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES_IN_WORDS = (
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
    (1000, "thousand"),
    (100, "hundred"),
)
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
MAX_DIGITS = 15  # of a number that is spoken as one; longer ones are read digit by digit


def by_digits(digits: str) -> str:
    return " ".join(DIGITS[int(digit)] for digit in digits)


def set_apart(found: re.Match[str], spoken: str) -> str:
    """What a number is spoken as, with blanks between it and the letters and digits it touches."""
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return f"{' ' if before.isalnum() else ''}{spoken}{' ' if after.isalnum() else ''}"


def cardinal(digits: str) -> str:
    """Digits with or without thousands separators; those that are too many for a number, or begin with a
    zero, one by one.
    """
    digits = digits.replace(",", "")
    if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return by_digits(digits)
    head, tail = _in_words(int(digits))
    return f"{head} and {tail}" if head and tail else head or tail


def number(digits: str) -> str:
    """As `cardinal`, also with a decimal point."""
    whole, point, decimals = digits.partition(".")
    spoken = cardinal(whole) if whole else ""
    return f"{spoken} point {by_digits(decimals)}".lstrip() if point else spoken


def ordinal(digits: str) -> str:
    digits = digits.replace(",", "")
    if len(digits) > MAX_DIGITS:
        return f"{by_digits(digits)}th"
    head, tail = _in_words(int(digits))
    *before, last = " ".join(filter(None, (head, tail))).split(" ")
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = f"{last.removesuffix('y')}ieth" if last.endswith("y") else f"{last}th"
    return " ".join([*before, last])


def year(digits: str) -> str:
    """Four digits: "nineteen oh five", "two thousand four", "twenty twenty four"."""
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return cardinal(digits).replace(" and ", " ")
    if rest == 0:
        return f"{cardinal(str(century))} hundred"
    end = f"oh {DIGITS[rest]}" if rest < 10 else cardinal(str(rest))
    return f"{cardinal(str(century))} {end}"


def pairs(digits: str) -> str:
    """A code such as a flight's: two digits at a time where that comes out even, else one by one."""
    is_even = len(digits) == 4 and "0" not in digits[::2]
    if len(digits) <= 3 and digits[0] != "0":
        return cardinal(digits)
    return year(digits) if is_even else by_digits(digits)


def _in_words(value: int) -> tuple[str, str]:
    """Return the words up to the hundreds, and those of the last two digits; either may be ""."""
    groups = []
    for scale, name in _SCALES_IN_WORDS:
        count, value = divmod(value, scale)
        if count:
            hundreds, rest = _in_words(count)
            groups.append(" ".join(filter(None, (hundreds, rest, name))))
    if value or not groups:
        tens = f"{_TENS[value // 10]} {DIGITS[value % 10]}" if value % 10 else _TENS[value // 10]
        return " ".join(groups), _TEENS[value] if value < 20 else tens
    return " ".join(groups), ""


Match = re.Match[str]
SIGNS = "$€£¥￥₹"
UNITS = "|".join(re.escape(unit) for unit in sorted(vocabulary.UNITS, key=len, reverse=True))
SCALES = "|".join(sorted(vocabulary.SCALES, key=len, reverse=True))

_MONEY = {  # one, several, one hundredth, several of them
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "￥": ("yuan", "yuan", "", ""),
    "₹": ("rupee", "rupees", "paisa", "paise"),
}
_LANDS = {"US": "US ", "A": "Australian ", "C": "Canadian ", "HK": "Hong Kong ", "NZ": "New Zealand "}
_PARTS = {"2": ("half", "halves"), "4": ("quarter", "quarters")}
MAX_DENOMINATOR = 10
COMMON_DENOMINATORS = frozenset({"12", "16", "20", "32", "64", "100", "1000"})


def money(found: Match, previous: str) -> str:
    groups = found.groupdict()
    amount, sign, scale = found["number"], found["sign"], groups.get("scale")
    one, several, hundredth, hundredths = _MONEY[vocabulary.CURRENCY_CODES.get(sign, sign)]
    land = _LANDS.get(groups.get("land") or "", "")
    whole, _, decimals = amount.partition(".")
    if scale:
        return f"{number(amount)} {vocabulary.SCALES[scale]} {land}{several}"
    if len(decimals) != 2 or not hundredth:
        return f"{number(amount)} {land}{one if amount == '1' else several}"
    cents = f"{cardinal(str(int(decimals)))} {hundredth if decimals == '01' else hundredths}"
    if int(decimals) and not whole.strip("0"):
        return cents
    dollars = f"{cardinal(whole)} {land}{one if whole == '1' else several}"
    return f"{dollars} and {cents}" if int(decimals) else dollars


def range_of_money(found: Match, previous: str) -> str:
    scale = f" {vocabulary.SCALES[found['scale']]}" if found["scale"] else ""
    several = _LANDS.get(found["land"] or "", "") + _MONEY[found["sign"]][1]
    return f"{number(found['low'])} to {number(found['high'])}{scale} {several}"


def measure(found: Match, previous: str) -> str:
    one, several = vocabulary.UNITS[found["unit"]]
    return set_apart(found, f"{number(found['number'])} {one if found['number'] == '1' else several}")


def per_unit(found: Match, previous: str) -> str:
    return f" per {vocabulary.UNITS[found['unit']][0]}"


def scaled(found: Match, previous: str) -> str:
    return f"{number(found['number'])} {vocabulary.SCALES[found['scale']]}"


def feet_and_inches(found: Match, previous: str) -> str:
    return f"{cardinal(found[1])} foot {cardinal(found[2])}"


def fraction(found: Match, previous: str) -> str:
    """ "1/2" and "2 3/4"; where it is no common fraction ("24/7"), one number after the other."""
    whole, above, below = found[1], found[2], found[3]
    is_common = 2 <= int(below) <= MAX_DENOMINATOR or below in COMMON_DENOMINATORS
    if not is_common or int(above) >= int(below):
        return " ".join(cardinal(part) for part in (whole, above, below) if part)
    one_of = ordinal(below)
    part, parts = _PARTS.get(below, (one_of, f"{one_of}s"))
    spoken = f"{cardinal(above)} {part if above == '1' else parts}"
    return f"{cardinal(whole)} and {spoken}" if whole else spoken


MONTH = rf"(?P<month>{vocabulary.MONTH})"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%]\d|[\d:%]|,\d|\w)"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)(?!\d)"
HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"

_NAMES = tuple(vocabulary.MONTHS.values())
_AFTER_DECADE = frozenset(["the", "my", "his", "her", "their", "our", "early", "mid", "late"])


def month_first(found: Match, previous: str) -> str:
    return _date(_name(found["month"]), f" {ordinal(found['day'])}", found["year"])


def day_first(found: Match, previous: str) -> str:
    article = "" if previous.lower() == "the" else "the "
    day = f"{article}{ordinal(found['day'])} of "
    return _date(day, _name(found["month"]), found["year"])


def month_and_year(found: Match, previous: str) -> str:
    return _date(_name(found["month"]), "", found["year"])


def _date(first: str, second: str, digits: str | None) -> str:
    spoken_year = f" {year(digits)}" if digits else ""
    return first + second + spoken_year


def numeric_date(found: Match, previous: str) -> str:
    """Month before day unless only the other order makes a date; no date at all is left as it is."""
    month, day = int(found["month"]), int(found["day"])
    if month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return f"{_NAMES[month - 1]} {ordinal(str(day))} {year(found['year'])}"


def _name(month: str) -> str:
    return vocabulary.MONTHS[month[:3].lower()]


def time_of_day(found: Match, previous: str) -> str:
    groups = found.groupdict()
    minutes, seconds, half = groups.get("minutes"), groups.get("seconds"), groups.get("half")
    hour = cardinal(str(int(found["hour"])))
    if int(found["hour"]) > 24:
        return found[0]
    ending = f" {half.upper()} M" if half else ""
    if minutes is None or (half and minutes == "00" and not seconds):
        return hour + ending
    if minutes == "00" and not seconds:
        return f"{hour} o'clock" if 0 < int(found["hour"]) <= 12 else f"{hour} hundred"
    spoken = f"oh {cardinal(minutes[1])}" if minutes[0] == "0" else cardinal(minutes)
    if seconds:
        spoken += f" and {cardinal(str(int(seconds)))} seconds"
    return f"{hour} {spoken}{ending}"


def decade(found: Match, previous: str) -> str:
    """ "1990s" and "'90s" are decades, "30s" only after a word such as "the"; else it is left."""
    if found["bare"] and previous.lower() not in _AFTER_DECADE:
        return found[0]
    digits = found["full"] or found["bare"] or found["short"]
    if digits.endswith("00"):
        return f"{year(digits)}s"
    spoken = year(digits) if len(digits) == 4 else cardinal(digits)
    return f"{spoken[:-1]}ies" if spoken.endswith("y") else f"{spoken}s"


# ruff: noqa: RUF001  typographic dashes and signs are meant


Rule = Callable[[re.Match[str], str], str]  # the last: the word before the phrase

_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)"
_NUMBER = f"(?P<number>{_AMOUNT})"
_FREE = r"(?<![\d.,:/])"  # no number goes on into this one
MAX_VERSION_PARTS = 3
VULGAR = str.maketrans({"½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4"})


def _telephone(found: re.Match[str], previous: str) -> str:
    blocks = ", ".join(by_digits(run) for run in re.findall(r"[0-9]+", found[0]))
    return f"plus {blocks}" if found[0].startswith("+") else blocks


def _dotted(found: re.Match[str], previous: str) -> str:
    parts = found[2].split(".")
    if len(parts) > MAX_VERSION_PARTS:  # an address of the network
        return " dot ".join(by_digits(part) for part in parts)
    spoken = " point ".join(cardinal(part) for part in parts)
    return f" version {spoken}" if found[1] else spoken


def _spoken_as(text: str) -> Rule:
    return lambda found, previous: text


_PATTERNS: tuple[tuple[str, Rule], ...] = (
    (
        r"(?<![\w.,$€£])(?:\+\d[\d .()-]{6,20}\d|(?:1[ -])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}"
        r"|\d{3}-\d{4}|\(?0\d{2,4}\)? \d{3,4} \d{3,4}|\d{10,15})(?!\w|[.,]\d|-\d)",
        _telephone,
    ),
    (r"(?<![\d/-])(?P<year>\d{4})([-/])(?P<month>\d\d?)\2(?P<day>\d\d?)(?![\d/])", numeric_date),
    (r"(?<![\d/])(?P<month>\d\d?)/(?P<day>\d\d?)/(?P<year>\d{4})(?![\d/])", numeric_date),
    (rf"\b{MONTH}\s+{DAY}(?:,?\s+{YEAR})?", month_first),
    (rf"{_FREE}{DAY}\s+(?:of\s+)?{MONTH}(?!\w)(?:,?\s+{YEAR})?", day_first),
    (rf"\b{MONTH}\s+{YEAR}", month_and_year),
    (
        rf"(?P<land>US)?(?P<sign>[{SIGNS}])(?P<low>{_AMOUNT})\s?[-–]\s?[{SIGNS}]?(?P<high>{_AMOUNT})"
        rf"(?:\s?(?P<scale>{SCALES})(?!\w))?",
        range_of_money,
    ),
    (
        r"(?:(?<=[\d%°])|(?<=\d[ap]m)|(?<=\s[ap]m)|(?<=[ap]\.m\.))\s?[-–—]\s?(?=[$€£¥₹]?\d)",
        _spoken_as(" to "),
    ),
    (
        rf"{_FREE}(?P<hour>\d\d?):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?{HALF}?(?![\d:])",
        time_of_day,
    ),
    (rf"{_FREE}(?P<hour>1[0-2]|0?[1-9]){HALF}(?!\w)", time_of_day),
    (r"(?<![\w)])[-−](?=[\d$€£¥₹])", _spoken_as(" minus ")),
    (r"(?<=\d)\s[-–—]+", _spoken_as(",")),
    (
        rf"(?P<land>US|HK|NZ|A|C)?(?P<sign>[{SIGNS}])\s?{_NUMBER}"
        rf"(?:\s?(?P<scale>{SCALES})(?!\w))?",
        money,
    ),
    (rf"\b(?P<sign>USD|EUR|GBP|JPY)\s{_NUMBER}", money),
    (
        rf"{_FREE}{_NUMBER}(?:\s?(?P<scale>{SCALES}))?\s?(?P<sign>[{SIGNS}]|USD|EUR|GBP|JPY)",
        money,
    ),
    (r"(?<![\w.])(v)?((?(1)\d+(?:\.\d+)+|\d+(?:\.\d+){2,}))(?!\d)", _dotted),
    (r"(?<=\d)\s?x\s?(?=\d)", _spoken_as(" by ")),
    (r"(?<=\d)\s?[×*]\s?(?=\d)", _spoken_as(" times ")),
    (r"(?<=\d)x\b", _spoken_as(" times ")),
    (r"(\d+)['′’](\d+)(?:[\"″”]|'')?", feet_and_inches),
    (r"(?<![\w/.,])(?:(\d{1,3})\s)?(\d{1,3})/(\d{1,4})(?![\d/]|[.,]\d)", fraction),
    (
        r"(?<![\w.'’])(?:(?P<full>1[1-9]\d0|20\d0)['’]?|(?P<bare>[1-9]0))s\b|['’](?P<short>[1-9]0)s\b",
        decade,
    ),
    (rf"(?<![A-Za-z]){_NUMBER}[\s-]?(?P<unit>{UNITS})(?![\w°²³])", measure),
    (rf"(?<=[a-z])/(?P<unit>{UNITS})(?![\w/])", per_unit),
    (r"(?<=[a-z\d])/(?=[a-z]{3})", _spoken_as(" per ")),
    (rf"(?<![A-Za-z])(?![48]K\b){_NUMBER}(?P<scale>[kKMB])\b", scaled),
    (r"(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", lambda found, previous: ordinal(found[1])),
    (
        r"(\d+):(\d+)",
        lambda found, previous: f"{cardinal(found[1])} to {cardinal(found[2])}",
    ),
    (r"#\s?(?=\d)", _spoken_as("number ")),
    (r"(?<!\w)[~≈](?=\d)", _spoken_as("about ")),
    (
        rf"(?<![\w,.])(?!1000){YEAR}(?!\w|[.,]\d)",
        lambda found, previous: year(found["year"]),
    ),
    (r"(?<=[A-Za-z])-?(\d+)", lambda found, previous: set_apart(found, pairs(found[1]))),
    (
        r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+",
        lambda found, previous: set_apart(found, number(found[0])),
    ),
)
_RULES = tuple((re.compile(pattern, re.ASCII), rule) for pattern, rule in _PATTERNS)


def spell_numbers(text: str, previous: str) -> str:
    """What one rule has put into words no later one sees as a number.

    previous: the word before `text`, which tells "the 30s" from "30s". Blanks are left as they fall.
    """
    text = re.sub(r"(?<=\d) (?=\d+/)", " ", text).lstrip()
    for pattern, rule in _RULES:
        text = pattern.sub(lambda found, rule=rule: rule(found, previous), text)  # type: ignore[misc]
    return text
