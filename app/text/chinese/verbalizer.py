"""Say a tagged part of a Chinese phrase."""

import re
import unicodedata
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.tagger import Tag
from firstword.app.text.english.numbers import roman_value

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

Fields = Mapping[str, str | None]

_DIGITS = str.maketrans("0123456789", "零一二三四五六七八九")
_ZEROS = re.compile(r"\.0+$")
_TELEPHONE_DIGITS = str.maketrans("0123456789", "零幺二三四五六七八九")
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻−", "0123456789--")
_UNITS_OF_TIME = {"h": "小时", "m": "分", "s": "秒"}
_HALF_YEARS = {"1": "上", "2": "下"}
_HALVES = {"a": "上午", "p": "下午"}
_WESTERN = {
    "k": 10**3,
    "w": 10**4,
    "th": 10**3,
    "m": 10**6,
    "b": 10**9,
    "bn": 10**9,
    "t": 10**12,
    "tr": 10**12,
}
_GROUPS = ("", "万", "亿", "万亿")


def by_digits(digits: str) -> str:
    return digits.translate(_DIGITS)


def cardinal(digits: str) -> str:
    """Digits and decimals, more than sixteen one by one; a 2 that leads is 两 before 百, 千, 万 and 亿."""
    whole, point, decimals = digits.replace(",", "").partition(".")
    spoken, value = "", whole.lstrip("0")
    if len(value) > 4 * len(_GROUPS):
        return by_digits(digits.replace(",", "").replace(".", "点"))
    if not value:
        spoken = "零"
    groups = [value[max(0, end - 4) : end] for end in range(len(value), 0, -4)]
    has_gap = False
    for index in range(len(groups) - 1, -1, -1):
        group = groups[index].lstrip("0")
        if not group:
            has_gap = True
            continue
        is_short = len(groups[index]) == 4 and len(group) < 4
        if spoken and (is_short or has_gap):
            spoken += "零"
        words = "两" if group == "2" and index and not spoken else _group(group, not spoken)
        is_split = index == 3 and groups[2].strip("0")  # 一万两千亿
        spoken += words + ("万" if is_split else _GROUPS[index])
        has_gap = False
    return f"{spoken}点{by_digits(decimals)}" if point else spoken


def _group(digits: str, is_first: bool) -> str:
    spoken, has_gap = "", False
    for digit, unit in zip(digits, ("千", "百", "十", "")[-len(digits) :], strict=True):
        if digit == "0":
            has_gap = True
            continue
        if has_gap and spoken:
            spoken += "零"
        has_gap = False
        is_pair = digit == "2" and unit in ("千", "百") and is_first and not spoken
        is_teen = digit == "1" and unit == "十" and not spoken and is_first
        spoken += ("" if is_teen else "两" if is_pair else by_digits(digit)) + unit
    return spoken


def counted(digits: str) -> str:
    """A number before a unit: two of it are 两."""
    return "两" if digits == "2" else cardinal(digits)


def verbalize(tag: Tag) -> str:
    """Return what is spoken for a tag; wetext reads what stands around it."""
    return _FORMS[tag.form](tag.fields, tag.text)


def _of(fields: Fields, name: str) -> str:
    value = fields[name]
    assert value is not None, name
    return value


def _date(fields: Fields, text: str) -> str:
    """A year of two digits is said as it is written."""
    return f"{by_digits(_of(fields, 'year'))}年{_day(fields, text)}"


def _day(fields: Fields, text: str) -> str:
    return f"{cardinal(_of(fields, 'month'))}月{cardinal(_of(fields, 'day'))}日"


def _date_either_way(fields: Fields, text: str) -> str:
    """Day before month unless only the other order makes a date."""
    day, month = _of(fields, "first"), _of(fields, "second")
    if int(month) > 12:
        day, month = month, day
    return _date({"year": fields["year"], "month": month, "day": day}, text)


def _era(fields: Fields, text: str) -> str:
    era = "公元前" if _of(fields, "era").startswith("B") else "公元"
    return f"{era}{_era_year(fields, text)}年"


def _decade(fields: Fields, text: str) -> str:
    digits = _of(fields, "digits")
    century = fields["century"] or "19"
    is_near = century == "19" or (century == "20" and digits > "20")
    return f"{cardinal(digits) if is_near else by_digits(century + digits)}年代"


