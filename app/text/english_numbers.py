"""Write the numbers of an English phrase in words: amounts, measures, dates, times, telephone numbers."""

import re
from collections.abc import Callable

from firstword.app.text import english_vocabulary as vocabulary

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
MAX_DIGITS = 15  # of a number that is spoken as one; longer ones are read digit by digit


def by_digits(digits: str) -> str:
    return " ".join(DIGITS[int(digit)] for digit in digits)


def set_apart(found: re.Match[str], spoken: str) -> str:
    """What a number is spoken as, with blanks between it and the letters and digits it touches."""
    before, after = found.string[: found.start()][-1:], found.string[found.end() :][:1]
    return f"{' ' if before.isalnum() else ''}{spoken}{' ' if after.isalnum() else ''}"


class NumberWords:
    """Single numbers in words, by wetext's English normalizer, whose slips with thousands are fixed here."""

    def __init__(self, wetext: Callable[[str], str]) -> None:
        self._wetext = wetext

    def cardinal(self, digits: str) -> str:
        digits = digits.replace(",", "")
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
            return by_digits(digits)
        spoken = self._wetext(f"{int(digits):,}")
        return f"one {spoken}" if spoken.startswith("thousand") else spoken

    def number(self, number: str) -> str:
        """Digits with or without thousands separators and a decimal point."""
        whole, point, decimals = number.partition(".")
        spoken = self.cardinal(whole) if whole else ""
        return f"{spoken} point {by_digits(decimals)}".lstrip() if point else spoken

    def ordinal(self, digits: str) -> str:
        digits = digits.replace(",", "")
        if len(digits) > MAX_DIGITS:
            return f"{by_digits(digits)}th"
        last = int(digits[-2:])
        ending = "th" if 10 < last < 14 else {1: "st", 2: "nd", 3: "rd"}.get(last % 10, "th")
        return self._wetext(f"{int(digits)}{ending}")

    def year(self, digits: str) -> str:
        """Four digits: "nineteen oh five", "two thousand four", "twenty twenty four"."""
        century, rest = int(digits[:2]), int(digits[2:])
        if century % 10 == 0 and rest < 10:
            return self.cardinal(digits).replace(" and ", " ")
        if rest == 0:
            return f"{self.cardinal(str(century))} hundred"
        end = f"oh {DIGITS[rest]}" if rest < 10 else self.cardinal(str(rest))
        return f"{self.cardinal(str(century))} {end}"

    def pairs(self, digits: str) -> str:
        """A code such as a flight's: two digits at a time where that comes out even, else one by one."""
        is_even = len(digits) == 4 and "0" not in digits[::2]
        if len(digits) <= 3 and digits[0] != "0":
            return self.cardinal(digits)
        return self.year(digits) if is_even else by_digits(digits)


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


def money(found: Match, words: NumberWords, previous: str) -> str:
    groups = found.groupdict()
    amount, sign, scale = found["number"], found["sign"], groups.get("scale")
    one, several, hundredth, hundredths = _MONEY[vocabulary.CURRENCY_CODES.get(sign, sign)]
    land = _LANDS.get(groups.get("land") or "", "")
    whole, _, decimals = amount.partition(".")
    if scale:
        return f"{words.number(amount)} {vocabulary.SCALES[scale]} {land}{several}"
    if len(decimals) != 2 or not hundredth:
        return f"{words.number(amount)} {land}{one if amount == '1' else several}"
    cents = f"{words.cardinal(str(int(decimals)))} {hundredth if decimals == '01' else hundredths}"
    if int(decimals) and not whole.strip("0"):
        return cents
    dollars = f"{words.cardinal(whole)} {land}{one if whole == '1' else several}"
    return f"{dollars} and {cents}" if int(decimals) else dollars


def range_of_money(found: Match, words: NumberWords, previous: str) -> str:
    scale = f" {vocabulary.SCALES[found['scale']]}" if found["scale"] else ""
    several = _LANDS.get(found["land"] or "", "") + _MONEY[found["sign"]][1]
    return f"{words.number(found['low'])} to {words.number(found['high'])}{scale} {several}"


def measure(found: Match, words: NumberWords, previous: str) -> str:
    one, several = vocabulary.UNITS[found["unit"]]
    return set_apart(found, f"{words.number(found['number'])} {one if found['number'] == '1' else several}")


def per_unit(found: Match, words: NumberWords, previous: str) -> str:
    return f" per {vocabulary.UNITS[found['unit']][0]}"


def scaled(found: Match, words: NumberWords, previous: str) -> str:
    return f"{words.number(found['number'])} {vocabulary.SCALES[found['scale']]}"


def feet_and_inches(found: Match, words: NumberWords, previous: str) -> str:
    return f"{words.cardinal(found[1])} foot {words.cardinal(found[2])}"


def fraction(found: Match, words: NumberWords, previous: str) -> str:
    """ "1/2" and "2 3/4"; where it is no common fraction ("24/7"), one number after the other."""
    whole, above, below = found[1], found[2], found[3]
    is_common = 2 <= int(below) <= MAX_DENOMINATOR or below in COMMON_DENOMINATORS
    if not is_common or int(above) >= int(below):
        return " ".join(words.cardinal(part) for part in (whole, above, below) if part)
    ordinal = words.ordinal(below)
    part, parts = _PARTS.get(below, (ordinal, f"{ordinal}s"))
    spoken = f"{words.cardinal(above)} {part if above == '1' else parts}"
    return f"{words.cardinal(whole)} and {spoken}" if whole else spoken


MONTH = rf"(?P<month>{vocabulary.MONTH})"
DAY = r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)?(?![\d:.%]\d|[\d:%]|,\d|\w)"
YEAR = r"(?P<year>1[0-9]\d\d|20\d\d)(?!\d)"
HALF = r"(?:\s?(?P<half>[AaPp])(?:\.\s?[Mm]\.|\.?[Mm]\b\.?))"

