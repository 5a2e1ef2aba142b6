"""Say the marks of English that cleaning would take for markup: "a*b", "© 2020"."""

import re

from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001  signs are meant

_PRODUCT = re.compile(
    r"(?<![\w*])(?:(?P<first>[A-Za-z])\s?\*\s?(?=(?:[A-Za-z]|\d+)(?![\w*]))"
    r"|(?P<number>[1-9]\d*(?:\.\d+)?)\s?\*\s?(?=[A-Za-z](?![\w*])))"
)
_PRODUCT_OPEN = re.compile(r"(?<![\w*])(?P<first>\d+(?:\.\d+)?)\s\*$")
_OPERAND = re.compile(r"[a-z](?![\w*'’-]).*|[(\d].*")


def say_marks(text: str, phrase: Phrase) -> str:
    """Return the text with its products as such, and what "©" says before a year or a name."""
    if "*" in text:
        if text == "*":
            is_product = _OPERAND.fullmatch(phrase.following) and _OPERAND.fullmatch(phrase.previous)
            return "×" if is_product and "\n" not in phrase.source else text
        text = _PRODUCT.sub(lambda found: f"{found['first'] or found['number']} × ", text)
        if _OPERAND.fullmatch(phrase.following):
            text = _PRODUCT_OPEN.sub(r"\g<first> ×", text)
    if "©" in text:
        is_told = phrase.previous.lower().rstrip(":").endswith(("copyright", "(c)"))
        text = text.replace("©", "" if is_told or "opyright" in text else " copyright ")
    return text