def _era_year(fields: Fields, text: str) -> str:
    digits = _of(fields, "digits")
    is_round = digits.endswith("00") and (len(digits) == 3 or digits[0] == "1")
    return cardinal(digits) if len(digits) < 3 or is_round else by_digits(digits)


def _clock(fields: Fields, text: str) -> str:
    half, minutes, seconds = fields.get("half"), fields.get("minutes") or "00", fields.get("seconds") or "00"
    spoken = f"{_HALVES[half.lower()] if half else ''}{counted(_of(fields, 'hour').lstrip('0') or '0')}点"
    if minutes != "00" or seconds != "00":
        spoken += f"{_minutes(minutes)}分"
    return f"{spoken}{_minutes(seconds)}秒" if seconds != "00" else spoken


def _elapsed(fields: Fields, text: str) -> str:
    """Hours, minutes and seconds, those that are none left out; seconds below ten with a zero."""
    hours, minutes, seconds = (fields[name] or "" for name in ("hours", "minutes", "seconds"))
    spoken = f"{counted(str(int(hours)))}小时" if hours.strip("0") else ""
    spoken += f"{counted(str(int(minutes)))}分" if minutes.strip("0") else ""
    if not spoken:
        return f"{cardinal(str(int(seconds)))}秒"
    return spoken if seconds == "00" else f"{spoken}{_minutes(seconds)}秒"


def _minutes(digits: str) -> str:
    return by_digits(digits).replace(".", "点") if digits[0] == "0" and digits != "00" else cardinal(digits)


def _between_halves(fields: Fields, text: str) -> str:
    """ "1-3pm" and "11-1pm": the first in the other half of the day where it is later."""
    half, low, high = _of(fields, "half").lower(), int(_of(fields, "low")) % 12, int(_of(fields, "hour")) % 12
    first = half if low <= high else "ap"[half == "a"]
    till = "至" if fields["till"] == "至" else "到"
    last = {"hour": fields["hour"], "minutes": fields["minutes"], "half": "" if first == half else half}
    return _clock({"hour": fields["low"], "half": first}, text) + till + _clock(last, text)


def _span(fields: Fields, text: str) -> str:
    last_month = fields["last_month"]
    month = f"{cardinal(last_month)}月" if last_month else ""
    return f"{_date(fields, text)}到{month}{cardinal(_of(fields, 'last_day'))}日"


def _fraction_of_letter(fields: Fields, text: str) -> str:
    if fields["letter"]:
        return f"{fields['letter']}分之{cardinal(_of(fields, 'above'))}"
    return f"{cardinal(_of(fields, 'below'))}分之{fields['of']}"


def _money(fields: Fields, text: str) -> str:
    number, scale = _of(fields, "number"), fields.get("scale") or ""
    sign, code = fields.get("sign"), fields.get("code")
    name = contexts.CURRENCIES[sign] if sign else contexts.CODES_OF_MONEY[code or ""]
    minus = "负" if fields.get("minus") else ""
    amount = f"{minus}{counted(number if scale else _ZEROS.sub('', number))}{scale}"
    return f"人民币{amount}元" if fields.get("end") == "元" and name == "人民币" else amount + name


def _verse(fields: Fields, text: str) -> str:
    last = f"到{cardinal(last)}" if (last := fields["last"]) else ""
    return f"{cardinal(_of(fields, 'chapter'))}章{cardinal(_of(fields, 'verse'))}{last}节"


def _range_of_money(fields: Fields, text: str) -> str:
    low = f"{counted(_of(fields, 'low'))}{fields['low_scale'] or ''}"
    return f"{low}到{_money(fields, text)}"


def _western_money(fields: Fields, text: str) -> str:
    """Thousands, millions and billions, in ten thousands."""
    scale = _WESTERN[_of(fields, "western").lower().removesuffix("illion")[:2]]
    amount = Decimal(_of(fields, "number").replace(",", "")) * scale
    return _money({**fields, "number": f"{amount.normalize():f}"}, text)


def _measure(fields: Fields, text: str) -> str:
    unit, scale = contexts.UNITS[_of(fields, "unit")], fields.get("scale") or ""
    return (cardinal if unit.endswith("度") else counted)(_of(fields, "number")) + scale + unit