_NAMES = tuple(vocabulary.MONTHS.values())
_AFTER_DECADE = frozenset(["the", "my", "his", "her", "their", "our", "early", "mid", "late"])


def month_first(found: Match, words: NumberWords, previous: str) -> str:
    return _date(_name(found["month"]), f" {words.ordinal(found['day'])}", found["year"], words)


def day_first(found: Match, words: NumberWords, previous: str) -> str:
    article = "" if previous.lower() == "the" else "the "
    day = f"{article}{words.ordinal(found['day'])} of "
    return _date(day, _name(found["month"]), found["year"], words)


def month_and_year(found: Match, words: NumberWords, previous: str) -> str:
    return _date(_name(found["month"]), "", found["year"], words)


def _date(first: str, second: str, year: str | None, words: NumberWords) -> str:
    spoken_year = f" {words.year(year)}" if year else ""
    return first + second + spoken_year


def numeric_date(found: Match, words: NumberWords, previous: str) -> str:
    """Month before day unless only the other order makes a date; no date at all is left as it is."""
    month, day = int(found["month"]), int(found["day"])
    if month > 12:
        month, day = day, month
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return found[0]
    return f"{_NAMES[month - 1]} {words.ordinal(str(day))} {words.year(found['year'])}"


def _name(month: str) -> str:
    return vocabulary.MONTHS[month[:3].lower()]


def time_of_day(found: Match, words: NumberWords, previous: str) -> str:
    groups = found.groupdict()
    minutes, seconds, half = groups.get("minutes"), groups.get("seconds"), groups.get("half")
    hour = words.cardinal(str(int(found["hour"])))
    if int(found["hour"]) > 24:
        return found[0]
    ending = f" {half.upper()} M" if half else ""
    if minutes is None or (half and minutes == "00" and not seconds):
        return hour + ending
    if minutes == "00" and not seconds:
        return f"{hour} o'clock" if 0 < int(found["hour"]) <= 12 else f"{hour} hundred"
    spoken = f"oh {words.cardinal(minutes[1])}" if minutes[0] == "0" else words.cardinal(minutes)
    if seconds:
        spoken += f" and {words.cardinal(str(int(seconds)))} seconds"
    return f"{hour} {spoken}{ending}"


def decade(found: Match, words: NumberWords, previous: str) -> str:
    """ "1990s" and "'90s" are decades, "30s" only after a word such as "the"; else it is left."""
    if found["bare"] and previous.lower() not in _AFTER_DECADE:
        return found[0]
    digits = found["full"] or found["bare"] or found["short"]
    if digits.endswith("00"):
        return f"{words.year(digits)}s"
    spoken = words.year(digits) if len(digits) == 4 else words.cardinal(digits)
    return f"{spoken[:-1]}ies" if spoken.endswith("y") else f"{spoken}s"


# ruff: noqa: RUF001  typographic dashes and signs are meant


Rule = Callable[[re.Match[str], NumberWords, str], str]  # the last: the word before the phrase

_AMOUNT = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\d)"
_NUMBER = f"(?P<number>{_AMOUNT})"
_FREE = r"(?<![\d.,:/])"  # no number goes on into this one
MAX_VERSION_PARTS = 3
VULGAR = str.maketrans({"½": " 1/2", "⅓": " 1/3", "⅔": " 2/3", "¼": " 1/4", "¾": " 3/4"})


def _telephone(found: re.Match[str], words: NumberWords, previous: str) -> str:
    blocks = ", ".join(by_digits(run) for run in re.findall(r"[0-9]+", found[0]))
    return f"plus {blocks}" if found[0].startswith("+") else blocks


def _dotted(found: re.Match[str], words: NumberWords, previous: str) -> str:
    parts = found[2].split(".")
    if len(parts) > MAX_VERSION_PARTS:  # an address of the network
        return " dot ".join(by_digits(part) for part in parts)
    spoken = " point ".join(words.cardinal(part) for part in parts)
    return f" version {spoken}" if found[1] else spoken


def _spoken_as(text: str) -> Rule:
    return lambda found, words, previous: text


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
    (r"(\d+(?:,\d{3})*)(?:st|nd|rd|th)\b", lambda found, words, previous: words.ordinal(found[1])),
    (
        r"(\d+):(\d+)",
        lambda found, words, previous: f"{words.cardinal(found[1])} to {words.cardinal(found[2])}",
    ),
    (r"#\s?(?=\d)", _spoken_as("number ")),
    (r"(?<!\w)[~≈](?=\d)", _spoken_as("about ")),
    (
        rf"(?<![\w,.])(?!1000){YEAR}(?!\w|[.,]\d)",
        lambda found, words, previous: words.year(found["year"]),
    ),
    (r"(?<=[A-Za-z])-?(\d+)", lambda found, words, previous: set_apart(found, words.pairs(found[1]))),
    (
        r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+",
        lambda found, words, previous: set_apart(found, words.number(found[0])),
    ),
)
_RULES = tuple((re.compile(pattern, re.ASCII), rule) for pattern, rule in _PATTERNS)


def spell_numbers(text: str, words: NumberWords, previous: str) -> str:
    """What one rule has put into words no later one sees as a number.

    previous: the word before `text`, which tells "the 30s" from "30s". Blanks are left as they fall.
    """
    text = re.sub(r"(?<=\d) (?=\d+/)", " ", text).lstrip()
    for pattern, rule in _RULES:
        text = pattern.sub(lambda found, rule=rule: rule(found, words, previous), text)  # type: ignore[misc]
    return text
