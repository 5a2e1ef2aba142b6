"""Where amounts, fractions, measures, numerals and formulas are meant."""

import re
from math import gcd

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions.condition import (
    LETTERS,
    Match,
    behind,
    is_behind_word,
    is_ordinal,
    text_ahead,
    text_before,
)
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant


def is_reduced(found: Match, phrase: Phrase) -> bool:
    """ "满300-50" of a discount."""
    amount = re.search(r"满(\d+)$", text_before(found, phrase))
    less = re.match(r"\d+", found.string[found.end() :])
    return amount is not None and less is not None and int(less[0]) < int(amount[1])


def is_no_name(found: Match, phrase: Phrase) -> bool:
    """ "2年前" and "2台电脑", not "公元2年", "令和2年" or "央视2台"."""
    before = text_before(found, phrase).rstrip()
    return not before.endswith(("公元", "公元前", "视", "卫视", "央", "TV", *contexts.ERA_NAMES))


def is_division_of_office(found: Match, phrase: Phrase) -> bool:
    """ "教育局2处", not "发现2处" or "邮局2处窗口"."""
    is_named = re.match("处(?:$|[^\u4e00-\u9fff]|[长的在和是副])", text_ahead(found, phrase)) is not None
    return is_named and text_before(found, phrase).endswith(("局", "厅", "委", "司", "署", "办公室"))


def is_bureau(found: Match, phrase: Phrase) -> bool:
    """ "中铁2局", not "打了2局"."""
    return text_before(found, phrase).endswith(contexts.BUREAUS)


def is_of_session(found: Match, phrase: Phrase) -> bool:
    """ "第十四届全国人大2次会议"."""
    before = text_before(found, phrase)[-20:]
    is_meeting = re.match("次(?:会议|全会|全体)", text_ahead(found, phrase)) is not None
    return is_meeting and re.search(r"第[\d一二三四五六七八九十]+届[\u4e00-\u9fff]+$", before) is not None


def is_changed(found: Match, phrase: Phrase) -> bool:
    """ "同比+12%" and "（+12%）", not "底薪+10%提成"."""
    before = text_before(found, phrase)
    return not before[-1:].isalnum() or before.endswith(contexts.CHANGED)


def is_about_hundreds(found: Match, phrase: Phrase) -> bool:
    """ "几100块" and "高达数10亿", not "人数100" or "数100只羊"."""
    before = text_before(found, phrase).rstrip()
    if re.search(r"(?:^|[，。；、：\s了])数$", before[-2:]):
        return re.match(contexts.COUNTED_ALOUD, text_ahead(found, phrase)) is None
    return before.endswith("几") or re.search(f"{contexts.HUNDREDS_BEHIND}数$", before[-3:]) is not None


def begins_text(found: Match, phrase: Phrase) -> bool:
    return not text_before(found, phrase)


def is_difference(found: Match, phrase: Phrase) -> bool:
    """ "100-50" that is all of a text: a range goes up, and scores are told before."""
    numbers = [int(number) for number in re.findall(r"\d+", found.string)]
    is_all = re.fullmatch(r"\d+\s?[-–−]\s?\d+", found.string) is not None
    return is_all and not phrase.before + phrase.following and numbers[0] > max(numbers[1], 9)


def is_unplaced(found: Match, phrase: Phrase) -> bool:
    """ "30°N", not "北纬30°N"."""
    return not text_before(found, phrase).rstrip().endswith(("纬", "经"))


def is_no_autumn_day(found: Match, phrase: Phrase) -> bool:
    """ "3/10页" and "10/12个"; "10/15" is a day."""
    is_counted = text_ahead(found, phrase)[:1] in tuple("个人次份名只件块张题页桶杯天集章位台套")
    return is_counted or not (10 <= int(found["above"]) <= 12 and int(found["below"]) <= 31)


def is_no_month(found: Match, phrase: Phrase) -> bool:
    """ "9478.01点", not "2024.05" or "1988.06出生"."""
    is_year = "1900" <= found[0][:4] <= "2099"
    return not is_year or text_ahead(found, phrase).lstrip()[:1] in tuple("点元美欧万亿米克吨倍分%")


def is_bracketed(found: Match, phrase: Phrase) -> bool:
    """ "3.4%（+1.3pp）"."""
    return text_before(found, phrase)[-1:] in ("(", "（")


def is_added(found: Match, phrase: Phrase) -> bool:
    """ "主机+2个手柄", not "同比+12" or "记作+3米"."""
    is_apart = phrase.has_blank and not found.start()
    is_signed = text_before(found, phrase).endswith((*contexts.CHANGED, *contexts.SIGNED))
    return not is_apart and not is_signed and is_behind_word(found, phrase)


def is_no_ordinal(found: Match, phrase: Phrase) -> bool:
    """ "3/10天", not "第3/10天"."""
    return not is_ordinal(found, phrase)


def is_size(found: Match, phrase: Phrase) -> bool:
    return behind(contexts.SIZES)(found, phrase) and not behind(contexts.DURATIONS)(found, phrase)


