"""Where digits and signs of a Chinese phrase are meant as a form, from the words beside them."""

import re
from collections.abc import Callable
from math import gcd
from string import ascii_letters, digits

from firstword.app.text.chinese import contexts
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation and signs are meant

_CODES = (*contexts.CODES.split("|"), "号", "码")

_AMOUNTS = tuple(f"{contexts.AMOUNTS}|{contexts.EARNED}".split("|"))
_LETTERS = tuple(ascii_letters)

_OF_FORMULAS = frozenset("=+×÷*^")
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


def is_reduced(found: Match, phrase: Phrase) -> bool:
    """ "满300-50" of a discount."""
    amount = re.search(r"满(\d+)$", text_before(found, phrase))
    less = re.match(r"\d+", found.string[found.end() :])
    return amount is not None and less is not None and int(less[0]) < int(amount[1])


def is_date_either_way(found: Match, phrase: Phrase) -> bool:
    first, second = int(found["first"]), int(found["second"])
    is_code = behind(f"{contexts.CODES}|码|凭|凭号")(found, phrase)
    return 0 < min(first, second) <= 12 and max(first, second) <= 31 and not is_code


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


def is_no_name(found: Match, phrase: Phrase) -> bool:
    """ "2年前" and "2台电脑", not "公元2年", "令和2年" or "央视2台"."""
    before = text_before(found, phrase).rstrip()
    return not before.endswith(("公元", "公元前", "视", "卫视", "央", "TV", *contexts.ERA_NAMES))


def is_counted(found: Match, phrase: Phrase) -> bool:
    """ "2个包", not "如图2所示" or "方案2"."""
    return not text_before(found, phrase).rstrip().endswith(contexts.NUMBERED)


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


def is_edition(found: Match, phrase: Phrase) -> bool:
    """The year of what has a Latin name: "Office 2019" and "APEC2022", not "iPhone 2019元" or "USD 2022"."""
    blank = " " if phrase.has_blank and not found.start() else ""
    name = re.search(
        r"(?:[A-Za-z]+ |[A-Za-z]{3,})$", f"{phrase.before}{blank}{found.string[: found.start()]}"
    )
    is_named = name is not None and name[0].strip() not in contexts.CODES_OF_MONEY
    return is_named and not text_ahead(found, phrase).lstrip().startswith(tuple(contexts.COUNTING))


def is_duration(found: Match, phrase: Phrase) -> bool:
    is_race = len(re.findall("[:：]", found[0])) > 1 and behind(contexts.RACES)(found, phrase)
    return is_race or behind(contexts.DURATIONS)(found, phrase)


def is_key(found: Match, phrase: Phrase) -> bool:
    """ "按2转人工", not "按2次"."""
    before = text_before(found, phrase).rstrip()
    return before.endswith("按") and not text_ahead(found, phrase).startswith(tuple(contexts.PRESSED))


def is_about_hundreds(found: Match, phrase: Phrase) -> bool:
    """ "几100块" and "高达数10亿", not "人数100" or "数100只羊"."""
    before = text_before(found, phrase).rstrip()
    if re.search(r"(?:^|[，。；、：\s了])数$", before[-2:]):
        return re.match(contexts.COUNTED_ALOUD, text_ahead(found, phrase)) is None
    return before.endswith("几") or re.search(f"{contexts.HUNDREDS_BEHIND}数$", before[-3:]) is not None


def is_alone(found: Match, phrase: Phrase) -> bool:
    """All that stands in brackets: "（2019）"."""
    before = text_before(found, phrase)[-1:]
    following = text_ahead(found, phrase)[:1]
    return before + following in ("（）", "()", "〔〕", "[]", "《》", "【】", "「」", "『』")


def is_whole(found: Match, phrase: Phrase) -> bool:
    """All of a text: "110" is dialed only where something tells so."""
    return not text_before(found, phrase) + text_ahead(found, phrase)


def begins_text(found: Match, phrase: Phrase) -> bool:
    return not text_before(found, phrase)


def is_difference(found: Match, phrase: Phrase) -> bool:
    """ "100-50" that is all of a text: a range goes up, and scores are told before."""
    numbers = [int(number) for number in re.findall(r"\d+", found.string)]
    is_all = re.fullmatch(r"\d+\s?[-–−]\s?\d+", found.string) is not None
    return is_all and not phrase.before + phrase.following and numbers[0] > max(numbers[1], 9)


def is_area(found: Match, phrase: Phrase) -> bool:
    """The code of an area or a land in brackets that are phrases by themselves: "（010）8888-6666"."""
    return text_before(found, phrase)[-1:] == "（" and phrase.following[:1] == "）"


