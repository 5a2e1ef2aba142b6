"""Money, formulas, measures, numbers and ranges; the first that fits, in this order, is taken."""

from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.conditions import amounts, codes, condition, ranges
from firstword.app.text.chinese.conditions.condition import Condition
from firstword.app.text.chinese.rules.patterns import (
    AMOUNT,
    CODE,
    LATER,
    MONTH_AND_DAY,
    OF_MONEY,
    SCALE,
    SIGN,
    TEMPERATURE,
    UNIT,
)
from firstword.app.text.rules import alternatives

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

AMOUNTS: Final[tuple[tuple[str, str, Condition | None], ...]] = (
    (
        "money.range",
        rf"{SIGN}\s?(?P<low>\d+(?:\.\d+)?)(?P<low_scale>{contexts.SCALES})?\s?[-–—~～至到]\s?"
        rf"(?:{alternatives(contexts.CURRENCIES)})?{AMOUNT}{SCALE}(?P<end>{OF_MONEY})?",
        None,
    ),
    (
        "money.western",
        rf"{SIGN}\s?{AMOUNT}\s?(?P<western>bn|[kKmMBTwW]|{contexts.WESTERN})(?![A-Za-z])",
        None,
    ),
    ("money.amount", rf"{SIGN}\s?(?P<minus>[-−])?{AMOUNT}\s?{SCALE}(?P<end>{OF_MONEY})?", None),
    ("money.whole", rf"(?<![\d.,])(?P<number>\d+)\.00?(?=\s?[百千万亿]*(?:{OF_MONEY}))", None),
    ("serial.tail", rf"(?<=\d秒)\d{{2,3}}(?={contexts.RECORDED})", codes.is_record),
    ("serial.tail", r"(?<=\d秒)\d{3}(?=$|[^\w\u3400-\u9fff.]|的)", codes.is_record),
    ("serial.tail", r"(?<=\d[米块秒m])\d\d(?=$|[^\w\u3400-\u9fff.]|[的左高长宽多吧啊了])", None),
    (
        "money.amount",
        rf"(?<![\d.]){AMOUNT}{SCALE}(?:\s(?=.(?:$|[^\w\s($])))?(?P<sign>[$€£¥￥₫₽₩₹฿₺₱¢円])",
        None,
    ),
    ("serial.version", r"(?<![\d.])\d+(?:\.\d+){2}(?![\d.])", None),
    ("money.code", rf"(?<![\d.]){AMOUNT}\s?{SCALE}\s?{CODE}(?![A-Za-z])", None),
    ("money.code", rf"(?<![A-Za-z]){CODE}\s?{AMOUNT}\s?{SCALE}(?P<end>元)?", None),
    (
        "formula.measured",
        rf"(?<=10)(?:\^\(?(?P<raised>[-−]?\d+)\)?|(?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+))\s?{UNIT}",
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
    ("formula.plus", rf"\+(?=\d+(?:\.\d+)?(?![\d.]|\s?{TEMPERATURE}))", amounts.is_added),
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
        rf"(?<![\w.])(?:(?P<low>\d+(?:\.\d+)?)\s?[-–—~～至到]\s?)?{AMOUNT}\s?(?:km/h|KM/H)(?![A-Za-z])",
        condition.behind("时速|时速约|时速达|每小时"),
    ),
    (
        "measure.speed",
        rf"(?<![\w.])(?:(?P<low>\d+(?:\.\d+)?)\s?[-–—~～至到]\s?)?{AMOUNT}\s?(?:km/h|KM/H)(?![A-Za-z])",
        None,
    ),
    (
        "measure.share",
        rf"(?<![A-Za-z\d.]){AMOUNT}\s?{SCALE}\s?(?P<unit>{alternatives(contexts.UNITS)})"
        rf"/(?:(?=(?:\d+\s?(?:m?[lLs]|d[lL]|h|min)|100\s?(?:g|km))(?![A-Za-z]))|(?P<per>{alternatives(contexts.PER_UNITS)})(?![\w²³]|/(?![\u3400-\u9fff])))",
        None,
    ),
    (
        "measure.beside",
        rf"(?<![A-Za-z\d.]){AMOUNT}\s?(?P<unit>{alternatives(contexts.UNITS)})/(?=\d+(?:\.\d+)?\s?[A-Za-z℃℉°])",
        None,
    ),
    (
        "cardinal.ten_thousands",
        rf"(?<![A-Za-z\d.]){AMOUNT}[wW](?=\+(?!\d)|/(?:月|年|平)|(?:{contexts.FOLLOWED}))",
        amounts.is_no_power,
    ),
    (
        "cardinal.ten_thousands",
        rf"(?<![A-Za-z\d.]){AMOUNT}[wW](?![A-Za-z\d])",
        amounts.is_earned,
    ),
    ("measure.amount", rf"(?<![A-Za-z\d.]){AMOUNT}\s?{SCALE}\s?{UNIT}", None),
    ("measure.inches", rf"(?<![A-Za-z\d./]){AMOUNT}(?:[\"″]|in)(?![A-Za-z0-9])", amounts.is_unquoted),
    (
        "cardinal.number",
        r"(?<![\d.,/])(?:0|[1-9]\d{0,3})(?:\.\d+)?"
        r"(?=(?!(?:[kKmM]bps|gb|tb|lbs|mph|min|[ckm]m|[km]g|m[lLs]|Ah)(?![A-Za-z]))[A-Za-z]{2})",
        None,
    ),
    ("cardinal.multiplied", r"(?<![A-Za-z\d.,])(?P<number>\d+(?:\.\d+)?)[kK](?=[元块])", None),
    ("cardinal.thousands", r"(?<![A-Za-z\d.,])(?P<number>\d{2,}(?:\.\d+)?)k(?![A-Za-z元块])", None),
    ("measure.amount", rf"(?<![A-Za-z\d.]){AMOUNT}(?P<unit>V)(?=\d+(?:\.\d+)?Ah?(?![A-Za-z]))", None),
    ("measure.amount", r"(?<=\dV)(?P<number>\d+(?:\.\d+)?)(?P<unit>Ah?)(?![A-Za-z])", None),
    ("cardinal.number", rf"{MONTH_AND_DAY}(?!{contexts.EVENTS}|(?<=\.00)[元块])", amounts.is_no_day),
    ("serial.size", r"(?<=[A-Za-z])-(?=\d)", condition.is_code),
    ("serial.beside", r"(?<=\d)-(?=\d+(?:\.\d+)?[Bb](?![A-Za-z\d]))", codes.is_behind_name),
    ("serial.size", r"-(?=\d+(?:\.\d+)?[Bb](?![A-Za-z\d]))", codes.is_behind_name),
    ("serial.model", r"-(?=\d{3}|\d{1,2}(?:单元|号))", codes.is_in_building),
    ("serial.model", rf"[-−](?=\d)(?!\d+(?:\.\d+)?\s?{TEMPERATURE})", codes.is_model),
    ("range.to", r"(?<=\d([章节页条楼层集季期回名级班室门栋排]))\s?[-–—~～]\s?(?=第?\d{1,4}\1)", None),
    ("cardinal.minus", rf"(?<=[个人次天])[-−](?=\d+(?:\.\d+)?\s?{TEMPERATURE})", None),
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
        rf"(?=\d+(?:\.\d+)?\s?(?:{alternatives(contexts.UNITS)}|[A-Za-z]{{1,2}})(?![A-Za-z\d]))",
        None,
    ),
    (
        "range.to",
        rf"(?<=[0-9%‰日号点分万亿千百℃°])\s?[-–—]\s?{LATER}",
        None,
    ),
    (
        "range.to",
        rf"(?<=[0-9%日号点分万亿千百元块岁米斤个人次天秒℃])\s?[~～]\s?{LATER}",
        None,
    ),
    (
        "range.to",
        r"(?<=([元块岁米斤个人次天秒]))\s?[-–—]\s?(?=\d+(?:\.\d+)?[万亿千百]*(?:\1|$|[,.;!?，。；、！？）)]))",
        condition.is_no_formula,
    ),
)
