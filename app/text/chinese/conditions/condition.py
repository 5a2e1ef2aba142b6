"""What Chinese conditions are, and those that rules of several subjects have."""

import re
from collections.abc import Callable
from string import ascii_letters, digits

from firstword.app.text.chinese import contexts
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant

CODES = (*contexts.CODES.split("|"), "号", "码")

LETTERS = tuple(ascii_letters)

_TILL_OR_AND = frozenset("-–—~～至到、")

Match = re.Match[str]

Condition = Callable[[Match, Phrase], bool]

_SET = ("改成", "改为", "换成", "换为", "设成", "设为")


def text_before(found: Match, phrase: Phrase) -> str:
    return f"{phrase.before}{found.string[: found.start()]}"


def text_ahead(found: Match, phrase: Phrase) -> str:
    return f"{found.string[found.end() :]}{phrase.following}"


def behind(words: str) -> Condition:
    """Behind one of the words, with "是", "改成", "号" or a colon between, or a letter code, at the most."""
    endings = tuple(words.split("|"))

    def where(found: Match, phrase: Phrase) -> bool:
        before = text_before(found, phrase).rstrip()
        code = before.rstrip(ascii_letters)
        for text in (before, code, code[:-1]) if code != before else (before,):
            text = (text[:-2] if text.endswith(_SET) else text).rstrip("是为叫:：# ")
            if any(text.removesuffix(link).endswith(endings) for link in ("", "号", "号码")):
                return True
        return False

    return where


def is_day(found: Match, phrase: Phrase) -> bool:
    """ "2月2日" and "2日下午", not "2日游" or "为期2日"."""
    before = text_before(found, phrase).rstrip()
    following = f"{found.string[found.end() + 1 :]}{phrase.following}".lstrip()
    if re.search(r"(?<![\d.])1日?[-–—~～至到]$", before):  # "1-2日有雨", not "1-2日内送达"
        return not following.startswith(tuple(contexts.OF_DAYS.split("|")))
    if not before and not following:
        return True
    is_behind_month = re.search(r"月(?:\d{1,2}日?[-–—~～至到和、])?$", before) is not None
    return is_behind_month or following.startswith(tuple(contexts.OF_DAY.split("|")))


def is_counted(found: Match, phrase: Phrase) -> bool:
    """ "2个包", not "如图2所示" or "方案2"."""
    return not text_before(found, phrase).rstrip().endswith(contexts.NUMBERED)


def is_edition(found: Match, phrase: Phrase) -> bool:
    """The year of what has a Latin name: "Office 2019" and "APEC2022", not "iPhone 2019元" or "USD 2022"."""
    blank = " " if phrase.has_blank and not found.start() else ""
    name = re.search(
        r"(?:[A-Za-z]+ |[A-Za-z]{3,})$", f"{phrase.before}{blank}{found.string[: found.start()]}"
    )
    is_named = name is not None and name[0].strip() not in contexts.CODES_OF_MONEY
    return is_named and not text_ahead(found, phrase).lstrip().startswith(tuple(contexts.COUNTING))


def is_alone(found: Match, phrase: Phrase) -> bool:
    """All that stands in brackets: "（2019）"."""
    before = text_before(found, phrase)[-1:]
    following = text_ahead(found, phrase)[:1]
    return before + following in ("（）", "()", "〔〕", "[]", "《》", "【】", "「」", "『』")


def is_whole(found: Match, phrase: Phrase) -> bool:
    """All of a text: "110" is dialed only where something tells so."""
    return not text_before(found, phrase) + text_ahead(found, phrase)


def is_rising(found: Match, phrase: Phrase) -> bool:
    return found["first"] < found["last"]


def is_behind_word(found: Match, phrase: Phrase) -> bool:
    return text_before(found, phrase)[-1:].isalpha()


def is_ordinal(found: Match, phrase: Phrase) -> bool:
    """ "第2名" and the last of "第1-2名"."""
    before = text_before(found, phrase)
    is_last = before[-1:] in _TILL_OR_AND and re.search(r"第\d+\s?.$", before) is not None
    return is_last or before.endswith("第")


def is_in_brackets(found: Match, phrase: Phrase) -> bool:
    """ "验证码(1234)"."""
    before = text_before(found, phrase)
    return before[-1:] in ("(", "（") and before[:-1].rstrip().endswith((*CODES, "ETF", "LOF", "基金"))


def is_next_year(found: Match, phrase: Phrase) -> bool:
    return int(found["last"]) == (int(found["first"]) + 1) % 100


def is_code(found: Match, phrase: Phrase) -> bool:
    """ "序列号X9K2-77PL", whose letters and digits are one word."""
    before = text_before(found, phrase)
    named = before.rstrip(f"{ascii_letters}{digits}-").rstrip("是为:： ")
    is_day = re.search(r"[\d一二三四五六七八九十]号$", named) is not None
    return named.endswith(CODES) and not is_day


def is_no_formula(found: Match, phrase: Phrase) -> bool:
    return "=" not in found.string


def is_elided(found: Match, phrase: Phrase) -> bool:
    """ "'98年的夏天", not "'20年'"."""
    return re.search("['’]", text_ahead(found, phrase)) is None


def has_equals(found: Match, phrase: Phrase) -> bool:
    return "=" in found.string
