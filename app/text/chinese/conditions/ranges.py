"""Where ranges and scores are meant."""

import re

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions.condition import (
    Match,
    behind,
    text_ahead,
    text_before,
)
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant

_OF_FORMULAS = frozenset("=+×÷*^")


def is_verse(found: Match, phrase: Phrase) -> bool:
    """ "约翰福音3:16"."""
    return re.search(rf"(?:{contexts.BOOKS})\s?$", text_before(found, phrase)) is not None


def is_score(found: Match, phrase: Phrase) -> bool:
    """ "以3-1获胜", "皇马3-1巴萨", "男女比2:10"; a range goes up."""
    following = text_ahead(found, phrase).lstrip()
    is_counted = following.startswith(contexts.NO_SCORES) and not re.match(contexts.TEAMS, following)
    if is_counted or not _OF_FORMULAS.isdisjoint(found.string):
        return False
    if found["low"][0] == "0" < found["low"]:
        return len(found["high"]) < 3 and behind(contexts.SCORED)(found, phrase)
    if re.match(contexts.SCORES, following) or behind(contexts.SCORED)(found, phrase):
        return True
    if "-" in found[0] and found["high"][0] == "0" < found["high"]:
        return False  # a day or a code
    is_falling = int(found["low"]) > int(found["high"]) or found["low"] == "0"
    if ":" in found[0] and (int(found["low"]) >= 100 or int(found["high"]) >= 60):
        return True  # no time of day
    if is_falling and re.match(contexts.SCORES_FALLING, following):
        return not text_before(found, phrase).endswith("第")
    is_of_part = re.search(r"第[\d一二三四五六七]+[节局盘场]$", text_before(found, phrase)) is not None
    if is_of_part or _is_next_set(found, phrase) or _is_set_in_brackets(found, phrase):
        return True
    if ":" in found[0] or re.search(f"(?:{contexts.NO_SCORED})$", text_before(found, phrase)):
        return False
    low, high = int(found["low"]), int(found["high"])
    if high < 10 and re.match(contexts.TEAMS, following) and _is_between_teams(found, phrase):
        return True  # of football: "曼联1-2曼城"
    if low > high >= 60 and _is_between_teams(found, phrase):
        return True  # of basketball: "湖人110-105勇士"
    is_set = int(found["low"]) in contexts.SET_POINTS and int(found["low"]) > int(found["high"])
    is_whole = found.string.strip("，,、。！!；; ") == found[0]
    return (is_set and is_whole) or 9 >= int(found["low"]) >= int(found["high"])


def _is_between_teams(found: Match, phrase: Phrase) -> bool:
    is_led = re.search(f"(?:{contexts.TEAMS}|队)$", text_before(found, phrase)[-8:].rstrip()) is not None
    return is_led and not text_ahead(found, phrase).startswith((*contexts.NO_SCORES, "平", "汽油"))


def _is_next_set(found: Match, phrase: Phrase) -> bool:
    """ "11:9、8:11" and "21-15、10-21": both of sets, which few points do not win."""
    low, high = int(found["low"]), int(found["high"])
    before = text_before(found, phrase)
    last = re.search(r"(?<![\d:-])([5-9]|[1-3]\d)([:-])([5-9]|[1-3]\d)[、，,]\s?$", before)
    if re.search(r"(?<![\d:-])[67]-[0-6][、，,\s]\s?$", before):
        return max(low, high) in (6, 7)  # of tennis: "6-4、3-6"
    is_behind = last is not None and (last[2] == ":" or int(last[1]) > int(last[3]))
    return is_behind and min(low, high) >= 5 and max(low, high) in contexts.SET_POINTS and "比" not in before


def _is_set_in_brackets(found: Match, phrase: Phrase) -> bool:
    """Of those behind a score: "3:1(25-21、23-25…)"."""
    is_behind = _SETS_BEFORE.search(text_before(found, phrase)) is not None
    return is_behind and max(int(found["low"]), int(found["high"])) >= 6


_SETS_BEFORE = re.compile(
    r"(?:\d[:：-]\d|[一二三四\d]比[零一二三\d])\s?[(（](?:\d{1,2}[-:]\d{1,2}[、，,；;\s]{1,2})*$"
)


def is_figure(found: Match, phrase: Phrase) -> bool:
    """ "图3-1", the first of chapter three; "图1-3" are three."""
    return int(found["low"]) >= int(found["high"]) and text_before(found, phrase).endswith(
        tuple(contexts.FIGURES.split("|"))
    )


def is_range_of_numbers(found: Match, phrase: Phrase) -> bool:
    """ "练习01-10" and "01-05集"; codes are read otherwise."""
    is_listed = re.match(rf"\s?(?:{contexts.LISTED})", text_ahead(found, phrase)) is not None
    is_rising = found["low"] < found["high"] and not behind(contexts.CODES)(found, phrase)
    return is_rising and (is_listed or behind(contexts.LISTS)(found, phrase))


def is_forecast(found: Match, phrase: Phrase) -> bool:
    """ "周日晴，0/10℃"."""
    return re.search(contexts.FORECASTS, text_before(found, phrase)[-12:]) is not None


def is_same_unit(found: Match, phrase: Phrase) -> bool:
    """Between two amounts of one unit or two lengths of time: "9时-17时", "6个月-3岁"."""
    first = _AMOUNT_BEFORE.search(found.string[: found.start()])
    last = _AMOUNT_AHEAD.match(f"{found.string[found.end() :]}{phrase.following}")
    if first is None or last is None or "=" in found.string:
        return False
    units = (first["unit"], last["unit"])
    return units[1].startswith(units[0]) or all(unit.startswith(_LENGTHS) for unit in units)


_LENGTHS = ("秒", "分钟", "小时", "天", "周", "个月", "年", "岁", "周岁")

_AMOUNT_BEFORE = re.compile(r"\d[多余几]?(?P<unit>[\u4e00-\u9fff㎡㎥]{1,4})$")

_AMOUNT_AHEAD = re.compile(r"[-−]?\d+(?:\.\d+)?[多余几]?(?P<unit>[\u4e00-\u9fff㎡㎥]{1,4})")
