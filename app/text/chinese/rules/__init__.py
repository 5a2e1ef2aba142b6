"""The rules of Chinese: a form, how it is written and where it is meant; the first that fits is taken."""

from firstword.app.text.chinese.rules.amounts import AMOUNTS
from firstword.app.text.chinese.rules.codes import CODES
from firstword.app.text.chinese.rules.dates import DATES
from firstword.app.text.chinese.rules.needs import NEEDS

__all__ = ["NEEDS", "ROWS"]

ROWS = (*CODES, *DATES, *AMOUNTS)