def is_behind_area(found: Match, phrase: Phrase) -> bool:
    return re.search(r"（(?:0\d{2,3}|\+\d{1,3})）\s?$", text_before(found, phrase)) is not None


def is_unplaced(found: Match, phrase: Phrase) -> bool:
    """ "30°N", not "北纬30°N"."""
    return not text_before(found, phrase).rstrip().endswith(("纬", "经"))


def is_farewell(found: Match, phrase: Phrase) -> bool:
    """ "我先走了，88"."""
    before = text_before(found, phrase).rstrip(" ，,。.！!~～")
    is_apart = (
        not text_ahead(found, phrase)[:1].isalnum() and text_before(found, phrase)[-1:] not in before[-1:]
    )
    return is_apart and before.endswith(tuple(contexts.FAREWELLS.split("|")))


def is_before_title(found: Match, phrase: Phrase) -> bool:
    """ "86版《西游记》"."""
    return phrase.following.startswith("《")


def is_port(found: Match, phrase: Phrase) -> bool:
    """ "127.0.0.1:8080" and "ISO9001:2015"."""
    return _is_in_address(found) or re.search(r"(?:ISO|IEC|GB)\S*:$", text_before(found, phrase)) is not None


def is_of_minutes(found: Match, phrase: Phrase) -> bool:
    """ "配速5'08" and "5'30", which are no feet and inches."""
    return int(found["seconds"]) > 11 or behind(contexts.DURATIONS)(found, phrase)


def is_mask(found: Match, phrase: Phrase) -> bool:
    """ "10.0.0.1/24"."""
    return _is_in_address(found)


def _is_in_address(found: Match) -> bool:
    return re.search(r"\d(?:\.\d{1,3}){3}:?$", found.string[: found.start()]) is not None


def is_registered(found: Match, phrase: Phrase) -> bool:
    """ "沪ICP备12345678号-1"."""
    return re.search(r"备\d+号$", text_before(found, phrase)) is not None


def is_house_and_room(found: Match, phrase: Phrase) -> bool:
    """ "8-302", not "8-302天"."""
    return not text_ahead(found, phrase).lstrip()[:1].isalnum()


def is_dynasty(found: Match, phrase: Phrase) -> bool:
    """ "唐朝(618-907)" and "李白(701—762)"."""
    before = text_before(found, phrase).rstrip("(（ ")
    is_in_brackets = before != text_before(found, phrase) and text_ahead(found, phrase)[:1] in (")", "）")
    years = int(found["last"]) - int(found["first"])
    is_life = 14 < years < 100 and _NAMED.search(before) is not None
    return is_in_brackets and years > 0 and (is_life or before.endswith(contexts.DYNASTIES))


_NAMED = re.compile(rf"(?:^|[^\u4e00-\u9fff]|诗人|皇帝)[{contexts.SURNAMES}][\u4e00-\u9fff]{{1,2}}$")


def is_cited_year(found: Match, phrase: Phrase) -> bool:
    """ "王某等(2019,第14页)" and "(王某,2019)"."""
    before = text_before(found, phrase)
    return re.search(r"等\s?[(（]$|[(（][^()（）\d]*[,，]\s?$", before) is not None


def is_verse(found: Match, phrase: Phrase) -> bool:
    """ "约翰福音3:16"."""
    return re.search(rf"(?:{contexts.BOOKS})\s?$", text_before(found, phrase)) is not None


def is_no_autumn_day(found: Match, phrase: Phrase) -> bool:
    """ "3/10页" and "10/12个"; "10/15" is a day."""
    is_counted = text_ahead(found, phrase)[:1] in tuple("个人次份名只件块张题页桶杯天集章位台套")
    return is_counted or not (10 <= int(found["above"]) <= 12 and int(found["below"]) <= 31)


def is_no_month(found: Match, phrase: Phrase) -> bool:
    """ "9478.01点", not "2024.05" or "1988.06出生"."""
    is_year = "1900" <= found[0][:4] <= "2099"
    return not is_year or text_ahead(found, phrase).lstrip()[:1] in tuple("点元美欧万亿米克吨倍分%")


def is_behind_house(found: Match, phrase: Phrase) -> bool:
    """ "3号楼1205" and "B座1205", "我住1801" and "12号302" where nothing is counted."""
    before = text_before(found, phrase).rstrip(" -")
    if re.search(r"住在?$|\d[层楼]$|(?<![月\d])\d{1,2}号$", before):
        return not text_ahead(found, phrase)[:1].isalnum()
    return re.search("(?:单元|[栋幢]|号楼|[A-Za-z]座)$", before) is not None


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


