# ruff: noqa: RUF001  Chinese punctuation is meant
"""Normalize a Chinese phrase: numbers by wetext, and here what it does not know."""

import re
from collections.abc import Callable

from firstword.app.text.addresses import CHINESE_MARKS, spell_addresses
from firstword.app.text.phrases import UNSPACED, Phrase

CHINESE = ("zh", "yue")  # languages that are read so

_DIGIT = re.compile(r"[0-9]")
_LONG = re.compile(r"[0-9]{16,}")
_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
_TELEPHONE_DIGITS = str.maketrans("0123456789", "零幺二三四五六七八九")
_TELEPHONE = re.compile(
    r"(?<![\w.])(?:\+[0-9]{1,3}[ -]?)?(?:1[0-9]{2}[ -][0-9]{4}[ -][0-9]{4}|1[3-9][0-9]{9}"
    r"|0[0-9]{2,3}[ -][0-9]{7,8}|[48]00[ -][0-9]{3,4}[ -][0-9]{3,4})(?![0-9])"
)
_HALF_OF_DAY = re.compile(r"([0-9]{1,2}(?::[0-5][0-9])?)\s?([AaPp])\.?[Mm]\b\.?")
_HALVES = {"a": "上午", "p": "下午"}
_RANGE = re.compile(r"(?<=[0-9%])\s?[-–—~～]\s?(?=[0-9])")
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_VALUED_ZEROS = re.compile(r"(?<=[0-9])\.0+(?=\s?[元块])")
_SIGNS = {
    "m²": "平方米",
    "m³": "立方米",
    "²": "平方",
    "³": "立方",
    "℃": "摄氏度",
    "℉": "华氏度",
    "&": "和",
    "%": "百分号",
    "+": "加",
    "=": "等于",
    "*": "乘",
    "×": "乘",
    "÷": "除以",
}
_SIGN = re.compile("|".join(re.escape(sign) for sign in _SIGNS))
_WORD_SIGNS = re.compile(r"(?<=[A-Za-z])[-_](?=[0-9])")
_BLANKS = re.compile(f" (?=[{UNSPACED}])|(?<=[{UNSPACED}]) ")
_DROPPED = re.compile(r"[#~～$€£¥￥]")


def say_chinese(text: str, phrase: Phrase, wetext: Callable[[str], str]) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned."""
    if text in ("-", "–", "—", "--"):
        has_pause = not phrase.previous or not phrase.following or phrase.previous[-1] in "，。,.；：！？"
        return "" if has_pause else "，"
    spoken = spell_addresses(text, CHINESE_MARKS, str)
    if _DIGIT.search(spoken):
        spoken = wetext(_prepared(spoken))
        spoken = spoken.translate(_DIGITS)
    spoken = _SIGN.sub(lambda sign: _SIGNS[sign[0]], spoken)
    return _BLANKS.sub("", " ".join(_DROPPED.sub("", spoken).split()))


def _prepared(text: str) -> str:
    """Write numbers that wetext would take for others in words, or in a form it knows."""
    text = _TELEPHONE.sub(_telephone, text)
    text = _LONG.sub(lambda digits: digits[0].translate(_DIGITS), text)
    text = _HALF_OF_DAY.sub(_time, text)
    text = _VALUED_ZEROS.sub("", _WORD_SIGNS.sub(" ", text))
    return text if _ISO_DATE.search(text) else _RANGE.sub("到", text)


def _telephone(found: re.Match[str]) -> str:
    spoken = re.sub("[ -]", "", found[0]).translate(_TELEPHONE_DIGITS)
    return spoken.replace("+", "加")


def _time(found: re.Match[str]) -> str:
    on_the_hour = "" if ":" in found[1] else "点"
    return f"{_HALVES[found[2].lower()]}{found[1]}{on_the_hour}"
