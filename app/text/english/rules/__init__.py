"""The forms of English that are not read as they are written, and how each is written.

By what a form begins with, since of the rules for one place the first that fits is taken.
"""

from firstword.app.text.english.rules.digits import DIGITS
from firstword.app.text.english.rules.letters import LETTERS
from firstword.app.text.english.rules.patterns import Rule
from firstword.app.text.english.rules.signs import AFTER_DIGIT, CODES, CURRENCIES, OTHERS

__all__ = [
    "AFTER_DIGIT",
    "BLANKS",
    "CURRENCIES",
    "DIGITS",
    "DIGITS_OF_CODE",
    "HYPHENS_OF_CODE",
    "LETTERS",
    "OTHERS",
    "SLASHES",
    "Rule",
]

DIGITS_OF_CODE = (*CODES, *DIGITS)
HYPHENS_OF_CODE = (*CODES, *OTHERS)
SLASHES = (*AFTER_DIGIT, *OTHERS)
BLANKS = tuple(rule for rule in OTHERS if "\\s" in rule.pattern.pattern)  # what may begin with a blank