def _place(fields: Fields, text: str) -> str:
    """Degrees of latitude or longitude; minutes and seconds may be left out."""
    spoken = contexts.COMPASS[_of(fields, "way")]
    for name, unit in (("degrees", "度"), ("minutes", "分"), ("seconds", "秒")):
        spoken += f"{cardinal(fields[name] or '')}{unit}" if fields[name] else ""
    return spoken


def _share(fields: Fields, text: str) -> str:
    """An amount per unit; per hour and per cubic meter come first."""
    per = contexts.PER_UNITS.get(fields["per"] or "", "")
    return (
        f"每{per}{_measure(fields, text)}"
        if per in ("立方米", "小时")
        else f"{_measure(fields, text)}每{per}"
    )


def _kilometers(fields: Fields, text: str) -> str:
    low = f"{cardinal(fields['low'])}到" if fields["low"] else ""
    return f"{low}{counted(_of(fields, 'number'))}公里"


def _power(fields: Fields, text: str) -> str:
    power = (fields.get("power") or fields.get("raised") or "").translate(_RAISED)
    if power == "2" or (power == "3" and fields.get("power")):
        return "平方" if power == "2" else "立方"
    minus = "负" if power.startswith("-") else ""
    return f"的{minus}{cardinal(power.lstrip('-'))}次方"


def _between(fields: Fields, word: str, first: str, second: str) -> str:
    return f"{cardinal(_of(fields, first))}{word}{cardinal(_of(fields, second))}"


def _signed(digits: str) -> str:
    return f"负{cardinal(digits[1:])}" if digits[0] in "-−" else cardinal(digits)


def _minutes_and_seconds(fields: Fields, text: str) -> str:
    seconds = fields["seconds"] or fields.get("seconds_typed")
    spoken = f"{cardinal(_of(fields, 'minutes'))}分"
    return f"{spoken}{_minutes(seconds)}秒" if seconds and seconds != "00" else spoken


def _fraction(fields: Fields, text: str) -> str:
    """A hundredth, a thousandth and the like without "一" before them."""
    below = _of(fields, "below")
    part = (
        cardinal(below).removeprefix("一")
        if below[1:].strip("0") == "" and len(below) > 2
        else cardinal(below)
    )
    return f"{part}分之{cardinal(_of(fields, 'above'))}"


def _telephone(fields: Fields, text: str) -> str:
    return re.sub("[ ()（）–—-]", "", text).translate(_TELEPHONE_DIGITS).replace("+", "加")


_FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "telephone.number": _telephone,
    "telephone.known": _telephone,
    "telephone.extension": _telephone,
    "serial.room": lambda fields, text: by_digits(text),
    "serial.model": lambda fields, text: "",
    "serial.size": lambda fields, text: " ",
    "serial.plate": lambda fields, text: by_digits(_of(fields, "digits")),
    "measure.feet": lambda fields, text: (
        f"{cardinal(_of(fields, 'feet'))}英尺{cardinal(_of(fields, 'inches'))}英寸"
    ),
    "duration.primes": _minutes_and_seconds,
    "measure.minutes": _minutes_and_seconds,
    "measure.share": _share,
    "measure.degrees": _place,
    "formula.plus": lambda fields, text: "加",
    "fraction.plain": _fraction,
    "date.holidays": lambda fields, text: "到".join(
        f"{cardinal(_of(fields, f'{end}month'))}月{cardinal(_of(fields, f'{end}day'))}日"
        for end in ("", "last_")
    ),
    "range.degrees": lambda fields, text: (
        f"{_signed(_of(fields, 'low'))}到{_signed(_of(fields, 'high'))}摄氏度"
    ),
    "range.score": lambda fields, text: _between(fields, "比", "low", "high"),
    "measure.pressure": lambda fields, text: (
        f"{_between(fields, '比', 'above', 'below')}{'毫米汞柱' if fields['unit'] else ''}"
    ),
    "fraction.division": lambda fields, text: _between(fields, "除以", "above", "below"),
    "fraction.mixed": lambda fields, text: (
        f"{cardinal(_of(fields, 'whole'))}又{_between(fields, '分之', 'below', 'above')}"
    ),
    "date.event": lambda fields, text: by_digits(re.sub("[·./]", "", text)),
    "cardinal.two": lambda fields, text: "二",
    "range.verse": _verse,
    "range.figure": lambda fields, text: _between(fields, "杠", "low", "high"),
    "range.versus": lambda fields, text: _between(fields, re.sub(r"[\d\s.]", "", text), "low", "high"),
    "ordinal.latin": lambda fields, text: f"第{cardinal(_of(fields, 'number'))}",
    "measure.beside": lambda fields, text: f"{_measure(fields, text)}，",
    "serial.flight": _telephone,
    "serial.code": lambda fields, text: by_digits(re.sub("[ -]", "", text)),
    "serial.hex": lambda fields, text: by_digits(text.replace(":", "")),
    "serial.groups": lambda fields, text: by_digits(text.replace("-", "")),
    "serial.version": lambda fields, text: "点".join(cardinal(part) for part in text.split(".")),
    "serial.dotted": lambda fields, text: by_digits(text.replace(".", "点").replace("-", "")),
    "serial.slashes": lambda fields, text: "，".join(cardinal(part) for part in text.split("/")),
    "serial.tail": lambda fields, text: by_digits(text),
    "serial.long": lambda fields, text: by_digits(text),
    "serial.range": lambda fields, text: "到".join(by_digits(part) for part in re.findall(r"\d+", text)),
    "serial.hyphen": lambda fields, text: by_digits(text.replace("-", "")),
    "serial.page": lambda fields, text: (
        f"{cardinal(_of(fields, 'page'))}{fields['kind']}，共{cardinal(_of(fields, 'pages'))}"
    ),
    "serial.beside": lambda fields, text: "，",
    "serial.mask": lambda fields, text: "斜杠" if text == "/" else "杠",
    "serial.to": lambda fields, text: text.replace("2", " to "),
    "serial.tire": lambda fields, text: "，".join(
        (by_digits(_of(fields, "width")), by_digits(_of(fields, "share")), f"R{cardinal(_of(fields, 'rim'))}")
    ),
    "date.span": _span,
    "date.next_month": lambda fields, text: (
        f"{cardinal(_of(fields, 'month'))}、{cardinal(_of(fields, 'next'))}"
    ),
    "time.halves": _between_halves,
    "fraction.letter": _fraction_of_letter,
    "fraction.measured": lambda fields, text: (
        f"{_fraction(fields, text)}{contexts.UNITS.get(_of(fields, 'unit'), '英寸')}"
    ),
    "cardinal.hundreds": lambda fields, text: cardinal(text).removeprefix("一"),
    "date.full": _date,
    "date.written": _date,
    "date.after": lambda fields, text: by_digits(text),
    "date.day": _day,
    "date.month_day": _day,
    "date.either_way": _date_either_way,
    "date.year_and_month": lambda fields, text: (
        f"{by_digits(_of(fields, 'year'))}年{cardinal(_of(fields, 'month'))}月"
    ),
    "date.months": lambda fields, text: (
        f"{by_digits(_of(fields, 'first'))}年{cardinal(_of(fields, 'month'))}月到"
        f"{by_digits(_of(fields, 'last'))}年{cardinal(_of(fields, 'last_month'))}月"
    ),
    "date.quarter": lambda fields, text: (
        f"{by_digits(_of(fields, 'year'))}年"
        + (
            f"{_HALF_YEARS[fields['half']]}半年"
            if fields["half"]
            else f"第{cardinal(fields['quarter'] or '')}季度"
        )
    ),
    "date.years": lambda fields, text: (
        f"{by_digits(_of(fields, 'first'))}{'至' if fields['till'] == '至' else '到'}"
        f"{by_digits(_of(fields, 'last'))}年"
    ),
    "date.season": lambda fields, text: (
        f"{by_digits(_of(fields, 'first'))}到{by_digits(_of(fields, 'last'))}"
    ),
    "date.era": _era,
    "date.era_year": _era_year,
    "date.decade": _decade,
    "fraction.percents": lambda fields, text: (
        f"百分之{cardinal(_of(fields, 'low'))}{'至' if fields['till'] == '至' else '到'}"
        f"百分之{cardinal(_of(fields, 'high'))}"
    ),
    "date.short_year": lambda fields, text: f"{by_digits(_of(fields, 'digits'))}年",
    "serial.apostrophe": lambda fields, text: by_digits(text[1:]),
    "date.double": lambda fields, text: cardinal(_of(fields, "number")),
    "date.zeros": lambda fields, text: "",
    "time.clock": _clock,
    "time.half": _clock,
    "time.told": _clock,
    "time.always": lambda fields, text: f"七乘二十四{'乘三百六十五' if text.endswith('365') else ''}",
    "duration.clock": _elapsed,
    "duration.units": lambda fields, text: re.sub(
        r"(\d+)\s?([hms])", lambda part: counted(str(int(part[1]))) + _UNITS_OF_TIME[part[2]], text
    ).replace(" ", ""),
    "duration.lap": lambda fields, text: (
        f"{_minutes_and_seconds(fields, text)}{by_digits(_of(fields, 'parts'))}"
    ),
    "time.range": lambda fields, text: "到".join(
        _clock({"hour": fields[f"{end}hour"], "minutes": fields[f"{end}minutes"]}, text).removesuffix("分")
        for end in ("", "last_")
    ),
    "money.amount": _money,
    "money.code": _money,
    "money.whole": lambda fields, text: counted(_of(fields, "number")),
    "money.range": _range_of_money,
    "money.western": _western_money,
    "decimal.scientific": lambda fields, text: (
        f"{cardinal(_of(fields, 'number'))}乘十的{_signed(_of(fields, 'power').lstrip('+'))}次方"
    ),
    "formula.power": _power,
    "formula.raised": lambda fields, text: f"的{_power(fields, text).removeprefix('的')}",
    "formula.measured": lambda fields, text: (
        f"的{_power({'raised': fields['raised'] or fields['power']}, text).removeprefix('的')}"
        f"{contexts.UNITS[_of(fields, 'unit')]}"
    ),
    "formula.both": lambda fields, text: "正负",
    "formula.less": lambda fields, text: "减",
    "formula.minus": lambda fields, text: "减",
    "formula.to": lambda fields, text: f"的{fields['power']}次方",
    "formula.times": lambda fields, text: "乘",
    "formula.cross": lambda fields, text: "乘",
    "formula.beside": lambda fields, text: "，",
    "formula.divided": lambda fields, text: "除以",
    "measure.speed": lambda fields, text: f"每小时{_kilometers(fields, text)}",
    "measure.hourly": _kilometers,
    "measure.amount": _measure,
    "measure.inches": lambda fields, text: f"{counted(_of(fields, 'number'))}英寸",
    "time.minute": lambda fields, text: f"{cardinal(_of(fields, 'number'))}分钟",
    "cardinal.multiplied": lambda fields, text: counted(
        f"{(Decimal(_of(fields, 'number')) * 1000).normalize():f}"
    ),
    "cardinal.spaced": lambda fields, text: cardinal(re.sub(r"\s", "", text)),
    "cardinal.thousands": lambda fields, text: f"{cardinal(_of(fields, 'number'))}k",
    "cardinal.separated": lambda fields, text: text.replace(",", ""),
    "cardinal.ten_thousands": lambda fields, text: f"{fields['number']}万",
    "cardinal.plus": lambda fields, text: "正",
    "cardinal.minus": lambda fields, text: "负",
    "cardinal.pair": lambda fields, text: "两",
    "ordinal.number": lambda fields, text: cardinal(text),
    "fraction.percent": lambda fields, text: f"百分之{cardinal(_of(fields, 'number'))}",
    "fraction.thousandths": lambda fields, text: f"千分之{cardinal(_of(fields, 'number'))}",
    "decimal.number": lambda fields, text: cardinal(text),
    "cardinal.number": lambda fields, text: cardinal(text),
    "cardinal.result": lambda fields, text: cardinal(text),
    "cardinal.long": lambda fields, text: cardinal(text),
    "cardinal.sign": lambda fields, text: cardinal(str(int(unicodedata.numeric(text)))),
    "roman.sign": lambda fields, text: cardinal(
        str(roman_value(unicodedata.normalize("NFKC", text).upper()))
    ),
    "roman.number": lambda fields, text: cardinal(str(roman_value(text))),
    "range.numbers": lambda fields, text: _between(fields, "到", "low", "high"),
    "range.to": lambda fields, text: "到",
    "range.till": lambda fields, text: "",
}