def is_rising(found: Match, phrase: Phrase) -> bool:
    return found["first"] < found["last"]


def is_behind_word(found: Match, phrase: Phrase) -> bool:
    return text_before(found, phrase)[-1:].isalpha()


def is_bracketed(found: Match, phrase: Phrase) -> bool:
    """ "3.4%（+1.3pp）"."""
    return text_before(found, phrase)[-1:] in ("(", "（")


def is_added(found: Match, phrase: Phrase) -> bool:
    """ "主机+2个手柄", not "同比+12" or "记作+3米"."""
    is_apart = phrase.has_blank and not found.start()
    is_signed = text_before(found, phrase).endswith((*contexts.CHANGED, *contexts.SIGNED))
    return not is_apart and not is_signed and is_behind_word(found, phrase)


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


def is_ordinal(found: Match, phrase: Phrase) -> bool:
    """ "第2名" and the last of "第1-2名"."""
    before = text_before(found, phrase)
    is_last = before[-1:] in _TILL_OR_AND and re.search(r"第\d+\s?.$", before) is not None
    return is_last or before.endswith("第")


def is_no_ordinal(found: Match, phrase: Phrase) -> bool:
    """ "3/10天", not "第3/10天"."""
    return not is_ordinal(found, phrase)


def is_extension(found: Match, phrase: Phrase) -> bool:
    before = found.string[: found.start()][-8:] or phrase.before[-8:]
    return before[-1:] == "转" and re.search(r"\d\s?转$", phrase.before[-8:] + before) is not None


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


def is_standard(found: Match, phrase: Phrase) -> bool:
    """ "ISO 9001" and "GB/T 19001-2016", in one phrase or two."""
    return (
        re.search(r"(?<![\dA-Za-z])(?:ISO|IEC|GB(?:/T)?|[A-Z]{2}/T)\s*$", text_before(found, phrase))
        is not None
    )


def is_size(found: Match, phrase: Phrase) -> bool:
    return behind(contexts.SIZES)(found, phrase) and not behind(contexts.DURATIONS)(found, phrase)


def is_plate(found: Match, phrase: Phrase) -> bool:
    before = text_before(found, phrase).rstrip(" .-")
    return re.search(f"[{contexts.PROVINCES}][A-Z]{{1,3}}$", before) is not None


def is_no_plate(found: Match, phrase: Phrase) -> bool:
    """ "AD 618", not "京AD1234Z"."""
    return text_before(found, phrase)[-1:] not in tuple(contexts.PROVINCES)


def is_masked(found: Match, phrase: Phrase) -> bool:
    """ "138****8000", whose stars are not said."""
    return f"{found[0]}***" in phrase.source or f"{found[0][:3]}***" in phrase.source


def is_range_of_codes(found: Match, phrase: Phrase) -> bool:
    """ "编号10001-10050", two that begin alike and rise."""
    low, high = found["low"], found["high"]
    if len(low) != len(high) or low >= high:
        return False
    half = (len(low) + 1) // 2
    is_round = low.endswith(("00", "01")) and high.endswith("0")
    return (low[:half] == high[:half] or is_round) and behind(contexts.CODES)(found, phrase)


def is_no_emergency(found: Match, phrase: Phrase) -> bool:
    """ "满120减20" and "90-110", not "打110或120", "120来了" or "110、119"."""
    before = text_before(found, phrase)[-14:]
    is_listed = text_ahead(found, phrase).startswith("、") and re.search(r"\d\D{1,3}$", before) is None
    is_called = is_listed or re.search(contexts.CALLED, before) is not None
    return not is_called and re.match(contexts.CALLING, text_ahead(found, phrase).lstrip()) is None


def is_code_of_length(found: Match, phrase: Phrase) -> bool:
    """ "验证码6位：482913"."""
    before = text_before(found, phrase)
    length = _LENGTH_OF_CODE.search(before[-8:])
    return length is not None and before.removesuffix(length[0]).endswith(_CODES)


_LENGTH_OF_CODE = re.compile(r"[\d一-十]{1,2}位(?:数字?)?[是为:：]\s?$")


def is_next_code(found: Match, phrase: Phrase) -> bool:
    """The last of "尾号1234和5678" and "密码是0000或1234"."""
    return _CODE_BEFORE.search(text_before(found, phrase)) is not None


_CODE_BEFORE = re.compile(
    rf"(?:(?:{contexts.CODES})(?:[是为:：]|分别[是为])?\s?\d{{2,}}|码(?:[是为:：]|分别[是为])?\s?\d{{3,}})(?:[、，]\d{{3,}})*[或和与、]\s?$"
)


