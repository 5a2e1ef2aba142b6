"""The forms of English that are not read as they are written, and how each is written.

By what a form begins with, since of the rules for one place the first that fits is taken.
"""

from firstword.app.text.english.context import Context
from firstword.app.text.english.rules.digits import DIGITS
from firstword.app.text.english.rules.letters import LETTERS
from firstword.app.text.english.rules.signs import AFTER_DIGIT, CODES, CURRENCIES, OTHERS
from firstword.app.text.rules import Rules

__all__ = [
    "AFTER_DIGIT",
    "CURRENCIES",
    "DIGITS",
    "DIGITS_OF_CODE",
    "HYPHENS_OF_CODE",
    "LETTERS",
    "NONE",
    "OTHERS",
    "SLASHES",
]

DIGITS_OF_CODE = Rules(*CODES.rules, *DIGITS.rules)
HYPHENS_OF_CODE = Rules(*CODES.rules, *OTHERS.rules)
SLASHES = Rules(*AFTER_DIGIT.rules, *OTHERS.rules)
NONE = Rules[Context]()
