"""Where dates, times and durations are meant."""

import re
from math import gcd

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions.condition import (
    LETTERS,
    Match,
    behind,
    is_whole,
    text_ahead,
    text_before,
)
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant

_AMOUNTS = tuple(f"{contexts.AMOUNTS}|{contexts.EARNED}".split("|"))

_is_dated = behind(f"每年|今年|明年|去年|前年|后年|{contexts.BEFORE_DAY}")


def is_date(found: Match, phrase: Phrase) -> bool:
    return 1 <= int(found["month"]) <= 12 and 1 <= int(found["day"]) <= 31


def is_holidays(found: Match, phrase: Phrase) -> bool:
    """ "假期(5.1-5.5)", not "增长5.1-5.5"."""
    before = text_before(found, phrase).rstrip("(（:： ")
    has_days = all(
        1 <= int(found[f"{end}month"]) <= 12 and 1 <= int(found[f"{end}day"]) <= 31 for end in ("", "last_")
    )
    is_apart = text_before(found, phrase).strip()[-1:] in ("", *"，,。；;：:、（(！!？?")
    is_held = is_apart and re.match(contexts.HELD, text_ahead(found, phrase)) is not None
    return has_days and (is_held or before.endswith(tuple(contexts.HOLIDAYS.split("|"))))


def is_days(found: Match, phrase: Phrase) -> bool:
    """ "5/1-5/5放假", not "1/2-3/4杯"."""
    days = [(int(found[f"{end}month"]), int(found[f"{end}day"])) for end in ("", "last_")]
    if "=" in found.string or not all(1 <= month <= 12 and 1 <= day <= 31 for month, day in days):
        return False
    if days[0][0] == days[1][0] and days[0][1] >= days[1][1]:
        return False
    is_rising = 1 < days[0][0] == days[1][0] and days[0][1] < days[1][1]  # "3/8-3/10"
    ahead = text_ahead(found, phrase)
    is_told = not ahead[:1].isalnum() or re.match(f"{contexts.HELD}|{contexts.DAYS_BEHIND}", ahead)
    return (is_rising and bool(is_told)) or any(day > 12 or day <= month for month, day in days)


def is_date_either_way(found: Match, phrase: Phrase) -> bool:
    first, second = int(found["first"]), int(found["second"])
    is_code = behind(f"{contexts.CODES}|码|凭|凭号")(found, phrase)
    return 0 < min(first, second) <= 12 and max(first, second) <= 31 and not is_code


def is_duration(found: Match, phrase: Phrase) -> bool:
    is_race = len(re.findall("[:：]", found[0])) > 1 and behind(contexts.RACES)(found, phrase)
    return is_race or behind(contexts.DURATIONS)(found, phrase)


def is_of_minutes(found: Match, phrase: Phrase) -> bool:
    """ "配速5'08" and "5'30", which are no feet and inches."""
    return int(found["seconds"]) > 11 or behind(contexts.DURATIONS)(found, phrase)


def is_dynasty(found: Match, phrase: Phrase) -> bool:
    """ "唐朝(618-907)" and "李白(701—762)"."""
    before = text_before(found, phrase).rstrip("(（ ")
    is_in_brackets = before != text_before(found, phrase) and text_ahead(found, phrase)[:1] in (")", "）")
    years = int(found["last"]) - int(found["first"])
    is_life = 14 < years < 100 and _NAMED.search(before) is not None
    return is_in_brackets and years > 0 and (is_life or before.endswith(contexts.DYNASTIES))


_NAMED = re.compile(rf"(?:^|[^\u4e00-\u9fff]|诗人|皇帝)[{contexts.SURNAMES}][\u4e00-\u9fff]{{1,2}}$")


