"""What single characters are, and which of them no voice should ever see."""

import re

# Scripts written without blanks between words, and the punctuation that goes with them.
UNSPACED = (
    "\u3001-\u3003\u3005-\u3011\u3014-\u301f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f\uff61\U00020000-\U0003ffff"
)
HAN = "\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_PICTURE = "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\u20e3\U0001f000-\U0001faff"
_PICTURES = re.compile(f"[{_PICTURE}][{_PICTURE}\u200d\U000e0020-\U000e007f]*")
_BETWEEN_WORDS = re.compile(rf"(?<=\w){_PICTURES.pattern}(?=\w)")
# Controls, lone surrogates, private use, marks of direction and of byte order.
_UNSPEAKABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    "\ue000-\uf8ff\ufeff\ufff0-\uffff\U000e0000-\U000e007f\U000f0000-\U0010ffff]"
)
_KEPT = re.compile(r"\[[a-z][a-z_-]*\]|</?[a-z]+>|<\|[A-Za-z_]+\|>")  # a checkpoint's own marks
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
_MARKDOWN = re.compile(
    r"[][`\\|^™®©]|~~|(?<![0-9])\*|\*(?![0-9])|(?<!\w)_+|_+(?!\w)|(?<!\w)#+(?=\s|$|[^\W\d])"
)
_INNER_UNDERSCORE = re.compile(r"(?<=\w)_+(?=\w)")
_RULE = re.compile(r"[-=_+~]{3,}")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()}


def cleaned(phrase: str) -> str:
    """A phrase without what cannot be said: controls, pictures, markdown; full-width letters made plain."""
    if phrase.isascii() and phrase.isalpha():
        return phrase
    phrase = _PICTURES.sub("", _BETWEEN_WORDS.sub(" ", _UNSPEAKABLE.sub("", phrase)))
    phrase = phrase.translate(_FULL_WIDTH).strip()
    if _RULE.fullmatch(phrase):
        return ""
    kept = [_without_markdown(between) for between in _KEPT.split(phrase)]
    marks = [*_KEPT.findall(phrase), ""]
    return " ".join("".join(text + mark for text, mark in zip(kept, marks, strict=True)).split())


def _without_markdown(text: str) -> str:
    text = _INNER_UNDERSCORE.sub(" ", _LINK_TARGET.sub("", text))
    return _MARKDOWN.sub("", text)


def is_blank_between(left: str, right: str) -> bool:
    """Whether a blank in the text is kept between what was said and what is said next."""
    if not left or not right or right[0] in ",，":  # noqa: RUF001
        return False
    unspaced = _UNSPACED_CHARACTER
    return not (unspaced.match(left[-1]) or unspaced.match(right[0]))


_UNSPACED_CHARACTER = re.compile(f"[{UNSPACED}]")
