"""The rules of Chinese: a form, how it is written and where it is meant; the first that fits is taken."""

import re
from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions import amounts, codes, condition, dates, ranges
from firstword.app.text.chinese.conditions.condition import Condition

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

_DASHES = "-–—~～至到"
NEEDS: Final = {
    "formula.to": "^",
    **dict.fromkeys(("fraction.mixed", "fraction.plain", "measure.pressure"), "/"),
    **dict.fromkeys(
        (
            "measure.speed",
            "measure.hourly",
            "measure.share",
            "measure.beside",
            "time.always",
            "serial.slashes",
            "serial.tire",
            "date.day",
            "serial.page",
            "range.degrees",
        ),
        "/",
    ),
    **dict.fromkeys(("time.clock", "duration.clock", "duration.lap", "serial.hex"), ":"),
    **{"fraction.division": "=", "cardinal.result": "=", "formula.minus": "-–−", "cardinal.thousands": "k"},
    **dict.fromkeys(("date.era_year", "date.short_year", "date.years"), "年"),
    **dict.fromkeys(("range.figure", "serial.groups", "serial.size", "range.numbers"), "-"),
    "serial.range": _DASHES,
    "date.either_way": "-/",
    "date.span": _DASHES,
    "date.next_month": "/",
    "time.halves": "mM",
    **dict.fromkeys(("fraction.measured", "fraction.letter"), "/"),
    **dict.fromkeys(("date.holidays", "money.range", "range.to"), _DASHES),
    **dict.fromkeys(("time.range", "serial.version", "serial.dotted"), "."),
    **dict.fromkeys(("formula.plus", "cardinal.plus"), "+"),
    **dict.fromkeys(("cardinal.pair", "cardinal.two"), "2"),
    **{
        "measure.inches": '"″n',
        "time.minute": "'′",
        "decimal.scientific": "eE",
        "fraction.thousandths": "‰",
        "fraction.percents": "%",
        "fraction.percent": "%",
        "formula.both": "±",
        "measure.degrees": "°",
        "cardinal.spaced": " \u00a0\u202f",
        "date.quarter": "QH",
        "date.decade": "s",
        "serial.to": "2",
        "serial.mask": "/-",
        "duration.units": "m",
        "range.till": "今",
    },
    **{
        "cardinal.separated": ",",
        "formula.divided": "÷/",
        "formula.beside": "/",
        "formula.power": "^",
        "date.zeros": "0",
    },
    **{"range.versus": "vV", "range.score": "-–:", "range.verse": ":："},
    **{"date.season": f"/{_DASHES}", "time.half": "mM"},
    **{"measure.feet": "'′f", "duration.primes": "'’′", "measure.minutes": "°", "date.event": "·./"},
    **{"formula.times": "·×", "formula.cross": "xX", "serial.model": "-−", "date.era": "AB"},
    **{
        "serial.apostrophe": "'’",
        "date.written": ".-",
        "date.after": "年",
        "date.months": ".",
        "time.told": ":",
    },
    **{"decimal.number": ".", "money.whole": ".", "cardinal.multiplied": "kK", "serial.hyphen": "-"},
    **{"ordinal.latin": "tdh", "cardinal.ten_thousands": "wW", "date.year_and_month": "-/"},
}
"""By form, characters of which whatever is so written has one."""


_AMOUNT = r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_SCALE = rf"(?P<scale>{contexts.SCALES})?"


def _alternatives(words: object) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


_SIGN = f"(?P<sign>{_alternatives(contexts.CURRENCIES)})"
_CODE = f"(?P<code>{_alternatives(contexts.CODES_OF_MONEY)})"
_NO_AMPERES = "[广景公司栋区口出大游门班款型类轮]"  # "3A大作", "4A广告"
_UNIT = (
    rf"(?P<unit>{_alternatives(contexts.UNITS)})"
    rf"(?![A-Za-z0-9²³级座股]|/(?![\u3400-\u9fff])|(?<=A){_NO_AMPERES}|(?<=N)[+-]\d|(?<=g)(?:网络|手机|信号|基站|套餐|时代|技术))"
)
_LISTED = _alternatives(contexts.UNITS.keys() - set("AKN"))
_LATER = r"(?=[0-9]|(?:次日|翌日|[早晚]上?|[上下]午|凌晨|中午)\d)"  # what a range goes to
_EMERGENCY = "(?:11[0249]|12[02])"
_DIALED = rf"(?:{_EMERGENCY}|12306|123[14]5|10010|10086|95\d{{3}})"
_MONTH_AND_DAY = r"(?<![\d.])1[0-2]\.\d{1,2}(?![\d.]|\s?[%‰日号])"
_TEMPERATURE = "(?:℃|°|度|摄氏)"
_TILL_ERA = r"\s?[-–—~～至到]\s?(?:公元)?前?\d{1,4}年"
_OF_MONEY = "元|块钱?|美[元金]|欧元|英镑|日元|韩元|港[元币]|人民币"
_HALF = r"(?:\s?(?P<half>[AaPp])\.?[Mm]\b\.?)"