def is_years(found: Match, phrase: Phrase) -> bool:
    """ "2018-2020" that stands alone, "任期2018-2020" and "1978-2018四十年", not "销量从2000到2020"."""
    if found["first"] >= found["last"]:
        return False
    ahead = text_ahead(found, phrase).lstrip()
    if ahead[:1].isalnum() and re.match(contexts.YEARS_TOLD, ahead) is None:
        return False
    before = text_before(found, phrase).rstrip().rstrip("从自由")
    if "到" not in found[0]:
        return not before.endswith(_AMOUNTS)
    is_money = re.search("[租资薪价额费]在$", before) is not None
    is_told = before[-1:] in _APART or before.endswith(tuple(contexts.BEFORE_YEARS.split("|")))
    return is_told and not is_money


def is_month(found: Match, phrase: Phrase) -> bool:
    return 1 <= int(found["month"]) <= 12 and 1900 <= int(found["year"]) <= 2099


def is_short_year(found: Match, phrase: Phrase) -> bool:
    """ "98年", not "12年" that somebody waited."""
    following = found.string[found.end() : found.end() + 1] or phrase.following[:1]
    if re.match(
        r"\d{1,2}月|[上下]半|末|[春夏秋冬]季?(?![天秋])|的(?:[春夏秋冬酒]|老歌|那|世界杯|款)|初(?![中高级步学等恋])|底(?![薪层部])|春节|国庆|高考|的(?=[，。！？,]|$)",
        text_ahead(found, phrase),
    ):
        return True
    before = text_before(found, phrase).rstrip()[-1:]
    if (following and following in contexts.YEAR_COUNTED) or (before and before in contexts.YEAR_COUNTING):
        return False
    return found["digits"][0] in "06789"


def is_era_year(found: Match, phrase: Phrase) -> bool:
    """ "（公元前221年—前207年）", not "目前221年"."""
    before = re.sub(r"\d{1,4}年?\s?[-－–—~～至到]\s?$", "", text_before(found, phrase))
    if before.rstrip().endswith(tuple(contexts.ERAS)):
        return True
    if len(found["digits"]) > 3 or found["digits"].endswith("00"):
        return False
    following = text_ahead(found, phrase)
    is_span = before != text_before(found, phrase) or re.match(r"年?\s?[-–—~～至到]\s?\d{3,4}年", following)
    if is_span and before[-1:] in ("", *"（(，,、。；：于自从在"):
        return True
    is_told = re.search("(?:[（(自]|(?<!存)[于在])$", before) is not None
    return is_told or re.search(r"(?:^|[\s（(，,、。；：—–~～\-至到])前$", before) is not None


def is_no_plate(found: Match, phrase: Phrase) -> bool:
    """ "AD 618", not "京AD1234Z"."""
    return text_before(found, phrase)[-1:] not in tuple(contexts.PROVINCES)


def is_told_day(found: Match, phrase: Phrase) -> bool:
    """ "05-20开会", no code and not "05-08年"; what lists numbers is told before it."""
    is_counted = re.match(contexts.COUNTED_BEHIND, text_ahead(found, phrase).lstrip()) is not None
    return not is_counted and not behind(f"{contexts.CODES}|版本|批次")(found, phrase)


_APART = frozenset(("", *"，,。；;：:、（(！!？?【[-~～至到\n"))


def is_day_of_year(found: Match, phrase: Phrase) -> bool:
    """ "明年2/14", "今年3/8放假" and "入住7/15", not "今年1/3的时间"."""
    month, day, ahead = int(found["month"]), int(found["day"]), text_ahead(found, phrase).lstrip()
    is_part = month < day <= 12 and ahead[:1].isalnum() and re.match(contexts.BEHIND_DAY, ahead) is None
    before = text_before(found, phrase)
    is_term = before.endswith("在") and ahead.startswith(("前", "之前", "以前"))
    is_told = is_term or _is_dated(found, phrase) or _DAY_TOLD.search(before) is not None
    return not is_part and ahead[:1] not in _OF_PROGRESS and is_told


_DAY_TOLD = re.compile(r"(?:今天|昨天|明天|后天|最[晚迟早]|(?:周|星期)[一二三四五六日天])(?:是|\s?[（(])?$")

_OF_PROGRESS = frozenset("人位名个集章话件题页台份套单天次")  # behind "报名10/20"


