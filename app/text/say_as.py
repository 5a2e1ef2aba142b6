"""Write text as SSML's `say-as` asks for it; the normalizer reads the rest."""

import re
from typing import Final

from firstword.app.text.chinese import CHINESE
from firstword.app.text.language import primary_language

INTERPRETATIONS: Final = (
    *("characters", "spell-out", "digits", "telephone", "cardinal", "ordinal", "date", "time", "currency"),
)
_DIGIT_WORDS = "zero one two three four five six seven eight nine"
_ENGLISH_DIGITS = dict(zip("0123456789", _DIGIT_WORDS.split(), strict=True))
_CHINESE_DIGITS = dict(zip("0123456789", "零一二三四五六七八九", strict=True))
_NAMES = {".": "dot", "-": "dash", "_": "underscore", "@": "at", "/": "slash", "+": "plus", "#": "hash"}
_DATE = re.compile(r"\s*(\d{1,2})[/.-](\d{1,2})[/.-](\d{4})\s*", re.ASCII)
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_CLOCK = re.compile(r"\s*(\d{1,2})h(\d{2})\s*", re.ASCII)
_AMOUNT = re.compile(r"\s*([A-Z]{3})\s?([\d.,]+)\s*", re.ASCII)


def spoken_as(interpretation: str, text: str, language: str) -> str:
    """language: ISO 639-1, also with a region."""
    is_chinese = primary_language(language) in CHINESE
    digits = _CHINESE_DIGITS if is_chinese else _ENGLISH_DIGITS
    text = text.strip()
    match interpretation:
        case "characters" | "spell-out":
            spoken = [digits.get(one) or _NAMES.get(one) or one.upper() for one in text if not one.isspace()]
            return " ".join(spoken)
        case "digits" | "telephone":
            groups = re.split(r"[\s().-]+", text)
            spoken = [
                " ".join(digits.get(one) or _NAMES.get(one, one) for one in group)
                for group in groups
                if group
            ]
            return ", ".join(spoken)
        case "ordinal" if text.isdecimal() and not is_chinese:
            ending = "th" if text[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(text[-1], "th")
            return text + ending
        case "date" if (found := _DATE.fullmatch(text)) and not is_chinese:
            month, day = int(found[1]), int(found[2])
            if month > 12 >= day:
                month, day = day, month
            return f"{_MONTHS[month - 1]} {day}, {found[3]}" if 1 <= month <= 12 else text
        case "time" if found := _CLOCK.fullmatch(text):
            return f"{found[1]}:{found[2]}"
        case "currency" if found := _AMOUNT.fullmatch(text):
            return f"{found[2]} {found[1]}"
    return text
