"""Dates and times; the first that fits, in this order, is taken."""

from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions import amounts, condition, dates
from firstword.app.text.chinese.conditions.condition import Condition
from firstword.app.text.chinese.rules.patterns import HALF, LISTED, TILL_ERA

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

DATES: Final[tuple[tuple[str, str, Condition | None], ...]] = (
    (
        "date.span",
        r"(?<!\d)(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})\s?(?!\2)[-–—~～至到]\s?"
        r"(?:(?P<last_month>\d{1,2})\2)?(?P<last_day>\d{1,2})(?![\d./:点时-])日?",
        dates.is_range_of_days,
    ),
    (
        "date.month_day",
        r"(?<![\w./-])(?P<month>0?[1-9]|1[0-2])-(?P<day>0[1-9]|[12]\d|3[01])(?=\s\d{1,2}:\d\d)"
        r"",
        dates.is_told_day,
    ),
    (
        "date.month_day",
        r"(?<![\w./-])(?P<month>1[0-2])-(?P<day>0[1-9])(?![\w./:%-]|\s?[元个人件分块米])",
        dates.is_told_day,
    ),
    (
        "date.month_day",
        r"(?<![A-Za-z\d./-])(?P<month>0[1-9])-(?P<day>0[1-9]|[12]\d|3[01])(?![A-Za-z\d./:%-])",
        dates.is_told_day,
    ),
    (
        "date.day",
        r"(?<![\w.,/])(?P<month>1[0-2]|0?[1-9])/(?P<day>[12]\d|3[01]|0?[1-9])(?![\d/.%])",
        dates.is_day_of_year,
    ),
    (
        "date.day",
        r"(?<![\w.,/])(?P<month>1[0-2]|0?[1-9])/(?P<day>[12]\d|3[01]|0?[1-9])(?=[去来到回飞出])",
        dates.is_no_part,
    ),
    (
        "date.next_month",
        r"(?<![\d/.\s])(?P<month>\d{1,2})/(?P<next>\d{1,2})(?=月(?:$|[^\u4e00-\u9fff]|[份中底初末的上下间去就天气出开是在有可放会要或]))",
        dates.is_next_month,
    ),
    (
        "date.month_day",
        r"(?<![\d./])(?P<month>1[0-2]|[1-9])\.(?P<day>\d{1,2})(?=\s\d{1,2}:\d\d)",
        dates.is_day_with_time,
    ),
    (
        "date.full",
        r"(?<!\d)(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?![\d.])日?",
        dates.is_date,
    ),
    (
        "date.full",
        r"(?<![\d/])(?P<year>\d{2})/(?P<month>\d{1,2})/(?P<day>\d{1,2})(?![\d/])",
        dates.is_no_tally,
    ),
    (
        "date.written",
        r"(?<![\w.,-])(?P<year>1[3-9]|2\d|9\d|[05-8]\d(?=\.\d\d\.\d\d))\.(?P<month>\d{1,2})\.(?P<day>\d{1,2})(?![\w.])",
        dates.is_written_day,
    ),
    (
        "date.full",
        r"(?<![\d.])(?P<year>[12]\d)\.(?P<month>0[1-9]|1[0-2])\.(?P<day>[0-3]\d)(?![\d.])",
        dates.is_release_day,
    ),
    (
        "date.either_way",
        r"(?<![\d/])(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})(?![\d/])",
        dates.is_date_either_way,
    ),
    (
        "date.year_and_month",
        r"(?<![\d/])(?P<year>\d{4})[-/](?P<month>\d{1,2})(?![\d/]|-(?!\d{4}/))",
        dates.is_month,
    ),
    ("decimal.number", r"(?<![\d.,])\d{5,}\.\d+(?![\d.%]|\s?[A-Za-z°℃℉μµΩ㎎-㏎])", None),
    ("decimal.number", r"(?<![\d.,])\d{4}\.(?:0[1-9]|1[0-2])(?![\d.%]|\s?[A-Za-z])", amounts.is_no_month),
    (
        "date.day",
        r"(?<![\w.,/])(?P<month>1[0-2]|0?[1-9])/(?P<day>[12]\d|3[01]|0?[1-9])"
        rf"(?=(?:{contexts.DAYS_BEHIND})|\s\d{{1,2}}:\d\d)",
        None,
    ),
    (
        "fraction.plain",
        r"(?<![\w.,/])(?P<above>\d{1,3})/(?P<below>\d{2,3})(?![\d/.%])",
        condition.behind("满分|得分|已完成"),
    ),
    ("fraction.plain", r"(?<![\w.,/])(?P<above>\d\.\d)/(?P<below>10|5)(?:分(?!钟)|(?![\w/.%]))", None),
    (
        "date.day",
        r"(?<![\w.,/])(?P<month>1[0-2])/(?P<day>1[3-9]|2\d|3[01])(?![\d/.%])(?:[号日](?!元)|(?=更新|多云|晴|阴|冬至|[小中大暴][雨雪]))",
        None,
    ),
    (
        "fraction.plain",
        r"(?<![\w.,/])(?P<above>\d{1,4})/(?P<below>\d{2,4})(?=[\u3400-\u9fff])(?![日号年月]|赛季|学年|财年)",
        amounts.is_no_autumn_day,
    ),
    ("serial.slashes", r"(?<!\d)1[4-9]\d/\d{2,3}(?=[ABCY](?![A-Za-z\d]))", None),
    (
        "fraction.measured",
        rf"(?<![\w.,/])(?P<above>\d{{1,3}})/(?P<below>\d{{1,4}})\s?(?P<unit>{LISTED}|in)(?![A-Za-z\d]|/[A-Za-z\d])",
        amounts.is_reduced_fraction,
    ),
    ("formula.beside", rf"(?<=\d)/(?=\d+(?:/\d+)*\s?(?:{LISTED}|[GMT]B?)(?![A-Za-z\d]|/\d))", None),
    (
        "fraction.letter",
        r"(?<![\w./])(?P<above>\d{1,3})/(?P<letter>[xyn])(?![\w/])|(?<![\w./])(?P<of>x)/(?P<below>\d{1,3})(?![\w/])",
        condition.is_no_formula,
    ),
    ("serial.tire", r"(?<![\d/])(?P<width>\d{3})/(?P<share>\d\d)\s?Z?R(?P<rim>\d\d)(?!\d)", None),
    (
        "serial.slashes",
        r"(?<=\b[LCT])(?P<first>\d{1,2})/(?P<last>\d{1,2})(?![\w./])",
        condition.is_next_year,
    ),
    ("serial.slashes", r"(?<![\w./])\d{1,3}(?:/\d{1,3}){2,4}(?![\w./])", None),
    ("serial.slashes", r"(?<![\w./])(?P<same>(?!1[0-2]/)\d{2,4})/(?P=same)(?![\w./])", None),
    (
        "date.months",
        r"(?<![\d/.-])(?P<first>(?:19|20)\d\d)\.(?P<month>0?[1-9]|1[0-2])\s?[-–—~～至到]\s?"
        r"(?P<last>(?:19|20)\d\d)\.(?P<last_month>0?[1-9]|1[0-2])(?![\d.]|\s?[元%个倍])",
        None,
    ),
    ("date.quarter", r"(?<!\d)(?P<year>\d{4})年?(?:Q(?P<quarter>[1-4])|H(?P<half>[12]))(?!\d)", None),
    (
        "date.full",
        r"(?<![\w.,-])(?P<year>19\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
        r"(?![\d.,%元块人个万亿次只名位])",
        None,
    ),
    (
        "date.season",
        r"(?<!\d)(?P<first>1[5-9]\d\d|20\d\d)\s?[-–—]\s?(?P<last>1[5-9]\d\d|20\d\d)(?!\d)",
        condition.is_alone,
    ),
    (
        "date.season",
        r"(?<![\d.,/~-])(?P<first>1[89]\d\d|20\d\d)\s?[-–—~～到]\s?(?P<last>1[89]\d\d|20\d\d)(?![\d.,%/-])",
        dates.is_years,
    ),
    (
        "date.season",
        r"(?<!\d)(?P<first>[1-9]\d{2,3})\s?[-–—~～]\s?(?P<last>[1-9]\d{2,3})(?!\d)",
        dates.is_dynasty,
    ),
    (
        "serial.long",
        r"(?<!\d)(?:(?:19|20)\d\d|(?:60[0135]|688|00[0-3]|30[01])\d{3})(?!\d)",
        condition.is_alone,
    ),
    (
        "date.season",
        r"(?<!\d)(?P<first>19\d\d|20\d\d)[/-](?P<last>\d\d(?:\d\d)?)(?=赛季|学年|财年|年度)",
        None,
    ),
    (
        "date.season",
        r"(?<![\d.])(?P<first>\d\d)[/-](?P<last>\d\d)(?=赛季|学年|财年)",
        condition.is_next_year,
    ),
    (
        "date.season",
        rf"(?<![\d.])(?P<first>[6-9][1-9])\s?[-–—~～至到]\s?(?P<last>[6-9]\d)(?=年(?!{contexts.YEARS_COUNTED}|[{contexts.YEAR_COUNTED}]))",
        condition.is_rising,
    ),
    (
        "date.years",
        rf"(?<!\d)(?P<first>\d{{4}}年)\s?(?P<till>[-–—~～])\s?(?P<last>(?:19|20)\d\d)(?![\d年.]|\s?[{contexts.COUNTING}])",
        condition.is_rising,
    ),
    ("date.years", r"(?<!\d)(?P<first>\d{4}年?)\s?(?P<till>[-–—~～至])\s?(?P<last>\d{4})年", None),
    (
        "date.era",
        r"(?<![\w.])(?P<digits>\d{1,4})年?\s?(?P<era>B\.?\s?C\.?E?\.?"
        r"|A\.?D\.?)(?![A-Za-z])年?",
        None,
    ),
    (
        "date.era",
        r"(?<![\w.])(?P<era>B\.?C\.?(?!\s?(?:19|20)\d\d)(?=\s?\d+\s?(?:年|[到至]|[，。！？、；)）]|$))|A\.?D\.?)"
        r"\s?(?P<digits>\d{1,4})(?!\d)年?",
        dates.is_no_plate,
    ),
    ("date.era_year", rf"(?<!\d)(?P<digits>\d{{3,4}})(?=年|{TILL_ERA})", dates.is_era_year),
    (
        "fraction.percents",
        r"(?<![\d.])(?P<low>\d+(?:\.\d+)?)(?P<till>[-–—~～到至])(?P<high>\d+(?:\.\d+)?)%",
        None,
    ),
    (
        "fraction.percent",
        r"(?<![\d.,])(?P<number>\d+(?:\.\d+)?(?=%\s?[A-Za-z])|\d{4,}(?:\.\d+)?(?=%))%",
        None,
    ),
    ("formula.both", r"±(?=\d+(?:\.\d+)?[%‰])", None),
    ("date.decade", r"(?<![\w.])(?P<century>1[5-9]|20)?(?P<digits>\d0)s(?![A-Za-z])", dates.is_decade),
    ("date.short_year", r"['’](?P<digits>\d\d)年(?!代|有期|[前后内来间里])", condition.is_elided),
    ("serial.apostrophe", r"['’](?:\d\d(?=[级届](?!台风))|(?=\d0年代))", condition.is_elided),
    (
        "date.double",
        r"(?P<number>1[12]|(?:6|9|10)(?=[.·/]\d+(?:大促|狂欢|活动|购物|节)))[.·/](?P=number)(?![\d.]|\s?[元块折])",
        dates.is_shopping,
    ),
    ("date.short_year", r"(?<![\d.])(?P<digits>\d{2})年(?!代)", dates.is_short_year),
    ("cardinal.two", r"(?<![\d.])0?2(?=日)", condition.is_day),
    ("date.zeros", r"(?<!\d)0(?=[1-9][月日号])", None),
    (
        "time.clock",
        r"(?<![\d.:])(?P<hour>\d{1,2}):(?P<minutes>[0-5]\d)"
        rf":(?P<seconds>[0-5]\d(?:\.\d+)?){HALF}?(?![\d:])",
        None,
    ),
    (
        "time.told",
        r"(?<![\d.:])(?P<hour>\d{1,2}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d))?\s?[AaPp]\.?[Mm]\b\.?",
        condition.behind(contexts.HALVES_TOLD),
    ),
    (
        "duration.units",
        r"(?<![\w.])(?:(?P<hours>\d{1,3})h\s?(?P<minutes>\d{1,2})m(?:\s?(?P<seconds>\d{1,2})s)?"
        r"|(?P<minutes_first>\d{1,2})m\s?(?P<seconds_last>\d{1,2})s)(?![A-Za-z\d])",
        None,
    ),
    (
        "time.half",
        r"(?<![A-Za-z])(?P<half>[AP])\.?M\.?\s?(?P<hour>\d{1,2})(?::(?P<minutes>[0-5]\d)(?![\d:])|[点时](?!\d))",
        None,
    ),
    (
        "time.halves",
        r"(?<![\d.:])(?P<low>\d{1,2})\s?(?P<till>[-–—~～至到])\s?"
        rf"(?P<hour>\d{{1,2}})(?::(?P<minutes>[0-5]\d))?{HALF}",
        None,
    ),
    ("time.half", rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?::(?P<minutes>[0-5]\d))?{HALF}", None),
    (
        "time.clock",
        r"(?<![\d.:])(?P<hour>[01]?\d|2[0-4]|2[5-9](?=:00)):(?P<minutes>[0-5]\d)(?![\d:])(?:分(?!钟)|(?<=00)点(?=$|[^\u4e00-\u9fff]|[整钟前后左到至起开的集出上下见在]))?",
        None,
    ),
)