ROWS: Final[tuple[tuple[str, str, Condition | None], ...]] = (
    (
        "telephone.number",
        r"(?<![\w.])(?:(?:\+|00)[0-9]{1,3}[ -]?|\((?:\+[0-9]{1,3}|86)\)[ -]?|86[ -])?"
        r"(?:1[0-9]{2}[ -][0-9]{4}[ -][0-9]{4}|1[3-9][0-9]{9}|1[3-9][0-9][xX]{4}[0-9]{4}"
        r"|0[0-9]{1,3}[ –—-](?:[0-9]{7,8}|[0-9]{3,4}[ -][0-9]{4})(?:-[0-9]{1,5})?"
        r"|[48]00[ -][0-9]{3,4}[ -]?[0-9]{3,4}|[48]00[0-9]{7}"
        r"|[(（]0[0-9]{2,3}[)）][ -]?(?:[0-9]{7,8}|[0-9]{3,4}[ -][0-9]{4})"
        r"|\+[0-9]{1,3}[ -]?\([0-9]{1,4}\)[ -]?[0-9]{2,4}(?:[ -][0-9]{2,4}){1,3}"
        r"|\+[0-9]{1,3}(?:[ -][0-9]{2,8}){2,4}|00[1-9][0-9]{1,2}(?:[ -][0-9]{2,4}){3}"
        r"|\(\+?86\)[ -]?[1-9][0-9]{1,2}[ -][0-9]{3,4}[ -]?[0-9]{4}"
        r"|\+[0-9]{1,3}[ -][0-9](?:[ -][0-9]{4}){2}"
        r"|\+(?:85[23]|65)[ -][0-9]{8}|\+(?:852[2-9]|853[268]|65[3689])[0-9]{7})"
        r"(?![0-9%]|[kcm]?[mgWL](?![A-Za-z])|\s?(?:[元米吨台户亩票字倍万亿]|[美欧日港]元|公里|公斤|人民币|人次))",
        None,
    ),
    ("telephone.number", r"\+(?:85[23]|65)[0-9]{8}(?![0-9.%])", condition.is_whole),
    ("telephone.number", r"\+[1-9][0-9]{8,14}(?![0-9.%])", condition.behind(contexts.SUBSCRIBED)),
    ("telephone.number", r"(?:0[0-9]{2,3}|\+(?:86|85[23]|886))$", codes.is_area),
    ("telephone.number", r"(?:[0-9]{3,4}[ -][0-9]{4}|[0-9]{7,8})(?![0-9])", codes.is_behind_area),
    ("telephone.number", r"(?<![\d.])1[3-9]\d{5}(?![\d.])", codes.is_masked),
    ("telephone.number", r"[2-9]\d{3}-\d{4}", codes.is_local_telephone),
    ("cardinal.number", r"11[0-9]|12[0-2]|12345|100[01]0", condition.is_whole),
    ("telephone.extension", r"\d{2,6}(?!\d|[人名个])", condition.behind(contexts.EXTENSIONS)),
    ("telephone.extension", r"\d{1,5}(?!\d)", codes.is_extension),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?=室|号房|房(?![屋价子东客间]))", None),
    (
        "serial.room",
        rf"(?<![\d.,])(?!\d+00(?!\d))\d{{3,4}}(?![\d.,:%/~～–—-]|\s?[{contexts.COUNTING}间平多余张套至到]|\s?[A-Za-z])",
        codes.is_behind_room,
    ),
    ("serial.code", r"(?<![\d.,])(?:19|20)\d\d(?=第)", condition.behind("字")),
    (
        "serial.code",
        rf"(?<![\d.,])\d{{3,}}(?![\d.,:%/-]|\s?[{contexts.COUNTING}间多余份套单张])",
        codes.is_next_code,
    ),
    ("serial.room", r"(?<![\d.,])\d{3}(?!\d)", codes.is_gate),
    ("serial.room", r"(?<![\d.,])\d{3}(?=区)", condition.behind("看台|内场|体育场|体育馆|场馆")),
    ("serial.code", r"(?<![\d.,])0\d\d(?=号)", None),
    ("serial.hex", r"(?<![\w:])[\dA-Fa-f]{2}(?::[\dA-Fa-f]{2}){5}(?![\w:])", None),
    ("serial.room", rf"(?<![\d.,])\d{{3,4}}(?={contexts.ROOMS})", codes.is_room),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?![\d.户人家个平米㎡多余元万])", codes.is_behind_house),
    ("serial.room", r"(?<![\d.,])\d{3}(?=路(?![人口])|[国省县]道)", None),
    ("serial.code", r"\d+(?:-\d+)+|\d{8,}", condition.behind("ISBN|ISSN|书号")),
    ("serial.code", r"\d{4,8}(?=[)）])", condition.is_in_brackets),
    ("serial.code", r"2[3-9](?:0[1-9]|1[0-2])(?!\d|\s?[手元])", condition.behind("合约")),
    ("serial.code", r"\d{3,}(?![\d.,])", codes.is_code_of_length),
    (
        "serial.range",
        r"(?<!\d)(?P<low>\d{3,})\s?[-–—~～至到]\s?(?P<high>\d{3,})(?![\d.%-])",
        codes.is_range_of_codes,
    ),
    (
        "serial.range",
        r"(?<![\d.])(?P<low>\d{3,4})\s?[-–—~～至到]\s?(?P<high>\d{3,4})(?=室|号房|房间|包[厢间])"
        r"|(?<!\d)[5-9]0[-–—~～至到](?:[6-9]0|00)(?=后(?!面))",
        None,
    ),
    ("serial.hyphen", r"\d{5,}(?:-\d{2,})+(?![\d.%])", condition.behind(contexts.CODES)),
    ("serial.hyphen", r"(?<=A)3\d0-[1-9]00|(?<=B)7\d7-\d{1,3}|(?<=ISO )8859-\d{1,2}", None),
    ("cardinal.number", r"(?<![\d.])\d{1,3}(?=[A-Z]{1,2}(?![A-Za-z\d]))", amounts.is_of_model),
    ("measure.amount", r"(?<=\b[AD]C)(?P<number>\d+(?:\.\d+)?)(?P<unit>V)(?![A-Za-z\d])", None),
    (
        "decimal.scientific",
        r"(?<![\w.])(?P<number>\d+(?:\.\d+)?)(?:e|E(?=[-+−]))(?P<power>[-+−]?\d{1,3})(?![\w.])",
        None,
    ),
    ("serial.beside", r"(?<=V)\s?[~～]\s?(?=\d{2}(?:/\d\d)?\s?Hz)", None),
    ("serial.code", r"\d{2,}(?!\d)", codes.is_quoted_reply),
    ("serial.code", r"\d{2,6}(?=[到至]\s?\d{5})", condition.behind("发送")),
    ("cardinal.number", r"(?<=车)[1-9]\d?(?=[A-F](?![A-Za-z]))|(?<=[A-Z] )\d{1,3}(?=A(?![A-Za-z]))", None),
    ("serial.beside", r"(?<=\d)-(?=0\d\d(?!\d))", None),
    ("cardinal.hundreds", r"(?<![\d.,])10{2,4}(?![\d.,])", amounts.is_about_hundreds),
    ("serial.room", r"(?<![\d.,])(?:480|720|1080|1440|2160)(?=[PpIi](?![A-Za-z]))", None),
    ("range.figure", r"(?P<low>\d{1,2})-(?P<high>\d{1,2})(?![\d.-])", ranges.is_figure),
    (
        "range.verse",
        r"(?<![\d.])(?P<chapter>\d{1,3})[:：](?P<verse>\d{1,3})(?:\s?[-–—~～]\s?(?P<last>\d{1,3}))?(?![\d:])",
        ranges.is_verse,
    ),
    ("serial.code", r"(?<![\d.])(?:19|20)\d\d(?=[)）,，;；])", codes.is_cited_year),
    (
        "range.score",
        r"(?<![\d.:A-Za-z-])(?P<low>\d{1,3})\s?[-–:]\s?(?P<high>\d{1,3})(?![\d.%:/-])",
        ranges.is_score,
    ),
    (
        "range.versus",
        r"(?<![\w.])(?P<low>\d{1,2})(?:[vV]|\s?[vV][sS]\.?\s?)(?P<high>\d{1,2})(?![A-Za-z\d.])",
        None,
    ),
    (
        "measure.pressure",
        r"(?<!\d)(?P<above>\d{2,3})/(?P<below>\d{2,3})(?P<unit>\s?(?:mmHg|毫米汞柱))?(?![\d/])",
        amounts.is_pressure,
    ),
    (
        "fraction.plain",
        rf"(?<![\w.,/])(?P<above>[1-9])/(?P<below>[2-9])(?!(?:{_LISTED})(?![A-Za-z]))(?=[a-zA-Z]{{1,3}}[²³^)]|[a-z]{{2}}(?![A-Za-z]))",
        condition.has_equals,
    ),
    ("fraction.division", r"(?P<above>\d+)/(?P<below>\d+)(?=\s?=)", amounts.is_division),
    (
        "range.degrees",
        r"(?<![\w./])(?P<low>[-−]?\d{1,2})/(?P<high>[-−]?\d{1,2})\s?(?:℃|°C)",
        ranges.is_forecast,
    ),
    (
        "serial.slashes",
        r"(?<![\d.,/])\d{1,2}/\d{1,2}(?![\d/.%日号]|上市|发[布售]|[首开预]售)",
        codes.is_of_series,
    ),
    ("serial.slashes", r"(?<![\d.,/])\d{1,6}/\d{1,6}(?![\d/.%日号的])", codes.is_of_gauge),
    (
        "serial.slashes",
        r"(?<![\w.,/])\d{1,3}/(?P<all>\d{1,3})(?=[)）]|$)",
        codes.is_done,
    ),
    (
        "serial.code",
        rf"(?<![\w.,])(?:4[0-3]\d|50[0-4])(?![\d.,:%/-]|\s?[{contexts.COUNTING}多余到至])",
        condition.behind("返回|报错|抛出|状态"),
    ),
    ("serial.slashes", r"(?<![\w.,/])0/[1-9]\d*(?![\d/.%A-Za-z℃°])", None),
    ("serial.slashes", r"(?<![\d.,/])\d{2,5}(?:/\d{2,5})+(?=[元块])", None),
    ("time.always", r"(?<![\d.,/])24/7(?:/365)?(?![\d/])", None),
    (
        "fraction.mixed",
        r"(?<![\d.,/])(?P<whole>\d{1,3})(?:  ?|又)(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\d/])",
        None,
    ),
    (
        "fraction.plain",
        r"(?<![\w.,/])(?P<above>\d{1,3})/(?P<below>[2-9]|1\d{1,4})(?=小时|分|秒|天|的?概率|的?机会)",
        amounts.is_no_ordinal,
    ),
    (
        "date.holidays",
        r"(?<![\d.])(?P<month>\d{1,2})\.(?P<day>\d{1,2})[-–—~～至到](?P<last_month>\d{1,2})\.(?P<last_day>\d{1,2})(?![\d.%]|\s?(?:小时|分钟|秒|天|个|倍|米|[a-zA-Z]))",
        dates.is_holidays,
    ),
    (
        "date.holidays",
        r"(?<![\d./])(?P<month>\d{1,2})/(?P<day>\d{1,2})\s?[-–—~～至到]\s?(?P<last_month>\d{1,2})/(?P<last_day>\d{1,2})(?![\d./%])",
        dates.is_days,
    ),
    ("formula.less", r"(?<=\d)[-–](?=\d+(?![\d.]|岁))", amounts.is_reduced),
    (
        "time.range",
        r"(?<![\d.])(?P<hour>\d{1,2})\.(?P<minutes>[0-5]\d)[-–—~～至到](?P<last_hour>\d{1,2})\.(?P<last_minutes>[0-5]\d)"
        r"(?![\d.%]|\s?(?:小时|分钟))",
        condition.behind("时间"),
    ),
    (
        "measure.degrees",
        r"(?<![\d.])(?P<degrees>\d{1,3}(?:\.\d+)?)°(?:(?P<minutes>\d{1,2})[′'](?:(?P<seconds>\d{1,2}(?:\.\d+)?)[″\"])?)?"
        r"\s?(?P<way>[NSEW])(?![A-Za-z])",
        amounts.is_unplaced,
    ),
    ("measure.feet", r"(?<![\d.°])(?P<feet>[3-8])'(?P<inches>1[01]|[0-9])\"", None),
    (
        "measure.feet",
        r"(?<![\d.°])(?P<feet>[3-8])['′](?P<inches>1[01]|0?[0-9])(?![\d'\"″”′])",
        amounts.is_size,
    ),
    ("measure.feet", r"(?<![\w.])(?P<feet>\d{1,2})\s?ft\s?(?P<inches>\d{1,2})\s?in(?![A-Za-z])", None),
    ("measure.feet", r"(?<![\d.°])(?P<feet>\d{1,2})′(?P<inches>\d{1,2}(?:\.\d+)?)″", amounts.is_size),
    ("time.minute", r"(?<![\d.°])(?P<number>\d{1,3})['′](?![\d\"″])", dates.is_of_match),
    (
        "duration.primes",
        r"(?<![\d.°])(?P<minutes>\d{1,2})(?:′(?P<seconds>\d{1,2}(?:\.\d+)?)″"
        r"|['’](?P<seconds_typed>[0-5]\d(?:\.\d+)?)(?:[\"”]|['’]{2}))",
        None,
    ),
    (
        "duration.primes",
        r"(?<![\w.°'’])(?P<minutes>\d{1,2})['’′](?P<seconds>[0-5]\d)(?![\w'’\"″”′.])",
        dates.is_of_minutes,
    ),
    ("measure.minutes", r"(?<=°)(?P<minutes>\d{1,2})[′'](?:(?P<seconds>\d{1,2})[″\"])?", None),
    (
        "date.event",
        r"(?<!\d)(?P<month>\d{1,2})·(?P<day>\d{1,2})(?!\d)",
        lambda found, phrase: dates.is_date(found, phrase) and condition.is_no_formula(found, phrase),
    ),
    (
        "date.event",
        rf"(?<![\d.])(?P<month>[1-9])[./](?P<day>\d{{1,2}})(?={contexts.EVENTS})",
        dates.is_date,
    ),
    ("serial.code", r"(?:0\d\d|20[0-4]\d\d{3})(?=期)", condition.is_ordinal),
    ("serial.page", r"(?P<page>\d+)/(?P<pages>\d+)(?=(?P<kind>[页天章集课关]))", condition.is_ordinal),
    (
        "serial.page",
        r"(?<![\d./])(?P<page>\d{1,2})/(?P<pages>\d{1,2})(?=(?P<kind>层)(?!高))",
        codes.is_floor,
    ),
    ("ordinal.number", r"(?:\d{1,3}(?:,\d{3})+|\d+)(?![\d.])", condition.is_ordinal),
    ("ordinal.latin", r"(?<![\w.])(?P<number>\d+)(?:st|nd|rd|th)(?![A-Za-z])", None),
    ("cardinal.number", rf"(?<![\d.])[3-9]\d00(?=年)|(?<![\d.])[1-9]0(?={contexts.AFTER_TOMORROW})", None),
    ("cardinal.number", rf"(?<![\d.])\d{{2}}(?=年(?:{contexts.YEARS_COUNTED}))", None),
    ("cardinal.number", r"(?<![\d.])\d{2}(?=年(?![代级]))", condition.behind(contexts.REIGNS)),
    ("cardinal.number", r"(?<![\d.])(?!19|20(?!00))\d{4}(?=年)", condition.behind(contexts.YEARS_LASTING)),
    (
        "telephone.known",
        r"(?<![\w.,])(?:110|119|120|122|114|112|123\d\d|10086|10010|10000"
        r"|9[56]\d{3})(?![\d.%:/,])",
        condition.behind(contexts.DIALED),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])\d{{3,6}}(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余通遍回下])",
        condition.behind("拨打|拨|撥打|撥|致电|呼叫"),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])123\d\d(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余起例宗])",
        condition.behind("咨询|投诉|举报|援助|维权|监督|求助"),
    ),
    (
        "telephone.known",
        rf"(?<![\w.,])(?:911|99[59])(?![\d.%:/,-]|\s?[{contexts.COUNTING}多余])",
        condition.behind("电话|报警|急救|求助"),
    ),
    (
        "telephone.known",
        r"(?<![\w.,])(?:10086|10010|10000|9[56]\d{3}|12\d{3}(?=热线|客服))(?=客服(?!人员)|热线|专线|反诈|(?<!0)[\u4e00-\u9fff]{2}银行)",
        None,
    ),
    (
        "telephone.known",
        r"(?<![\w.,])(?:[1-9]\d{6,7}|[2-9]\d{3}[ -]\d{4})(?![\d.%:/,元次个台部])",
        condition.behind(contexts.SUBSCRIBED),
    ),
    ("serial.code", rf"(?<![\w.,])88(?=[，,！!~～]\s?(?:{contexts.FAREWELLS}))", None),
    ("serial.code", r"(?<![\w,])(?<!\d\.)88(?![\d.,])", codes.is_farewell),
    ("date.after", r"(?<!\d)(?:19\d[1-9]|19[1-9]0|20[0-4][1-9]|20[1-4]0)(?=年(?:前后|[后前来间]))", None),
    ("serial.code", r"36[05](?!\d)", condition.behind("Xbox|XBOX|XBox|Office|Microsoft")),
    ("serial.code", r"(?<=\b[iR][3579] )\d{4,5}(?![\d.])", None),
    ("serial.dotted", r"\d{4}\.\d{4,5}(?!\d)", condition.behind("arXiv")),
    ("serial.mask", r"(?<=\d)/(?=\d{1,2}(?!\d))", codes.is_mask),
    ("serial.mask", r"(?<=号)-(?=\d)", codes.is_registered),
    ("serial.code", r"(?<=[A-Z]\d-)\d{6,}(?!\d)", None),
    ("serial.size", r"(?<=[A-Z]\d)-(?=\d{6})", None),
    (
        "serial.hyphen",
        r"(?<![\w.:/-])(?:[1-9]|[1-3]\d)-(?:[1-9]|[1-3]\d)0[1-9](?![\d.%:/℃°′″-])",
        codes.is_house_and_room,
    ),
    ("cardinal.number", r"\d{1,2}(?=[sS](?![A-Za-z\d]))", condition.behind(contexts.PHONES)),
    ("serial.hyphen", r"\d{4}-\d{4,7}(?!\d)", condition.behind("CVE|CNVD|CNNVD")),
    ("serial.dotted", r"(?<=ZL)\d{12}(?:\.\d)?(?!\d)", None),
    ("serial.code", r"(?<=\d:)\d{2,5}(?!\d)", codes.is_port),
    ("serial.code", rf"(?<![\d.,])(?:{contexts.KNOWN})|(?<=[Hh]\.)26[45]", None),
    ("serial.code", r"(?<![\w.,])(?:6{3,}|23{3,}|520|886|1314|996|955)(?![\d.,])", codes.is_exclaimed),
    (
        "serial.code",
        r"(?<![\d.,])(?:0\d|1[5-9]|2\d)(?=级(?:新生|学(?:生(?!票)|[弟妹长姐])|毕业|本科|硕士|博士|研究生))",
        codes.is_year_of_entry,
    ),
    ("serial.code", r"(?<![\w.,])(?:23{3,}|6{3,})(?![\d.,])", codes.is_laughed),
    ("serial.code", r"(?<![\d.,])[6-9]\d(?=版$)", codes.is_before_title),
    ("serial.dotted", r"(?<![\w.])802\.(?:1\d?|3)(?!\d|\s?元)", None),
    (
        "serial.code",
        r"(?:(?<![\w.,])|(?<=[A-Za-z]{3}))(?:19[89]\d|20(?!00)\d\d)(?![\d.,%:/-])",
        condition.is_edition,
    ),
    ("serial.code", r"(?<![\d.,])\d(?![\d.,%:/-])", codes.is_key),
    (
        "duration.lap",
        r"(?<![\d.:])(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)\.(?P<parts>\d{1,3})(?![\d:.])",
        None,
    ),
    (
        "duration.clock",
        r"(?<![\d.:])(?:(?P<hours>\d{1,2}):)?(?P<minutes>\d{1,2}):(?P<seconds>[0-5]\d)(?![\d:])",
        dates.is_duration,
    ),
    ("serial.code", r"\d{3,4}(?![\d.]|\s?元)", condition.behind("RFC|RTX|GTX|RX|锐龙|骁龙|天玑|酷睿")),
    ("serial.plate", r"(?<=i[3579])-(?P<digits>\d{4,5})(?=(?:[A-Z]{0,2}|G\d)(?![A-Za-z\d]))", None),
    ("serial.code", r"(?<=[A-Za-z])\d{6,}(?![\d.])", None),
    (
        "serial.code",
        r"(?:(?<=[a-z])\d{3,}|\d{6,})(?![\d.]|[多余人个位粉用次])",
        condition.behind("微信|抖音|群"),
    ),
    (
        "serial.code",
        rf"\d{{5,}}(?![\d.]|\s?[{contexts.COUNTING}多余份套吨步字笔单款张辆户股平公])",
        condition.behind("码|号|ICP备|ICP证|公安备"),
    ),
    (
        "serial.code",
        rf"(?:(?<=[a-z]{{2}})(?<![Tt]op)|(?<=SHA))(?!\d00)\d{{3}}(?![\d.,%:]|[{contexts.COUNTING}]|[KMGT]B?(?![A-Za-z]))",
        None,
    ),
    ("cardinal.number", r"[1-9]\d?(?=[A-F](?![A-Za-z\d]))", condition.behind(contexts.SEATS)),
    ("cardinal.number", rf"(?<![\w.,]){_EMERGENCY}(?![\d.%:/,]|\s?[A-Za-z])", amounts.is_behind_latin),
    ("cardinal.number", r"(?<=[A-Z])(?<![0-9][A-Z])[1-9]\d?(?=[A-Za-z](?![A-Za-z\d])|[a-z]{2})", None),
    ("serial.plate", r"(?:(?<=[A-Z]{2}\d)-(?=\d{4})|(?<=[A-Z]\d)-(?=\d{3}))(?P<digits>\d{3,4})(?!\d)", None),
    ("serial.code", r"7\d7(?:-\d{1,3})?(?![\d.])", condition.behind("波音|Boeing")),
    (
        "cardinal.number",
        rf"(?<![\w.,])(?:{_EMERGENCY}(?={contexts.COUNTED}|/\d*\s?[A-Za-z]|/[人位晚天节件份斤小]|\s?[-–—~～至到]\s?\d+(?:\.\d+)?(?![\d.%]))|{_DIALED}(?={contexts.MEASURED}))",
        None,
    ),
    (
        "cardinal.number",
        rf"(?<![\w.,]){_DIALED}(?![\d.%:/,]|\s?[急救报A-Za-z])",
        condition.behind(contexts.AMOUNTS),
    ),
    ("serial.code", r"(?:(?<=[A-Z])\d{4,6}|(?<=[A-Z]{3})\d{3}|(?<=\.)\d{5})(?![\d.])", codes.is_plate),
    ("serial.plate", r"(?P<digits>\d[A-Z0-9]{4,5})(?![A-Za-z\d.])", codes.is_plate),
    (
        "serial.plate",
        r"·(?P<digits>[A-Z0-9]{4}(?=[港澳学警挂])|[A-Z0-9]{5,6})(?![A-Za-z\d.])",
        codes.is_plate,
    ),
    ("serial.dotted", r"\d{1,5}(?:\.\d{1,2})?-(?:19|20)\d\d(?!\d)", codes.is_standard),
    (
        "serial.code",
        rf"(?!(?:{contexts.FILM_SPEEDS})(?!\d))\d{{4,5}}(?:-(?:19|20)\d\d)?(?![\d.])",
        codes.is_standard,
    ),
    (
        "date.written",
        r"(?<![\w.,-])(?P<year>1[3-9]|2\d|9\d|0\d(?=-\d\d-\d\d))-(?P<month>\d{1,2})-(?P<day>\d{1,2})(?![\w-])",
        dates.is_written_day,
    ),
    (
        "date.either_way",
        r"(?<![\w.,-])(?P<first>\d{1,2})-(?P<second>\d{1,2})-(?P<year>(?:19|20)\d\d)(?![\w-])",
        dates.is_date_either_way,
    ),
    (
        "serial.groups",
        r"(?<![\w.-])(?!\d{4}-\d{1,2}-\d{1,2}(?!\d))\d+(?:-\d+){2,}(?![\d.-]|\s?(?:分钟|小时|天|年|元|人))",
        condition.is_no_formula,
    ),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{2,5})(?![\d.])", condition.behind(contexts.FLIGHTS)),
    ("serial.hyphen", r"(?<=[A-Za-z] )\d{3,}(?:-\d{2,})+(?![\w.])", condition.behind("号|码")),
    (
        "serial.code",
        r"(?:(?<=[A-Za-z])|(?<=[A-Za-z]-))\d+(?:-\d+)*(?!\.?\d)|\d+(?:-\d+)*(?=-?[A-Za-z])",
        condition.is_code,
    ),
    ("serial.code", r"(?<=No\.)\d{5,}(?![\d.])", None),
    (
        "serial.code",
        r"(?<![\d.,])(?:\d{4}(?=(?:XT|X|X3D|HX|HS|Ti)(?![A-Za-z\d]))|\d{3}(?=L?i(?![A-Za-z\d])))",
        None,
    ),
    ("serial.flight", r"(?:(?<=\b9C)|(?<=\b3U))(?P<digits>\d{4})(?!\d)", None),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{2,5})(?=次(?!/)|航班)", None),
    ("serial.code", rf"(?<=[A-Z])(?<![A-Z]{{2}})\d{{4}}(?!\d|(?<=00)|[{contexts.COUNTING}]|\.\d)", None),
    ("serial.code", rf"(?<=\b[A-Z]{{2}})\d{{4}}(?![\d.,%:]|\s?[{contexts.COUNTING}])", None),
    (
        "serial.code",
        r"(?<![\d.,])(?:\d{2,}(?:[ -]\d{2,})*|\d-\d{3,})"
        r"(?![\d.%:,年月日人个名口元万亿条件份笔单多余]|\s[个件份笔单条])",
        condition.behind(contexts.CODES),
    ),
    (
        "cardinal.number",
        rf"(?<![\w.,]){_EMERGENCY}(?![\d.%:°℃℉‰′″]|[,/]\d|\s?[A-Za-z]|\s?[-–—~～至到]\s?[\d.]+%)",
        amounts.is_no_emergency,
    ),
    ("cardinal.number", r"(?<![\w.,])111(?![\d.%:/,]|\s?[A-Za-z])", None),
    ("serial.code", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.])", None),
    ("serial.code", r"(?<![\d.,:])0\d+(?![\d.%:,年月日号/-])", None),
    ("serial.code", r"(?<=[A-Z])(?<![A-Z]{3})\d{3}(?![\d.])", None),
    ("serial.long", r"\d{16,}|20[0-4]\d(?:0[1-9]|1[0-2])\d{8,}", None),
    (
        "serial.hyphen",
        r"(?<![\w.-])0\d-\d{2,3}(?![\w.-])",
        condition.behind(contexts.ROOMS_NAMED),
    ),
    (
        "range.numbers",
        r"(?<![A-Za-z\d.-])(?P<low>0\d)-(?P<high>\d\d)(?![A-Za-z\d.:/%-])",
        ranges.is_range_of_numbers,
    ),
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
        rf"(?<![\w.,/])(?P<above>\d{{1,3}})/(?P<below>\d{{1,4}})\s?(?P<unit>{_LISTED}|in)(?![A-Za-z\d]|/[A-Za-z\d])",
        amounts.is_reduced_fraction,
    ),
    ("formula.beside", rf"(?<=\d)/(?=\d+(?:/\d+)*\s?(?:{_LISTED}|[GMT]B?)(?![A-Za-z\d]|/\d))", None),
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
    ("date.era_year", rf"(?<!\d)(?P<digits>\d{{3,4}})(?=年|{_TILL_ERA})", dates.is_era_year),
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
        rf":(?P<seconds>[0-5]\d(?:\.\d+)?){_HALF}?(?![\d:])",
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
        rf"(?P<hour>\d{{1,2}})(?::(?P<minutes>[0-5]\d))?{_HALF}",
        None,
    ),
    ("time.half", rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?::(?P<minutes>[0-5]\d))?{_HALF}", None),
    (
        "time.clock",
        r"(?<![\d.:])(?P<hour>[01]?\d|2[0-4]|2[5-9](?=:00)):(?P<minutes>[0-5]\d)(?![\d:])(?:分(?!钟)|(?<=00)点(?=$|[^\u4e00-\u9fff]|[整钟前后左到至起开的集出上下见在]))?",
        None,
    ),
    (
        "money.range",
        rf"{_SIGN}\s?(?P<low>\d+(?:\.\d+)?)(?P<low_scale>{contexts.SCALES})?\s?[-–—~～至到]\s?"
        rf"(?:{_alternatives(contexts.CURRENCIES)})?{_AMOUNT}{_SCALE}(?P<end>{_OF_MONEY})?",
        None,
    ),
    (
        "money.western",
        rf"{_SIGN}\s?{_AMOUNT}\s?(?P<western>bn|[kKmMBTwW]|{contexts.WESTERN})(?![A-Za-z])",
        None,
    ),
    ("money.amount", rf"{_SIGN}\s?(?P<minus>[-−])?{_AMOUNT}\s?{_SCALE}(?P<end>{_OF_MONEY})?", None),
    ("money.whole", rf"(?<![\d.,])(?P<number>\d+)\.00?(?=\s?[百千万亿]*(?:{_OF_MONEY}))", None),
    ("serial.tail", rf"(?<=\d秒)\d{{2,3}}(?={contexts.RECORDED})", codes.is_record),
    ("serial.tail", r"(?<=\d秒)\d{3}(?=$|[^\w\u3400-\u9fff.]|的)", codes.is_record),
    ("serial.tail", r"(?<=\d[米块秒m])\d\d(?=$|[^\w\u3400-\u9fff.]|[的左高长宽多吧啊了])", None),
    (
        "money.amount",
        rf"(?<![\d.]){_AMOUNT}{_SCALE}(?:\s(?=.(?:$|[^\w\s($])))?(?P<sign>[$€£¥￥₫₽₩₹฿₺₱¢円])",
        None,
    ),
    ("serial.version", r"(?<![\d.])\d+(?:\.\d+){2}(?![\d.])", None),
    ("money.code", rf"(?<![\d.]){_AMOUNT}\s?{_SCALE}\s?{_CODE}(?![A-Za-z])", None),
    ("money.code", rf"(?<![A-Za-z]){_CODE}\s?{_AMOUNT}\s?{_SCALE}(?P<end>元)?", None),
    (
        "formula.measured",
        rf"(?<=10)(?:\^\(?(?P<raised>[-−]?\d+)\)?|(?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))\s?{_UNIT}",
        None,
    ),
    ("formula.raised", r"(?<=[0-9])\^\(?(?P<raised>[-−]?\d+)\)?", None),
    ("formula.power", r"(?<=[\w)])\^\(?(?P<power>[-−]?\d+)\)?", None),
    ("formula.raised", r"(?<=[0-9])(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", None),
    (
        "formula.raised",
        r"(?<=[a-z)])(?<![A-Za-z]{2})(?![²³](?![⁰¹²³⁴-⁹]))(?P<raised>⁻?[⁰¹²³⁴-⁹]+)(?![⁺⁻])",
        amounts.is_power,
    ),
    ("formula.minus", r"(?<=[\d元块个米斤人次天秒])\s?[-–−]\s?(?=[\d(（])", amounts.is_calculated),
    (
        "formula.minus",
        r"(?<![A-Za-z]{2})(?<=[a-zA-Z²³)])\s?[-–−]\s?(?=\d|[a-zA-Z(](?![A-Za-z]))",
        condition.has_equals,
    ),
    ("formula.minus", r"[-−](?=\d)", amounts.is_of_words),
    ("formula.minus", r"(?<=\d)\s?[-–−]\s?(?=[\u4e00-\u9fff])", condition.has_equals),
    (
        "formula.minus",
        r"(?<=[A-Z]{2})[-−](?=\d+\s?(?:BP|bp|个?基点))|(?<=\b[HMS]P)[-−](?=\d+(?:$|[^\w\u4e00-\u9fff-]|点))",
        None,
    ),
    ("formula.minus", r"(?<=\d[nxyab])\s?[-−]\s?(?=\d+(?![\dA-Za-z]))", None),
    ("formula.to", r"(?<=[\w)])\^\(?(?P<power>[a-z])(?![a-z])\)?", None),
    ("cardinal.minus", r"(?<==)\s?[-−](?=[a-zA-Z√(])", None),
    ("formula.plus", r"(?<=[a-zA-Z²³)])\s?\+\s?(?=[\da-zA-Z(])", condition.has_equals),
    ("cardinal.plus", r"(?<![\d%])\+(?=\d+(?:\.\d+)?%)", amounts.is_changed),
    ("formula.plus", r"(?<!\d)\+(?=\d+(?:\.\d+)?%)", condition.is_behind_word),
    ("formula.plus", r"(?<=[\d%])\s?\+\s?(?=\d)", None),
    ("formula.plus", r"(?<=[A-Za-z)）.…²³])\+(?=\d)", None),
    ("cardinal.plus", r"(?<![\w%.)）])\+(?=\d{1,3}/\d)", None),
    ("cardinal.plus", r"(?<![^(（])\+(?=\d)", amounts.is_bracketed),
    ("cardinal.plus", r"\+(?=\d+(?:\.\d+)?\s?(?:℃|°|摄氏))", condition.is_behind_word),
    ("formula.plus", rf"\+(?=\d+(?:\.\d+)?(?![\d.]|\s?{_TEMPERATURE}))", amounts.is_added),
    ("formula.times", r"(?<=\d)\s?·\s?(?=\d)", condition.has_equals),
    ("formula.times", r"(?<=\d)\s?×\s?(?=\d)", None),
    (
        "formula.cross",
        r"(?<=\d[组套盒包箱袋片瓶])\s?[xX]\s?(?=\d)|(?<!\b0)(?<=\d)(?<![A-Z]\d)(?<![A-Z]\d\d)[xX](?=\d)",
        None,
    ),
    (
        "formula.beside",
        r"(?:(?<=\.\d)|(?<=\.\d\d))/(?=\d+\.\d)|(?<=%)/(?=\d+(?:\.\d+)?%)|(?<=:\d)/(?=\d:\d)|(?<=[A-Z])/(?=\d+[GT]B?(?![A-Za-z]))",
        None,
    ),
    ("formula.beside", r"(?<=\d([\u4e00-\u9fff]))/(?=\d+\1)|(?<=:\d\d)/(?=\d{1,2}:\d\d)", None),
    ("formula.divided", r"\s?÷\s?(?=\d)", None),
    ("formula.divided", r"(?<=[a-z)])(?<![A-Za-z]{2})/(?=\d)", condition.has_equals),
    ("formula.divided", r"/(?=\d)", amounts.is_of_words),
    (
        "measure.hourly",
        rf"(?<![\w.])(?:(?P<low>\d+(?:\.\d+)?)\s?[-–—~～至到]\s?)?{_AMOUNT}\s?(?:km/h|KM/H)(?![A-Za-z])",
        condition.behind("时速|时速约|时速达|每小时"),
    ),
    (
        "measure.speed",
        rf"(?<![\w.])(?:(?P<low>\d+(?:\.\d+)?)\s?[-–—~～至到]\s?)?{_AMOUNT}\s?(?:km/h|KM/H)(?![A-Za-z])",
        None,
    ),
    (
        "measure.share",
        rf"(?<![A-Za-z\d.]){_AMOUNT}\s?{_SCALE}\s?(?P<unit>{_alternatives(contexts.UNITS)})"
        rf"/(?:(?=(?:\d+\s?(?:m?[lLs]|d[lL]|h|min)|100\s?(?:g|km))(?![A-Za-z]))|(?P<per>{_alternatives(contexts.PER_UNITS)})(?![\w²³]|/(?![\u3400-\u9fff])))",
        None,
    ),
    (
        "measure.beside",
        rf"(?<![A-Za-z\d.]){_AMOUNT}\s?(?P<unit>{_alternatives(contexts.UNITS)})/(?=\d+(?:\.\d+)?\s?[A-Za-z℃℉°])",
        None,
    ),
    (
        "cardinal.ten_thousands",
        rf"(?<![A-Za-z\d.]){_AMOUNT}[wW](?=\+(?!\d)|/(?:月|年|平)|(?:{contexts.FOLLOWED}))",
        amounts.is_no_power,
    ),
    (
        "cardinal.ten_thousands",
        rf"(?<![A-Za-z\d.]){_AMOUNT}[wW](?![A-Za-z\d])",
        amounts.is_earned,
    ),
    ("measure.amount", rf"(?<![A-Za-z\d.]){_AMOUNT}\s?{_SCALE}\s?{_UNIT}", None),
    ("measure.inches", rf"(?<![A-Za-z\d./]){_AMOUNT}(?:[\"″]|in)(?![A-Za-z0-9])", amounts.is_unquoted),
    (
        "cardinal.number",
        r"(?<![\d.,/])(?:0|[1-9]\d{0,3})(?:\.\d+)?"
        r"(?=(?!(?:[kKmM]bps|gb|tb|lbs|mph|min|[ckm]m|[km]g|m[lLs]|Ah)(?![A-Za-z]))[A-Za-z]{2})",
        None,
    ),
    ("cardinal.multiplied", r"(?<![A-Za-z\d.,])(?P<number>\d+(?:\.\d+)?)[kK](?=[元块])", None),
    ("cardinal.thousands", r"(?<![A-Za-z\d.,])(?P<number>\d{2,}(?:\.\d+)?)k(?![A-Za-z元块])", None),
    ("measure.amount", rf"(?<![A-Za-z\d.]){_AMOUNT}(?P<unit>V)(?=\d+(?:\.\d+)?Ah?(?![A-Za-z]))", None),
    ("measure.amount", r"(?<=\dV)(?P<number>\d+(?:\.\d+)?)(?P<unit>Ah?)(?![A-Za-z])", None),
    ("cardinal.number", rf"{_MONTH_AND_DAY}(?!{contexts.EVENTS}|(?<=\.00)[元块])", amounts.is_no_day),
    ("serial.size", r"(?<=[A-Za-z])-(?=\d)", condition.is_code),
    ("serial.beside", r"(?<=\d)-(?=\d+(?:\.\d+)?[Bb](?![A-Za-z\d]))", codes.is_behind_name),
    ("serial.size", r"-(?=\d+(?:\.\d+)?[Bb](?![A-Za-z\d]))", codes.is_behind_name),
    ("serial.model", r"-(?=\d{3}|\d{1,2}(?:单元|号))", codes.is_in_building),
    ("serial.model", rf"[-−](?=\d)(?!\d+(?:\.\d+)?\s?{_TEMPERATURE})", codes.is_model),
    ("range.to", r"(?<=\d([章节页条楼层集季期回名级班室门栋排]))\s?[-–—~～]\s?(?=第?\d{1,4}\1)", None),
    ("cardinal.minus", rf"(?<=[个人次天])[-−](?=\d+(?:\.\d+)?\s?{_TEMPERATURE})", None),
    ("range.to", r"(?<=[0-9%‰℃°])\s?[-–—~～]\s?(?=[-−]\d)", condition.is_no_formula),
    ("range.to", r"(?:(?<=[%‰℃°])|(?<=°[CF]))\s?[~～]\s?(?=\d)", None),
    ("range.to", r"(?<=月)\s?[-–—~～]\s?(?=[次明翌]年\d)", None),
    ("range.to", r"(?<=/h)\s?[-–—~～]\s?(?=\d)", None),
    ("range.to", r"(?<=[\u4e00-\u9fff㎡㎥])\s?[-–—~～]\s?(?=\d)", ranges.is_same_unit),
    ("cardinal.minus", r"–(?=\d)", amounts.begins_text),
    (
        "cardinal.minus",
        r"(?<![\w.)%‰°日号点分年月万亿千百元块岁米斤个人次天秒℃])[-−](?=\d|点\d|\(-?\d|[$€£¥￥]\d)",
        None,
    ),
    ("serial.to", rf"(?<![A-Za-z0-9])(?:{contexts.TO})(?![A-Za-z0-9])", None),
    (
        "cardinal.two",
        r"(?<=[A-Z])2(?=余|次|起|下(?:[车午线单载架来])|点|轮|倍|平|大|条件|部分|项目|处理|家族)|(?<=\b[A-Z])2(?=[线栋座楼层区口馆航站级档幢单号厅型类班组队场门路])",
        None,
    ),
    ("cardinal.two", rf"(?<![\d.])2(?={contexts.NEVER_PAIRED})|(?<=排)2(?=[座号])", None),
    (
        "cardinal.two",
        r"(?<![\d.])2(?![\d.次天个节顿回小场篇单期-]|\s?[-–—~～至到])",
        condition.behind("周|星期|礼拜"),
    ),
    ("cardinal.two", r"(?<![\d.])2(?=单元|[栋幢](?:号|\s?\d))", None),
    ("cardinal.two", r"(?<![\d.])2(?=层(?!楼))", condition.behind("负|B|地下|在|于|到|去|楼|-|达")),
    ("cardinal.two", r"(?<![\d.])2(?=处)", amounts.is_division_of_office),
    ("cardinal.two", r"(?<![\d.])2(?=局(?!比赛))", amounts.is_bureau),
    ("cardinal.two", r"(?<![\d.])2(?=代)", amounts.is_behind_latin),
    ("cardinal.two", r"(?<![\d.])2(?=次)", amounts.is_of_session),
    ("cardinal.pair", rf"(?<![\d.:])(?<!/)2(?={contexts.PAIRED})", condition.is_counted),
    (
        "cardinal.pair",
        r"(?<![\d.:/])2(?=[声枪拳])",
        condition.behind("响|叫|鸣|喊|敲了|叫了|打了|开了"),
    ),
    ("cardinal.two", r"(?<![\w.:/-])2(?=\s?[-–—~～至到]\s?\d{1,2}(?:月|年级|班|号|楼|日|环|线))", None),
    (
        "cardinal.pair",
        r"(?<![\w.:/-])2(?=\s?[-–—~～至到]\s?(?:[3-9]|[1-9]\d)\s?"
        rf"(?:(?:[ckm]?m|k?g|mg|m?[lL]|h|min|s|t)(?![A-Za-z\d])|[个天名位件张只本岁人]|周(?!年)|年(?!级)|小时|分钟|秒|{contexts.PAIRED}))",
        condition.is_counted,
    ),
    (
        "cardinal.pair",
        r"(?<![\d.:])(?<!/)2(?=年(?![级代]|\s?[（(]?\d{1,2}[)）]?班)|台)",
        amounts.is_no_name,
    ),
    ("fraction.thousandths", r"(?P<number>\d+(?:\.\d+)?)‰", None),
    ("cardinal.separated", r"(?<![\d.])\d{1,3}(?:,\d{3})+(?=(?:\.\d+)?\s?[%‰/:]|\.0+\s?[元块])", None),
    (
        "cardinal.spaced",
        r"(?<![\d.,])[1-9]\d{0,2}"
        r"(?:(?:[ \u00a0\u202f]\d{3})*[ \u00a0\u202f]000|(?:[\u00a0\u202f]\d{3})+)(?![\d ])"
        rf"|(?<![\d.,])[1-9]\d{{0,2}}(?: \d{{3}}){{2,}}(?=[{contexts.COUNTING}])",
        None,
    ),
    ("cardinal.number", r"(?<![\d.])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d|%|\.\d)", None),
    ("cardinal.result", r"(?:(?<==)|(?<== ))(?!2(?!\d))\d+(?:\.\d+)?(?![\d.,:/%])", None),
    ("cardinal.long", r"(?<![\d.,A-Za-z])[1-9]\d{7,14}(?![\d.,%])", None),
    ("roman.sign", r"(?P<roman>[Ⅰ-ⅿ]+)", None),
    ("roman.number", r"(?P<roman>[IVX]+)(?![A-Za-z])", condition.is_ordinal),
    ("cardinal.sign", r"[①-⒛❶-❿㈠-㈩㊀-㊉]", None),
    ("formula.minus", r"(?<=\d)\s?[-–−]\s?(?=\d)", amounts.is_difference),
    ("range.to", r"(?:(?<=([A-Z])\d)|(?<=([A-Z])\d\d))\s?[-–—~～]\s?(?=(?:\1|\2)\d)", None),
    ("range.till", r"\s?[-–—~～]\s?(?=至今)", None),
    ("range.to", r"(?:(?<=\d)|(?<=\d[\u4e00-\u9fff]))\s?[-–—~～]\s?(?=第\d)", None),
    ("range.to", r"(?<=([年月]))\s?[-–—~～]\s?(?=约?(?:公元)?前?\d{1,4}(?:\1|年\d{1,2}月))", None),
    ("range.to", r"(?<=\d)\s?[-–—~～]\s?(?=(?:周|星期|礼拜)[\d一二三四五六日天])", None),
    ("range.to", r"(?<=\d)\s?[-–—]\s?(?=(?:公元)?前\d{1,4}年)", None),
    ("range.to", r"(?<=\d[kKwW])\s?[-–—]\s?(?=\d+(?:\.\d+)?[kKwW])", None),
    ("range.to", r"(?:(?<=\d[AaPp][Mm])|(?<=\d [AaPp][Mm])|(?<=[AaPp]\.[Mm]\.))\s?[-–—~～]\s?(?=\d)", None),
    (
        "range.to",
        r"(?:(?<=\d[A-Za-z])|(?<=\d[A-Za-z]{2}))\s?[-–—~～]\s?"
        rf"(?=\d+(?:\.\d+)?\s?(?:{_alternatives(contexts.UNITS)}|[A-Za-z]{{1,2}})(?![A-Za-z\d]))",
        None,
    ),
    (
        "range.to",
        rf"(?<=[0-9%‰日号点分万亿千百℃°])\s?[-–—]\s?{_LATER}",
        None,
    ),
    (
        "range.to",
        rf"(?<=[0-9%日号点分万亿千百元块岁米斤个人次天秒℃])\s?[~～]\s?{_LATER}",
        None,
    ),
    (
        "range.to",
        r"(?<=([元块岁米斤个人次天秒]))\s?[-–—]\s?(?=\d+(?:\.\d+)?[万亿千百]*(?:\1|$|[,.;!?，。；、！？）)]))",
        condition.is_no_formula,
    ),
)
