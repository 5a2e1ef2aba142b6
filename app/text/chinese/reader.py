"""Read a Chinese phrase: tagged parts first, the rest by wetext."""

import re
from collections.abc import Callable

from firstword.app.text.addresses import CHINESE_MARKS, spell_addresses
from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.tagger import Tag, tag
from firstword.app.text.chinese.verbalizer import by_digits, verbalize
from firstword.app.text.phrases import UNSPACED, Phrase

# ruff: noqa: RUF001  Chinese punctuation is meant

_NUMERIC = re.compile(r"[0-9Ⅰ-ⅿ①-⑳❶-❿㈠-㈩]")
_VALUED_ZEROS = re.compile(r"(?<=[0-9])\.0+(?=\s?[元块])")
_SIGN = re.compile("|".join(re.escape(sign) for sign in contexts.SIGNS))
_WORD_SIGNS = re.compile(r"(?<=[A-Za-z])[-_](?=[0-9])")
_PER = re.compile(rf"(?<=[元块角分币镑刀美港日韩])/(?=(?:{contexts.PER}))")
_SLASH = re.compile("(?<=[\u3400-\u9fff])/(?=[\u3400-\u9fff])")
_BLANKS = re.compile(f" (?=[{UNSPACED}])|(?<=[{UNSPACED}]) ")
_DROPPED = re.compile(r"[#~～$€£¥￥]")
_DASHES = ("-", "–", "—", "--")


def say_chinese(text: str, phrase: Phrase, wetext: Callable[[str], str]) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned."""
    if len(text) == 1 and "\u4e00" <= text <= "\u9fff":
        return text
    if text in _DASHES:
        has_pause = not phrase.previous or not phrase.following or phrase.previous[-1] in "，。,.；：！？"
        return "" if has_pause else "，"
    if text == "/":
        return ""
    spoken = spell_addresses(text, CHINESE_MARKS, by_digits)
    if _NUMERIC.search(spoken) or phrase.before.endswith("第"):
        parts = tag(_WORD_SIGNS.sub(" ", spoken), phrase)
        spoken = "".join(verbalize(part) if isinstance(part, Tag) else part for part in parts)
        spoken = _PER.sub("每", spoken)
        if any(character.isdigit() for character in spoken):
            spoken = by_digits(wetext(_VALUED_ZEROS.sub("", spoken)))
    spoken = _SIGN.sub(lambda sign: contexts.SIGNS[sign[0]], _SLASH.sub("", spoken))
    return _BLANKS.sub("", " ".join(_DROPPED.sub("", spoken).split()))