def is_gate(found: Match, phrase: Phrase) -> bool:
    """ "登机口由208变更为213"."""
    return _GATE_BEFORE.search(text_before(found, phrase)) is not None


_GATE_BEFORE = re.compile(r"登机口(?:[是为由从在:：])?(?:\d+)?(?:变?[更改][为到至])?\s?$")


def is_in_brackets(found: Match, phrase: Phrase) -> bool:
    """ "验证码(1234)"."""
    before = text_before(found, phrase)
    return before[-1:] in ("(", "（") and before[:-1].rstrip().endswith((*_CODES, "ETF", "LOF", "基金"))


def is_local_telephone(found: Match, phrase: Phrase) -> bool:
    """ "8888-6666" that is all of a text, and no years."""
    return is_whole(found, phrase) and found[0][:4] > found[0][-4:] and found[0][:2] not in ("19", "20")


def is_told_day(found: Match, phrase: Phrase) -> bool:
    """ "05-20开会", no code and not "05-08年"; what lists numbers is told before it."""
    is_counted = re.match(contexts.COUNTED_BEHIND, text_ahead(found, phrase).lstrip()) is not None
    return not is_counted and not behind(f"{contexts.CODES}|版本|批次")(found, phrase)


def is_range_of_numbers(found: Match, phrase: Phrase) -> bool:
    """ "练习01-10" and "01-05集"; codes are read otherwise."""
    is_listed = re.match(rf"\s?(?:{contexts.LISTED})", text_ahead(found, phrase)) is not None
    is_rising = found["low"] < found["high"] and not behind(contexts.CODES)(found, phrase)
    return is_rising and (is_listed or behind(contexts.LISTS)(found, phrase))


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


def is_floor(found: Match, phrase: Phrase) -> bool:
    """ "12/33层", of a house, no part."""
    return 5 < int(found["pages"]) >= int(found["page"])


def is_day_with_time(found: Match, phrase: Phrase) -> bool:
    """ "11.1 00:00-11.3 23:59"."""
    return is_date(found, phrase) and _TIMED.search(text_before(found, phrase)) is not None


_TIMED = re.compile(r"(?:时间|日期|活动|:\d\d\s?[-–—~～至到])[:：]?\s?$")


def is_next_month(found: Match, phrase: Phrase) -> bool:
    return int(found["next"]) == int(found["month"]) + 1 <= 12


def is_of_series(found: Match, phrase: Phrase) -> bool:
    """ "Windows 10/11" and "iPhone 14/15"."""
    return re.search(rf"(?<![A-Za-z])(?:{contexts.SERIES})\s?$", text_before(found, phrase)) is not None


def is_done(found: Match, phrase: Phrase) -> bool:
    """ "收集5颗灵石(2/5)": of so many as are told."""
    return (
        re.search(rf"(?<!\d){found['all']}[\u4e00-\u9fff]{{1,10}}[(（]$", text_before(found, phrase))
        is not None
    )


def is_of_gauge(found: Match, phrase: Phrase) -> bool:
    """ "HP: 350/500"."""
    return re.search(rf"(?:{contexts.GAUGES})\s?[:：]?\s?$", text_before(found, phrase)) is not None


def is_forecast(found: Match, phrase: Phrase) -> bool:
    """ "周日晴，0/10℃"."""
    return re.search(contexts.FORECASTS, text_before(found, phrase)[-12:]) is not None


def is_next_year(found: Match, phrase: Phrase) -> bool:
    return int(found["last"]) == (int(found["first"]) + 1) % 100


def is_range_of_days(found: Match, phrase: Phrase) -> bool:
    """ "2024.3.8-3.10", days that rise."""
    month, day = int(found["month"]), int(found["day"])
    last = (int(found["last_month"] or month), int(found["last_day"]))
    return 0 < day <= 31 and last[0] <= 12 and (month, day) < last and last[1] <= 31


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


def is_code(found: Match, phrase: Phrase) -> bool:
    """ "序列号X9K2-77PL", whose letters and digits are one word."""
    before = text_before(found, phrase)
    named = before.rstrip(f"{ascii_letters}{digits}-").rstrip("是为:： ")
    is_day = re.search(r"[\d一二三四五六七八九十]号$", named) is not None
    return named.endswith(_CODES) and not is_day


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
    return text_before(found, phrase).rstrip()[-1:] in _LETTERS


