"""Tag the parts of a Chinese phrase that wetext would take for something else, from the words beside them."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from string import ascii_letters
from typing import Final

from firstword.app.text.chinese import contexts
from firstword.app.text.phrases import Phrase

# ruff: noqa: RUF001  Chinese punctuation and signs are meant

Match = re.Match[str]
Condition = Callable[[Match, Phrase], bool]


@dataclass(frozen=True, slots=True)
class Tag:
    """form: the class and one of its forms, such as "date.slashes". fields: what the pattern found."""

    form: str
    text: str
    fields: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class _Rule:
    form: str
    pattern: re.Pattern[str]
    where: Condition | None = None
    needs: str = ""  # a character that whatever is so written has: looked for first, since that is quicker


_NEEDS = {
    **{"fraction.mixed": "/", "fraction.division": "=", "measure.pressure": "/", "date.event": "·"},
    **{"date.either_way": "/", "fraction.thousandths": "‰", "fraction.percents": "%", "date.quarter": "Q"},
    **{"time.clock": ":", "cardinal.separated": ",", "formula.minus": "=", "formula.divided": "÷"},
    **{"measure.speed": "/", "date.decade": "s", "date.era_year": "年", "date.short_year": "年"},
    **{"date.years": "年", "cardinal.pair": "2", "cardinal.two": "2", "date.zeros": "0"},
}


def _behind(words: str) -> Condition:
    """Behind one of the words, with "是", "为", "号" or a colon between, or a letter code, at the most."""
    endings = tuple(words.split("|"))

    def where(found: Match, phrase: Phrase) -> bool:
        before = f"{phrase.before}{found.string[: found.start()]}".rstrip()
        code = before.rstrip(ascii_letters)
        for text in (before, code, code[:-1]) if code != before else (before,):
            text = text.rstrip("是为叫:： ")
            if any(text.removesuffix(link).endswith(endings) for link in ("", "号", "号码")):
                return True
        return False

    return where


def _is_date(found: Match, phrase: Phrase) -> bool:
    return 1 <= int(found["month"]) <= 12 and 1 <= int(found["day"]) <= 31


def _is_holidays(found: Match, phrase: Phrase) -> bool:
    """ "假期(5.1-5.5)", not "增长5.1-5.5"."""
    before = f"{phrase.before}{found.string[: found.start()]}".rstrip("(（:： ")
    is_date = all(
        1 <= int(found[f"{end}month"]) <= 12 and 1 <= int(found[f"{end}day"]) <= 31 for end in ("", "last_")
    )
    return is_date and before.endswith(tuple(contexts.HOLIDAYS.split("|")))


def _is_date_either_way(found: Match, phrase: Phrase) -> bool:
    first, second = int(found["first"]), int(found["second"])
    return 0 < min(first, second) <= 12 and max(first, second) <= 31


def _is_month(found: Match, phrase: Phrase) -> bool:
    return 1 <= int(found["month"]) <= 12 and 1900 <= int(found["year"]) <= 2099


def _is_short_year(found: Match, phrase: Phrase) -> bool:
    """ "98年", not "12年" that somebody waited."""
    following = found.string[found.end() : found.end() + 1] or phrase.following[:1]
    if re.match(r"\d{1,2}月", found.string[found.end() :]):
        return True
    before = f"{phrase.before}{found.string[: found.start()]}".rstrip()[-1:]
    if (following and following in contexts.YEAR_COUNTED) or (before and before in contexts.YEAR_COUNTING):
        return False
    return found["digits"][0] in "06789"


def _is_era_year(found: Match, phrase: Phrase) -> bool:
    return f"{phrase.before}{found.string[: found.start()]}".rstrip().endswith(tuple(contexts.ERAS))


def _is_ordinal(found: Match, phrase: Phrase) -> bool:
    return f"{phrase.before}{found.string[: found.start()]}".endswith("第")


def _is_extension(found: Match, phrase: Phrase) -> bool:
    before = found.string[: found.start()][-8:] or phrase.before[-8:]
    return before[-1:] == "转" and re.search(r"\d\s?转$", phrase.before[-8:] + before) is not None


def _is_score(found: Match, phrase: Phrase) -> bool:
    following = f"{found.string[found.end() :]}{phrase.following}".lstrip()
    return following.startswith(tuple(contexts.SCORES.split("|"))) or _behind(contexts.SCORED)(found, phrase)


def _is_standard(found: Match, phrase: Phrase) -> bool:
    """ "ISO 9001", in one phrase or two."""
    return f"{phrase.before}{found.string[: found.start()]}".rstrip().endswith("ISO")


def _is_size(found: Match, phrase: Phrase) -> bool:
    return _behind(contexts.SIZES)(found, phrase) and not _behind(contexts.DURATIONS)(found, phrase)


def _is_plate(found: Match, phrase: Phrase) -> bool:
    before = f"{phrase.before}{found.string[: found.start()]}"[-2:-1]
    return bool(before) and before in contexts.PROVINCES


def _is_model(found: Match, phrase: Phrase) -> bool:
    return f"{phrase.before}{found.string[: found.start()]}".endswith(tuple(contexts.MODELS.split("|")))


def _is_pressure(found: Match, phrase: Phrase) -> bool:
    return found["unit"] is not None or _behind("血压|血压值")(found, phrase)


def _is_division(found: Match, phrase: Phrase) -> bool:
    return int(found["above"]) >= int(found["below"])


def _is_room(found: Match, phrase: Phrase) -> bool:
    """ "305房间", not "有500房间" of a hotel."""
    before = f"{phrase.before}{found.string[: found.start()]}".rstrip()[-1:]
    return not found[0].endswith("00") and (not before or before not in contexts.ROOMS_COUNTING)


def _is_no_formula(found: Match, phrase: Phrase) -> bool:
    return "=" not in found.string


def _is_no_power(found: Match, phrase: Phrase) -> bool:
    """ "粉丝10w+", not the watts of "65w+快充"."""
    before = f"{phrase.before}{found.string[: found.start()]}"[-contexts.NEAR :]
    following = f"{found.string[found.end() :]}{phrase.following}"[: contexts.NEAR + 1]
    return re.search(contexts.POWERED, f"{before} {following}") is None


def _has_equals(found: Match, phrase: Phrase) -> bool:
    return "=" in found.string


_AMOUNT = r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_SCALE = rf"(?P<scale>{contexts.SCALES})?"


def _alternatives(words: object) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))  # type: ignore[call-overload]


_SIGN = f"(?P<sign>{_alternatives(contexts.CURRENCIES)})"
_CODE = f"(?P<code>{_alternatives(contexts.CODES_OF_MONEY)})"
_UNIT = rf"(?P<unit>{_alternatives(contexts.UNITS)})(?![A-Za-z0-9²³/级座股])"
_TEMPERATURE = "(?:℃|°|度|摄氏)"
_HALF = r"(?:\s?(?P<half>[AaPp])\.?[Mm]\b\.?)"

_ROWS: Final[tuple[tuple[str, str, Condition | None], ...]] = (
    (
        "telephone.number",
        r"(?<![\w.])(?:\+[0-9]{1,3}[ -]?)?(?:1[0-9]{2}[ -][0-9]{4}[ -][0-9]{4}|1[3-9][0-9]{9}"
        r"|0[0-9]{2,3}[ -][0-9]{7,8}|[48]00[ -]?[0-9]{3,4}[ -]?[0-9]{3,4}"
        r"|[(（]0[0-9]{2,3}[)）][ -]?[0-9]{7,8}|\+[0-9]{1,3}(?:[ -][0-9]{2,4}){2,4})(?![0-9])",
        None,
    ),
    ("telephone.extension", r"\d{2,6}(?!\d|[人名个])", _behind(contexts.EXTENSIONS)),
    ("telephone.extension", r"\d{1,5}(?!\d)", _is_extension),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?=室|号房|房(?![屋价子东客间]))", None),
    ("serial.room", r"(?<![\d.,])\d{3,4}(?=房间)", _is_room),
    ("serial.room", r"(?<=单元)\d{3,4}(?![\d.])", None),
    ("serial.room", r"(?<![\d.,])\d{3}(?=路(?![人口]))", None),
    ("serial.code", r"\d+(?:-\d+)+", _behind("ISBN|ISSN|书号")),
    ("serial.room", r"(?<![\d.,])(?:480|720|1080|1440|2160)(?=[PpIi](?![A-Za-z]))", None),
    ("range.score", r"(?<![\d.])(?P<low>\d{1,3})\s?[-–]\s?(?P<high>\d{1,3})(?![\d.%])", _is_score),
    (
        "measure.pressure",
        r"(?<!\d)(?P<above>\d{2,3})/(?P<below>\d{2,3})(?P<unit>\s?(?:mmHg|毫米汞柱))?(?![\d/])",
        _is_pressure,
    ),
    ("fraction.division", r"(?P<above>\d+)/(?P<below>\d+)(?=\s?=)", _is_division),
    (
        "fraction.mixed",
        r"(?<![\d.,/])(?P<whole>\d{1,3})(?:  ?|又)(?P<above>\d{1,3})/(?P<below>\d{1,3})(?![\d/])",
        None,
    ),
    (
        "fraction.plain",
        r"(?<![\w.,/])(?P<above>\d{1,3})/(?P<below>[2-9]|1\d{1,4})(?=小时|分钟|秒|天|的?概率|的?机会)",
        None,
    ),
    (
        "date.holidays",
        r"(?<![\d.])(?P<month>\d{1,2})\.(?P<day>\d{1,2})[-–—~～至到](?P<last_month>\d{1,2})\.(?P<last_day>\d{1,2})(?![\d.%]|\s?(?:小时|分钟|秒|天|个|倍|米|[a-zA-Z]))",
        _is_holidays,
    ),
    (
        "time.range",
        r"(?<![\d.])(?P<hour>\d{1,2})\.(?P<minutes>[0-5]\d)[-–—~～至到](?P<last_hour>\d{1,2})\.(?P<last_minutes>[0-5]\d)"
        r"(?![\d.%]|\s?(?:小时|分钟))",
        _behind("时间"),
    ),
    ("measure.feet", r"(?<![\d.°])(?P<feet>\d{1,2})′(?P<inches>\d{1,2}(?:\.\d+)?)″", _is_size),
    ("duration.primes", r"(?<![\d.°])(?P<minutes>\d{1,2})′(?P<seconds>\d{1,2}(?:\.\d+)?)″", None),
    ("measure.minutes", r"(?<=°)(?P<minutes>\d{1,2})[′'](?:(?P<seconds>\d{1,2})[″\"])?", None),
    (
        "date.event",
        r"(?<!\d)(?P<month>\d{1,2})·(?P<day>\d{1,2})(?!\d)",
        lambda found, phrase: _is_date(found, phrase) and _is_no_formula(found, phrase),
    ),
    ("ordinal.number", r"\d+(?![\d.])", _is_ordinal),
    (
        "telephone.known",
        r"(?<![\w.,])(?:110|119|120|122|114|112|123\d\d|10086|10010|10000"
        r"|95\d{3})(?![\d.%:/,])",
        _behind(contexts.DIALED),
    ),
    (
        "telephone.known",
        r"(?<![\w.,])(?:10086|10010|10000|95\d{3}|12\d{3}(?=热线))(?=客服(?!人员)|热线)",
        None,
    ),
    ("telephone.known", r"(?<![\w.,])[2-9]\d{6,7}(?![\d.%:/,元])", _behind(contexts.SUBSCRIBED)),
    ("serial.code", r"(?<=[A-Z])\d{4,6}(?![\d.])", _is_plate),
    ("serial.plate", r"·(?P<digits>[A-Z]?\d{3,6})(?![\d.])", _is_plate),
    ("serial.code", rf"(?!(?:{contexts.FILM_SPEEDS})(?!\d))\d{{4,5}}(?![\d.])", _is_standard),
    ("serial.code", r"\d+(?:-\d+){2,}(?![\d.-]|\s?(?:分钟|小时|天|年|元|人))", _behind(contexts.CODES)),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{1,5})(?=次)", None),
    ("serial.flight", r"(?<=[A-Z])(?P<digits>\d{2,5})(?![\d.])", _behind(contexts.FLIGHTS)),
    ("serial.code", r"(?<![\d.,])\d{2,}(?:[ -]\d{2,})*(?![\d.%:,年月日])", _behind(contexts.CODES)),
    ("serial.code", r"(?<![\d.,-])\d{4}(?: \d{4}){2,}(?: \d{1,4})?(?![\d.])", None),
    ("serial.code", r"(?<![\d.,:])0\d+(?![\d.%:,年月日号/-])", None),
    ("serial.code", r"(?<=[A-Z])(?<![A-Z]{3})\d{3}(?![\d.])", None),
    ("serial.long", r"\d{16,}", None),
    (
        "date.full",
        r"(?<!\d)(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})(?![\d.])日?",
        _is_date,
    ),
    ("date.full", r"(?<![\d/])(?P<year>\d{2})/(?P<month>\d{1,2})/(?P<day>\d{1,2})(?![\d/])", _is_date),
    (
        "date.either_way",
        r"(?<![\d/])(?P<first>\d{1,2})/(?P<second>\d{1,2})/(?P<year>\d{4})(?![\d/])",
        _is_date_either_way,
    ),
    ("date.year_and_month", r"(?<![\d/])(?P<year>\d{4})[-/](?P<month>\d{1,2})(?![\d/-])", _is_month),
    ("date.quarter", r"(?<!\d)(?P<year>\d{4})年?Q(?P<quarter>[1-4])", None),
    (
        "date.full",
        r"(?<![\w.,-])(?P<year>19\d\d|20\d\d)(?P<month>0[1-9]|1[0-2])(?P<day>0[1-9]|[12]\d|3[01])"
        r"(?![\d.,%元块人个万亿次只名位])",
        None,
    ),
    (
        "date.season",
        r"(?<!\d)(?P<first>19\d\d|20\d\d)[/-](?P<last>\d\d(?:\d\d)?)(?=赛季|学年|财年|年度)",
        None,
    ),
    ("date.years", r"(?<!\d)(?P<first>\d{4})(?:年)?\s?[-–—~～至]\s?(?P<last>\d{4})年", None),
    (
        "date.era",
        r"(?<![\w.])(?P<digits>\d{1,4})\s?(?P<era>B\.?\s?C\.?E?\.?"
        r"|A\.?D\.?)(?![A-Za-z])年?",
        None,
    ),
    ("date.era", r"(?<![\w.])(?P<era>B\.?C\.?|A\.?D\.?)\s?(?P<digits>\d{1,4})(?!\d)年?", None),
    ("date.era_year", r"(?P<digits>\d{3,4})(?=年)", _is_era_year),
    ("fraction.percents", r"(?<![\d.])(?P<low>\d+(?:\.\d+)?)[-–~～](?P<high>\d+(?:\.\d+)?)%", None),
    ("date.decade", r"(?<![\d.])(?P<century>19|20)?(?P<digits>\d0)s(?![A-Za-z])", None),
    ("date.short_year", r"(?<![\d.])(?P<digits>\d{2})年(?!代)", _is_short_year),
    ("date.zeros", r"(?<!\d)0(?=[1-9][月日号])", None),
    (
        "time.clock",
        r"(?<![\d.:])(?P<hour>\d{1,2}):(?P<minutes>[0-5]\d)"
        rf":(?P<seconds>[0-5]\d){_HALF}?(?![\d:])",
        None,
    ),
    ("time.clock", r"(?<![\d.:])(?P<hour>00?):(?P<minutes>[0-5]\d)(?![\d:])", None),
    ("time.half", rf"(?<![\d.:])(?P<hour>\d{{1,2}})(?::(?P<minutes>[0-5]\d))?{_HALF}", None),
    (
        "money.range",
        rf"{_SIGN}\s?(?P<low>\d+(?:\.\d+)?)(?P<low_scale>{contexts.SCALES})?\s?[-–—~～至到]\s?"
        rf"(?:{_alternatives(contexts.CURRENCIES)})?{_AMOUNT}{_SCALE}(?P<end>元)?",
        None,
    ),
    ("money.western", rf"{_SIGN}\s?{_AMOUNT}\s?(?P<western>bn|[kKmMB])(?![A-Za-z])", None),
    ("money.amount", rf"{_SIGN}\s?{_AMOUNT}\s?{_SCALE}(?P<end>元)?", None),
    ("money.amount", rf"(?<![\d.]){_AMOUNT}{_SCALE}(?P<sign>[$€£])", None),
    ("serial.version", r"(?<![\d.])\d+(?:\.\d+){2}(?![\d.])", None),
    ("money.code", rf"(?<![\d.]){_AMOUNT}\s?{_SCALE}\s?{_CODE}(?![A-Za-z])", None),
    ("money.code", rf"(?<![A-Za-z]){_CODE}\s?{_AMOUNT}\s?{_SCALE}", None),
    ("formula.raised", r"(?<=[0-9])\^\(?(?P<raised>[-−]?\d+)\)?", None),
    ("formula.power", r"(?<=[\w)])\^\(?(?P<power>[-−]?\d+)\)?", None),
    ("formula.raised", r"(?<=[0-9])(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)", None),
    ("formula.minus", r"(?<=[\d元块个米斤人次天秒])\s?[-–−]\s?(?=\d)", _has_equals),
    ("formula.minus", r"(?<=[a-zA-Z²³)])\s?[-–−]\s?(?=[\da-zA-Z(])", _has_equals),
    ("formula.plus", r"(?<=[a-zA-Z²³)])\s?\+\s?(?=[\da-zA-Z(])", _has_equals),
    ("formula.times", r"(?<=\d)\s?·\s?(?=\d)", _has_equals),
    ("formula.divided", r"(?<=\d)\s?÷\s?(?=\d)", None),
    ("measure.speed", rf"(?<![\w.]){_AMOUNT}\s?(?:km/h|KM/H)(?![A-Za-z])", None),
    (
        "measure.share",
        rf"(?<![A-Za-z\d.]){_AMOUNT}\s?(?P<unit>{_alternatives(contexts.UNITS)})"
        r"/(?:(?=\d+\s?[A-Za-z])|(?P<per>kg|g|m?[lL]|d[lL]|min)(?![\w/]))",
        None,
    ),
    ("cardinal.ten_thousands", rf"(?<![A-Za-z\d.]){_AMOUNT}w(?=\+(?!\d))", _is_no_power),
    ("measure.amount", rf"(?<![A-Za-z\d.]){_AMOUNT}\s?{_UNIT}", None),
    ("serial.model", rf"[-−](?=\d)(?!\d+(?:\.\d+)?\s?{_TEMPERATURE})", _is_model),
    ("cardinal.minus", rf"(?<=[个人次天])[-−](?=\d+(?:\.\d+)?\s?{_TEMPERATURE})", None),
    ("cardinal.minus", r"(?<![\w)%日号点分年月万亿千百元块岁米斤个人次天秒℃])[-−](?=\d|[$€£¥￥]\d)", None),
    ("cardinal.two", r"(?<![\d.])2(?=单元|[栋幢](?:号|\s?\d))", None),
    ("cardinal.pair", r"(?<![\d.:])(?<!/)2(?=点(?!\d)|次|栋|幢|倍|种|条|部|家|间|瓶|杯)", None),
    ("fraction.thousandths", r"(?P<number>\d+(?:\.\d+)?)‰", None),
    ("cardinal.separated", r"(?<![\d.])\d{1,3}(?:,\d{3})+(?![\d])", None),
    ("cardinal.long", r"(?<![\d.,A-Za-z])[1-9]\d{7,14}(?![\d.,])", None),
    ("roman.sign", r"(?P<roman>[Ⅰ-ⅿ]+)", None),
    ("roman.number", r"(?P<roman>[IVX]+)(?![A-Za-z])", _is_ordinal),
    ("cardinal.sign", r"[①-⑳❶-❿㈠-㈩]", None),
    ("range.to", r"(?<=\d[kKwW])\s?[-–—]\s?(?=\d+(?:\.\d+)?[kKwW])", None),
    (
        "range.to",
        r"(?<=[0-9%日号点分万亿千百℃])\s?[-–—]\s?(?=[0-9]|[早晚]\d|[上下]午\d)",
        None,
    ),
    (
        "range.to",
        r"(?<=[0-9%日号点分万亿千百元块岁米斤个人次天秒℃])\s?[~～]\s?(?=[0-9]|[早晚]\d|[上下]午\d)",
        None,
    ),
    (
        "range.to",
        r"(?<=([元块岁米斤个人次天秒]))\s?[-–—]\s?(?=\d+(?:\.\d+)?[万亿千百]*(?:\1|$|[,.;!?，。；、！？）)]))",
        _is_no_formula,
    ),
)
_SIGN_FORMS = (
    "formula.",
    "roman.sign",
    "cardinal.minus",
    "cardinal.sign",
    "range.to",
    "telephone.number",
    "serial.model",
    "serial.plate",
)
_LETTER_FORMS = ("money.", "date.era", "roman.number")
_NO_DIGIT_FORMS = ("formula.", "roman.", "range.to", "cardinal.minus", "serial.model")


@lru_cache(maxsize=1)
def _rules() -> tuple[tuple[_Rule, ...], tuple[_Rule, ...], tuple[_Rule, ...]]:
    """Return the rules for what begins with a digit, a letter, a sign; compiled at first use."""
    rules = [
        _Rule(form, re.compile(pattern, re.ASCII), where, _NEEDS.get(form, ""))
        for form, pattern, where in _ROWS
    ]
    return (
        tuple(rule for rule in rules if not rule.form.startswith(_NO_DIGIT_FORMS)),
        tuple(rule for rule in rules if rule.form.startswith(_LETTER_FORMS)),
        tuple(rule for rule in rules if rule.form.startswith((*_SIGN_FORMS, "money."))),
    )


_FIRST = re.compile(r"[0-9+·A-Z(（$€£¥￥₩₽₹₫฿₿₺₱^⁰¹²³⁴-⁹⁻÷\-–—−~～\s Ⅰ-ⅿ①-⑳❶-❿㈠-㈩]")


def tag(text: str, phrase: Phrase) -> Iterator[Tag | str]:
    """Yield the tagged parts of a phrase and, as strings, what stands between them; together the text."""
    of_digits, of_letters, of_signs = _rules()
    start = position = 0
    while found := _FIRST.search(text, position):
        position = found.start()
        first = text[position]
        for rule in of_digits if first.isdecimal() else of_letters if first.isalpha() else of_signs:
            if rule.needs not in text:
                continue
            match = rule.pattern.match(text, position)
            if match and (rule.where is None or rule.where(match, phrase)):
                if start < position:
                    yield text[start:position]
                yield Tag(rule.form, match[0], match.groupdict())
                start = position = match.end()
                break
        else:
            position += 1
    if start < len(text):
        yield text[start:]
