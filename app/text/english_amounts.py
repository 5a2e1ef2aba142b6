"""Money, measures and fractions in English words."""

import re

from app.text import vocabulary
from app.text.english_words import NumberWords, set_apart

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
    said = f"{words.cardinal(above)} {part if above == '1' else parts}"
    return f"{words.cardinal(whole)} and {said}" if whole else said
