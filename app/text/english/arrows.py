"""Say the arrows of English, alone between blanks or inside a word."""

import re

from firstword.app.text.english import vocabulary
from firstword.app.text.phrases import Phrase

_SIGNS = "|".join(sorted(vocabulary.ARROWS, key=len, reverse=True))
_WITHIN = re.compile(rf"(?<=\w)(?:{_SIGNS})(?=\w)")
_CODE = re.compile("[A-Z][A-Z0-9]{1,3}")
_BEHIND_FROM = re.compile(
    rf"\b[Ff]rom (?!the )(?:[^\s.,;:!?]+ ){{1,2}}(?:(?:{_SIGNS}) [^\s.,;:!?]+ )*$"
)  # "from New York →"


def say_arrow(phrase: Phrase) -> str:
    """Return a pause between steps of a path, "to" between amounts, letters or codes and behind "from"."""
    previous, following = (word.strip(vocabulary.EDGES + ".") for word in (phrase.previous, phrase.following))
    if not previous or not following or phrase.previous[-1] in ",.;:!?":
        return ""
    return _between(previous, following, _BEHIND_FROM.search(f"{phrase.before.rstrip()} ") is not None)


def say_inner_arrows(text: str, phrase: Phrase) -> str:
    """Return the text with what its arrows between letters and digits say: "File->Open", "1->2"."""
    if (">" not in text and text.isascii()) or _WITHIN.search(text) is None or "://" in text:
        return text
    is_behind_from = phrase.previous.lower() == "from"

    def say(arrow: re.Match[str]) -> str:
        previous = re.split(r"\W", text[: arrow.start()])[-1]
        following = re.split(r"\W", text[arrow.end() :], maxsplit=1)[0]
        spoken = _between(previous, following, is_behind_from)
        return ", " if spoken == "," else f" {spoken} "

    return _WITHIN.sub(say, text)


def _between(previous: str, following: str, is_behind_from: bool) -> str:
    is_letters = len(previous) == 1 or len(following) == 1 or re.search("[0-9]", previous + following)
    is_codes = _CODE.fullmatch(previous) and _CODE.fullmatch(following)
    return "to" if is_letters or is_codes or is_behind_from else ","
