"""Tag the parts of a Chinese phrase that wetext would take for something else, from the words beside them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from firstword.app.text.chinese.rules import NEEDS, ROWS
from firstword.app.text.phrases import Phrase
from firstword.app.text.rules import Rule, Rules

# ruff: noqa: RUF001  Chinese punctuation and signs are meant


@dataclass(frozen=True, slots=True)
class Tag:
    """form: the class and one of its forms, such as "date.slashes". fields: what the pattern found."""

    form: str
    text: str
    fields: dict[str, str | None]


_SIGN_FORMS = (
    "cardinal.plus",
    "formula.",
    "roman.sign",
    "cardinal.minus",
    "cardinal.sign",
    "range.",
    "serial.mask",
    "serial.beside",
    "telephone.number",
    "serial.model",
    "serial.size",
    "serial.plate",
    "serial.apostrophe",
    "date.short_year",
    "formula.both",
)
_LETTER_FORMS = (
    "money.",
    "serial.to",
    "time.half",
    "serial.hex",
    "date.era",
    "roman.number",
    "formula.cross",
    "fraction.letter",
)
_NO_DIGIT_FORMS = (
    "formula.",
    "roman.",
    "range.to",
    "range.till",
    "serial.mask",
    "cardinal.minus",
    "cardinal.plus",
    "serial.model",
    "serial.size",
)


@lru_cache(maxsize=1)
def _rules() -> tuple[Rules[Phrase], Rules[Phrase], Rules[Phrase]]:
    """Return the rules for what begins with a digit, a letter, a sign, compiled at first use."""
    rules = [
        Rule(form, re.compile(pattern, re.ASCII), where, NEEDS.get(form, "")) for form, pattern, where in ROWS
    ]
    return (
        Rules(*(rule for rule in rules if not rule.form.startswith(_NO_DIGIT_FORMS))),
        Rules(*(rule for rule in rules if rule.form.startswith(_LETTER_FORMS))),
        Rules(*(rule for rule in rules if rule.form.startswith((*_SIGN_FORMS, "money.")))),
    )


_FIRST = re.compile(r"[0-9+/·'’A-Zx(（$€£¥￥₩₽₹₫฿₿₺₱^⁰¹²³⁴-⁹⁻×÷\-–—−~～\s Ⅰ-ⅿ①-⒛❶-❿㈠-㈩㊀-㊉±₴₪₦＄￡￦]")


def tag(text: str, phrase: Phrase) -> Iterator[Tag | str]:
    """Yield the tagged parts of a phrase and, as strings, what stands between them; together the text."""
    characters = frozenset(text)
    of_digits, of_letters, of_signs = (rules.among(characters) for rules in _rules())
    start = position = 0
    while found := _FIRST.search(text, position):
        position = found.start()
        first = text[position]
        for rule in of_digits if first.isdecimal() else of_letters if first.isalpha() else of_signs:
            match = rule.pattern.match(text, position)
            if match and (rule.where is None or rule.where(match, phrase)):
                if start < position:
                    yield text[start:position]
                yield Tag(rule.form, match[0], match.groupdict())
                start = position = match.end()
                break
        else:
            position += 1
    if start < len(text):
        yield text[start:]