def is_no_emergency(found: Match, phrase: Phrase) -> bool:
    """ "满120减20" and "90-110", not "打110或120", "120来了" or "110、119"."""
    before = text_before(found, phrase)[-14:]
    is_listed = text_ahead(found, phrase).startswith("、") and re.search(r"\d\D{1,3}$", before) is None
    is_called = is_listed or re.search(contexts.CALLED, before) is not None
    return not is_called and re.match(contexts.CALLING, text_ahead(found, phrase).lstrip()) is None


_LAST_DAY = re.compile(r"\s?[-–—~～至到]\s?1[0-2]\.\d{1,2}(?![\d.])")

_FIRST_DAY = re.compile(r"(?<![\d.])1[0-2]\.\d{1,2}\s?[-–—~～至到]\s?$")


def is_no_day(found: Match, phrase: Phrase) -> bool:
    """ "10.5" as a number; "国庆10.1" and "10.1为止" are days."""
    if behind(f"{contexts.VERSIONS}|{contexts.AMOUNTS}")(found, phrase):
        return True
    following = text_ahead(found, phrase).lstrip()
    if (last := _LAST_DAY.match(following)) or _FIRST_DAY.search(text_before(found, phrase)):
        return re.match(contexts.MEASURED, following[last.end() if last else 0 :]) is not None
    is_bracketed = re.search(f"(?:{contexts.BEFORE_DATE})[（(]$", text_before(found, phrase)) is not None
    is_dated = is_bracketed or behind(contexts.BEFORE_DATE)(found, phrase)
    return not following.startswith(contexts.OF_DATE) and not is_dated


def is_behind_latin(found: Match, phrase: Phrase) -> bool:
    """ "Chrome 119", which nobody dials."""
    return text_before(found, phrase).rstrip()[-1:] in LETTERS


def is_of_model(found: Match, phrase: Phrase) -> bool:
    """ "歼-35A", of no amperes."""
    return text_before(found, phrase).rstrip("-−").endswith(tuple(contexts.MODELS.split("|")))


def is_pressure(found: Match, phrase: Phrase) -> bool:
    return found["unit"] is not None or behind("血压|血压值")(found, phrase)


def is_division(found: Match, phrase: Phrase) -> bool:
    return int(found["above"]) >= int(found["below"])


def is_reduced_fraction(found: Match, phrase: Phrase) -> bool:
    """ "3/4kg" and "1/60s", not "5/10kg" and "10/21km", two of a kind."""
    above, below, unit = int(found["above"]), int(found["below"]), found["unit"]
    is_told = above == 1 or unit == "in" or (below in (2, 3, 4, 5, 8, 10) and unit not in _OF_CHARGERS)
    return is_told and above < below and gcd(above, below) == 1


_OF_CHARGERS = frozenset(("V", "W", "A", "Hz", "MHz", "GHz"))  # "3/5V"


def is_no_power(found: Match, phrase: Phrase) -> bool:
    """ "粉丝10w+", not the watts of "65w+快充"."""
    before = text_before(found, phrase)[-contexts.NEAR :]
    following = text_ahead(found, phrase)[: contexts.NEAR + 1]
    return re.search(contexts.POWERED, f"{before} {following}") is None


def is_earned(found: Match, phrase: Phrase) -> bool:
    """ "预算3w能买什么车" and the last of "月入2w-3w", not "功率提升至120W"."""
    before = text_before(found, phrase)
    return _EARNED.search(before) is not None and not _POWER.search(before) and is_no_power(found, phrase)


_EARNED = re.compile(
    rf"(?:{contexts.EARNED})(?:[是为约近超达过了破:：]|超过|突破|达到)?\s?(?:[\d.]+[wW万]?[-–—~～至到])?$"
)

_POWER = re.compile("(?:功率|快充|功耗|待机).{0,9}$")


def is_power(found: Match, phrase: Phrase) -> bool:
    """ "x⁴" and "(x-1)⁴", not the note of "(a)⁴"."""
    before = found.string[: found.start()]
    return before[-1:] != ")" or "=" in found.string or re.search(r"[-+−×÷*/\d][^()]*\)$", before) is not None


def is_calculated(found: Match, phrase: Phrase) -> bool:
    """A minus of "10-2×3" and of what is equal to something."""
    before, ahead = found.string[: found.start()], found.string[found.end() :]
    is_operand = re.match(r"[(（]|\d+(?:\.\d+)?\s?[×÷]", ahead) or re.search(r"[×÷]\s?\d+(?:\.\d+)?$", before)
    is_sum = "+" in found.string and re.fullmatch(r"[\d.\s+–−-]+", found.string) is not None
    return is_sum or is_operand is not None or re.search("[=≈]", found.string) is not None


def is_unquoted(found: Match, phrase: Phrase) -> bool:
    """ "24"显示器", where the mark closes no quotation."""
    return found[0][-1] == "n" or not (phrase.is_quoted or '"' in found.string[: found.start()])


def is_of_words(found: Match, phrase: Phrase) -> bool:
    """The sign of "甲=乙-5" and "面积=底×高/2"."""
    return re.search(contexts.FORMULA_OF_WORDS, text_before(found, phrase)) is not None
