"""Say the marks of English that cleaning would take for markup or pictures: "a*b", "© 2020", "↑3%"."""

import re

from firstword.app.text.english import contexts
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001  signs are meant

SAID_MARKS = frozenset("*©↑↓")
_PRODUCT = re.compile(
    r"(?<![\w*])(?:(?P<first>[A-Za-z])\s?\*\s?(?=(?:[A-Za-z]|\d+)(?![\w*]))"
    r"|(?P<number>[1-9]\d*(?:\.\d+)?)\s?\*\s?(?=[A-Za-z](?![\w*])))"
)
_PRODUCT_OPEN = re.compile(r"(?<![\w*])(?P<first>\d+(?:\.\d+)?)\s\*$")
_ARROWS = {"↑": "up", "↓": "down"}
"""Before an amount: "↑3.2%"."""
_OPERAND = re.compile(r"[a-z](?![\w*'’-]).*|[(\d].*")


def say_marks(text: str, phrase: Phrase) -> str:
    """Return the text with its products as such, and what "©" and "↑" say before a name or an amount."""
    if "*" in text:
        if text == "*":
            is_product = _OPERAND.fullmatch(phrase.following) and _OPERAND.fullmatch(phrase.previous)
            return "×" if is_product and "\n" not in phrase.source else text
        text = _PRODUCT.sub(lambda found: f"{found['first'] or found['number']} × ", text)
        if _OPERAND.fullmatch(phrase.following):
            text = _PRODUCT_OPEN.sub(r"\g<first> ×", text)
    for arrow, word in _ARROWS.items():
        if arrow == text:
            return word if phrase.following.lstrip("$€£¥+-")[:1].isdigit() else text
        told = "" if phrase.previous.lower() in contexts.MOVED else f"{word} "
        text = re.sub(rf"{arrow}\s?(?=[$€£¥]?\d)", told, text)
    if "©" in text:
        is_told = phrase.previous.lower().rstrip(":").endswith(("copyright", "(c)"))
        text = text.replace("©", "" if is_told or "opyright" in text else " copyright ")
    return text