def is_no_part(found: Match, phrase: Phrase) -> bool:
    """ "我3/12到北京", not "约1/20来自"."""
    month, day = int(found["month"]), int(found["day"])
    is_told = re.search(contexts.TRAVELERS, text_before(found, phrase)) is not None
    return is_told and (day > 12 or month >= day or gcd(month, day) > 1)


def is_no_tally(found: Match, phrase: Phrase) -> bool:
    """ "10/2/15", a day, not of "战绩10/2/15"."""
    return is_date(found, phrase) and not behind("KDA|战绩|数据|K/D/A")(found, phrase)


def is_day_with_time(found: Match, phrase: Phrase) -> bool:
    """ "11.1 00:00-11.3 23:59"."""
    return is_date(found, phrase) and _TIMED.search(text_before(found, phrase)) is not None


_TIMED = re.compile(r"(?:时间|日期|活动|:\d\d\s?[-–—~～至到])[:：]?\s?$")


def is_next_month(found: Match, phrase: Phrase) -> bool:
    return int(found["next"]) == int(found["month"]) + 1 <= 12


def is_range_of_days(found: Match, phrase: Phrase) -> bool:
    """ "2024.3.8-3.10", days that rise."""
    month, day = int(found["month"]), int(found["day"])
    last = (int(found["last_month"] or month), int(found["last_day"]))
    return 0 < day <= 31 and last[0] <= 12 and (month, day) < last and last[1] <= 31


def is_of_match(found: Match, phrase: Phrase) -> bool:
    """ "第90'" and "90'进球", a minute of a match."""
    is_event = text_ahead(found, phrase).startswith(contexts.EVENTS_OF_MATCH)
    return is_event or text_before(found, phrase).endswith("第")


def is_decade(found: Match, phrase: Phrase) -> bool:
    """ "80s风格" and "1990s", not "等30s" and "60s倒计时"."""
    if found["century"] is not None:
        return True
    last = re.search(r"(\d+)(s?)\s?[-–—~～到至]\s?$", text_before(found, phrase))
    before = text_before(found, phrase)[: last.start()] if last is not None else ""
    is_till = last is not None and (int(last[1]) < 50 or not last[2])  # "30s-60s" and "30~60s"
    is_styled = re.match(contexts.STYLED, text_ahead(found, phrase)) is not None
    if is_till and is_styled and last is not None and "50" <= last[1] < found["digits"]:
        return not before.endswith("等")  # "60-70s摇滚"
    if is_till or (found["digits"] < "70" and is_whole(found, phrase)):
        return False
    is_waited = re.match(contexts.SECONDS, text_ahead(found, phrase)) is not None
    return found["digits"] >= "50" and not is_waited and not behind(contexts.SECONDS_BEHIND)(found, phrase)


def is_release_day(found: Match, phrase: Phrase) -> bool:
    """ "24.03.15更新", not "版本21.10.12"."""
    before, ahead = text_before(found, phrase).strip(), text_ahead(found, phrase).strip()
    is_told = ahead.startswith(("更新", "发布", "上线", "日")) or not before + ahead
    return is_date(found, phrase) and is_told and not _is_of_version(found, phrase)


def is_written_day(found: Match, phrase: Phrase) -> bool:
    """ "今天是24.1.5" and "24-01-05", not "版本24.1.5" or "24.1.5版"."""
    is_coded = found[0].count("-") > 0 and behind(contexts.CODES)(found, phrase)
    is_edition = text_ahead(found, phrase).lstrip().startswith(("版", "固件", "系统", "内核"))
    return is_date(found, phrase) and not (is_coded or is_edition or _is_of_version(found, phrase))


def _is_of_version(found: Match, phrase: Phrase) -> bool:
    is_edition = behind(f"{contexts.VERSIONS}|{contexts.EDITIONS}")(found, phrase)
    return is_edition or text_before(found, phrase).strip()[-1:] in LETTERS


def is_shopping(found: Match, phrase: Phrase) -> bool:
    """ "双11.11", not "一双9.9元"."""
    before = text_before(found, phrase)
    return before.endswith("双") and before[-2:-1] not in tuple("一这那买每两几")