def is_behind_name(found: Match, phrase: Phrase) -> bool:
    """ "Qwen2.5-72B": the size of a model."""
    return re.search(r"[A-Za-z]{3}[ -]?[\d.]+$", text_before(found, phrase)) is not None


def is_model(found: Match, phrase: Phrase) -> bool:
    return text_before(found, phrase).endswith(tuple(contexts.MODELS.split("|")))


def is_of_model(found: Match, phrase: Phrase) -> bool:
    """ "歼-35A", of no amperes."""
    return text_before(found, phrase).rstrip("-−").endswith(tuple(contexts.MODELS.split("|")))


def is_in_building(found: Match, phrase: Phrase) -> bool:
    """ "A座-1903" and "3栋-2单元-501", not "1单元-2单元"."""
    part = re.search(r"[A-Za-z\d](?P<kind>座|[栋幢]|单元|号楼)$", text_before(found, phrase))
    return part is not None and re.match(rf"\d+{part['kind']}", text_ahead(found, phrase)) is None


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


def is_behind_room(found: Match, phrase: Phrase) -> bool:
    """ "教室305" and "会议室1203", not "教室有305"."""
    return re.search(rf"(?:{contexts.ROOMS})\s?[:：]?\s?$", text_before(found, phrase)) is not None


def is_room(found: Match, phrase: Phrase) -> bool:
    """ "305房间", not "有500房间" of a hotel."""
    before = text_before(found, phrase).rstrip()[-1:]
    return not found[0].endswith("00") and (not before or before not in contexts.ROOMS_COUNTING)


def is_no_formula(found: Match, phrase: Phrase) -> bool:
    return "=" not in found.string


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


def is_of_match(found: Match, phrase: Phrase) -> bool:
    """ "第90'" and "90'进球", a minute of a match."""
    is_event = text_ahead(found, phrase).startswith(contexts.EVENTS_OF_MATCH)
    return is_event or text_before(found, phrase).endswith("第")


def is_exclaimed(found: Match, phrase: Phrase) -> bool:
    """ "666，太强了": all that stands between two marks, or a mark and an end."""
    before, following = text_before(found, phrase)[-2:], text_ahead(found, phrase)[:2]
    marks = f"{before[-1:]}{following[:1]}"
    is_answer = before[-1:] in ("？", "?") or any(char.isdigit() for char in before + following)
    is_between = marks != "" and not marks.strip("，。！？!?~～ \n") and not is_answer
    return is_between or (found[0][0] == "9" and behind(contexts.WORKED)(found, phrase))


def is_laughed(found: Match, phrase: Phrase) -> bool:
    """ "哈哈哈2333" that counts nothing."""
    is_counted = text_ahead(found, phrase).lstrip()[:1].isalnum()
    before = text_before(found, phrase)[-1:]
    is_praised = text_ahead(found, phrase).startswith(contexts.PRAISED) and not before.isalnum()
    return is_praised or (before in tuple(contexts.LAUGHED) and not is_counted)


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
    return is_edition or text_before(found, phrase).strip()[-1:] in _LETTERS


def is_record(found: Match, phrase: Phrase) -> bool:
    """ "9秒83破纪录", not "每10秒20"."""
    return re.search(r"(?:每|冷却)\d+秒$", text_before(found, phrase)) is None


def is_elided(found: Match, phrase: Phrase) -> bool:
    """ "'98年的夏天", not "'20年'"."""
    return re.search("['’]", text_ahead(found, phrase)) is None


def is_year_of_entry(found: Match, phrase: Phrase) -> bool:
    """ "08级新生", not "钢琴10级学生"."""
    return not behind(contexts.GRADED)(found, phrase)


def is_shopping(found: Match, phrase: Phrase) -> bool:
    """ "双11.11", not "一双9.9元"."""
    before = text_before(found, phrase)
    return before.endswith("双") and before[-2:-1] not in tuple("一这那买每两几")


def is_of_words(found: Match, phrase: Phrase) -> bool:
    """The sign of "甲=乙-5" and "面积=底×高/2"."""
    return re.search(contexts.FORMULA_OF_WORDS, text_before(found, phrase)) is not None


def is_quoted_reply(found: Match, phrase: Phrase) -> bool:
    """ "回复“666”领取"."""
    is_told = (
        re.search(
            rf"(?:{contexts.REPLIED}|{contexts.CODES})[是为:：]?\s?[“\"「]$", text_before(found, phrase)
        )
        is not None
    )
    return is_told and text_ahead(found, phrase)[:1] in ("”", '"', "」")


def has_equals(found: Match, phrase: Phrase) -> bool:
    return "=" in found.string
