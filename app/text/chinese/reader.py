"""Read a Chinese phrase: tagged parts first, the rest by wetext."""

import re
from collections.abc import Callable
from dataclasses import replace

from firstword.app.text.addresses import CHINESE_MARKS, spell_addresses
from firstword.app.text.chinese import contexts
from firstword.app.text.chinese.tagger import Tag, tag
from firstword.app.text.chinese.verbalizer import by_digits, cardinal, verbalize
from firstword.app.text.english import vocabulary
from firstword.app.text.english.numbers import roman_value
from firstword.app.text.english.reader import VULGAR
from firstword.app.text.factorials import part_factorials
from firstword.app.text.phrases import UNSPACED, Phrase

# ruff: noqa: RUF001, RUF002  Chinese punctuation is meant

_NUMERIC = re.compile(r"[0-9Ⅰ-ⅿ①-⒛❶-❿㈠-㈩㊀-㊉²³⁰¹⁴-⁹^=]")
_VALUED_ZEROS = re.compile(r"(?<=[0-9])\.0+(?=\s?[元块])")
_SIGN = re.compile("|".join(re.escape(sign) for sign in contexts.SIGNS))
_WORD_SIGNS = re.compile(
    r"(?<=[A-Za-z])(?<![0-9][A-Za-z])(?<![0-9][A-Za-z]{2})(?<!/h)(?!(?<=\b[HMS]P)-[0-9]+(?:$|[^\w\u4e00-\u9fff-]|点))[-_](?=[0-9])(?![0-9]+\s?(?:BP|bp|个?基点))"
)
_LONG_WORD_SIGNS = re.compile(r"(?<=[A-Za-z]{2})[-_](?=[0-9])")
_PER = re.compile(
    rf"(?:(?<=[元块角分币镑刀美港日韩次克升米里时卡斤吨])|(?<=[元块]起)|(?<=[0-9零一二三四五六七八九十百千万][kKwW])(?=/(?:[月年天]|平(?![方台板日时常均])))|(?<=[0-9零一二两三四五六七八九十百千][人片粒转毛r步下帧跳拍])|(?<=[0-9零一二两三四五六七八九十百千万亿]{contexts.SERVED})(?=/(?:[^0-9]|[0-9]+[天周月年次]))|(?:(?<=[0-9][GMT度])|(?<=[GMKT]B))(?=/[月年天秒人](?:$|[^\u4e00-\u9fff]|[起左以的]))|(?<=[0-9])(?=/(?:斤|公斤|小时|升)(?:$|[^\u4e00-\u9fff]))|(?<=万)(?=/(?:[年月人]|平(?![米方])))|(?<=[元块]/人)|(?<=[)])(?=/[盒箱包袋瓶件套人份])|(?<=个)(?=/组)|(?:(?<=分钟)|(?<=秒))(?=/[^0-9零一二两三四五六七八九十])|(?:(?<=[0-9]{{2}})|(?<=\.[0-9])|(?<=一百[一二]十)|(?<=一百[一二]十[二四九]))(?=/(?:月|年|天|晚|位|人|小时|课时|节|单|件|份|斤|张|次)(?:$|[^\u4e00-\u9fff]|[起的左以])))/(?=百?[万千]|[0-9零一二两三四五六七八九十百千]*(?:{contexts.PER}))"
)
_PER_NONE = re.compile("/(?=周[一二三四五六日末])")
_UNITS = "|".join(sorted(contexts.PER_UNITS, key=len, reverse=True))
_PER_UNIT = re.compile(
    rf"(?<=[元块角分秒币镑刀铢盾方次粒片支滴喷袋颗瓶包个台件下])/(?P<unit>{_UNITS})(?![\w²³]|/(?![\u3400-\u9fff]))",
    re.ASCII,
)
_SLASH = re.compile("(?<=[\u3400-\u9fffA-Za-z])/(?=[\u3400-\u9fffA-Za-z])")
_QUOTIENT = re.compile(
    r"(?<![A-Za-z][A-Za-z])(?<=[A-Za-z零一二三四五六七八九十百千])/(?=[A-Za-z](?![A-Za-z]))"
)
_BLANKS = re.compile(f" (?=[{UNSPACED}])|(?<=[{UNSPACED}]) ")
_DROPPED = re.compile(r"[#~～$€£¥￥]")
_ALPHABET = re.compile(
    r"(?<![A-Za-z])(?P<first>A(?=-[C-Z])|a(?=-z)|[A-Z](?=[~～]))[-~～](?P<last>[A-Za-z])(?![A-Za-z])"
)
_SHARP = re.compile(r"(?<![A-Za-z])(?P<letter>[CF])#")
_LEADING_POINT = re.compile(r"(?<![\w.])\.(?=[A-Za-z])|(?<![\w.$￥¥€£])\.(?=[0-9])")
_LEADING_DECIMALS = re.compile(r"(?<![\w.%$￥¥€£])\.(?=[0-9]{2})|(?<![0-9].)(?<=[$￥¥€£])\.(?=[0-9])")
_DAY = re.compile(r"(?:周|星期|礼拜)[一二三四五六日天][早晚]?\s?$|月\s?$")
_HOUR = re.compile(r"\d\s?[点时分日号月]\s?$")
_WRITTEN = {**VULGAR, ord("∼"): "~", ord("﹣"): "-", ord("ⁿ"): "^n", ord("ₙ"): "n"}
_LETTER_MINUS = re.compile(
    r"(?:(?<=(?<![A-Za-z0-9-])[NT])(?=[-−][0-9](?:$|[天日时分秒月年项]|[^\w.\u4e00-\u9fff-]))"
    r"|(?<=(?<![A-Za-z0-9-])[nxyr])(?=[-−][0-9](?![\w.-]|航站|月台|多不饱和|脂肪|油酸|比例|[和与]n[-−]|轴|射线|系列|口罩|坦克|飞机|战机|号机|型|楼|座|签证))"
    r"|(?<=UTC)|(?<=GMT))[-−](?=[0-9])",
    re.ASCII,
)
"""A hyphen that is a minus: "T-3", "n-1", "UTC-8"."""
_ROOT = re.compile(r"√(?P<root>[0-9]+)/(?P<below>[0-9]+)")
_PER_BOTH = re.compile(r"/[(（](?P<first>[^()（）]{1,4})·(?P<second>[^()（）]{1,3})[)）]")
_OPEN_UNIT = re.compile(r"(?<=[元块角分])/[(](?=[\u4e00-\u9fff]{1,3}$)")
_UNIT_BEFORE = re.compile(r"[元块角分]/[(][\u4e00-\u9fff]{1,3}(?P<times>·[\u4e00-\u9fff]{1,3})?$")
"""Of "元/(人·天)", whose parts are phrases."""
_DIAMETER = re.compile("[∅⌀](?=[0-9])")
_LIMIT = re.compile("(?<![A-Za-z])(?P<letter>[a-zA-Z])(?:→|-?->)(?=[-+−]?[0-9]|[-+−]?∞)")
_BRACKETED = re.compile(r"(?<![A-Za-z])[(](?P<unit>[A-Za-z°℃℉μΩ/²³]{1,6})[)]")
_BEFORE_UNIT = re.compile("(?:[零一二两三四五六七八九十百千万亿几半每以（]|多少|单位[是为:：]?)$")
_ROMAN_NAME = re.compile("III?|VIII?|XI{1,3}|XIV|XVI{0,3}|XIX")
_RISE = re.compile(r"[↑↓](?=\s?[￥¥$]?\d)")
_TIMES = re.compile("(?<=[0-9][\u4e00-\u9fff])[*](?=[0-9])")
_PATH = re.compile(r"(?:/[A-Za-z][\w.-]*)+/?")
_COLON = re.compile("(?<=[0-9])(?:∶|：(?![0-9]+[个人名条种天次位项步年月台件]))(?=[0-9])")
_LISTING_COMMA = re.compile(r"(?<!\.\d{3})(?:(?<=\d{4}),(?=\d)|(?<=\d),(?=\d)(?!\d{3}(?!\d)))")
"""Of no group: "2023,2024两年"."""
_WIDE_COMMA = re.compile(r"(?<=\d)，(?=\d{3}(?!\d))")
_WIDE_NUMBER = re.compile(
    r"\s*(?P<sign>[$€£¥￥])?(?P<head>\d{1,3})，(?P<group>\d{3})(?P<more>(?:，\d{3})*)(?![\d，])(?:\.\d+)?"
    rf"\s?(?P<unit>{contexts.UNITS_BEHIND_GROUPS})?"
)
_AMOUNT_BEFORE = re.compile("(?:[共约有达价额计]|价格|超过|人口|总数)[：:]?$")
_LISTED_BEFORE = re.compile(rf"(?:[^\u4e00-\u9fff]|{contexts.LISTING})$")
_REST = re.compile(r"(?<=[0-9])\s?(?:…{1,2}|\.{3,6})\s?(?=[0-9])")
"""Before what a division leaves: "12÷5=2……2"."""
_DIFFERENCE = re.compile("[xyzabmn][²³]?-[xyzabmn][²³]?(?:[-+][a-z])?")
_RATIO = re.compile(r"[a-zA-Z](?::[a-zA-Z]){1,2}(?P<value>=[\d:]+)?")
_BEFORE_DIFFERENCE = ("求", "计算", "则", "已知", "即", "得", "当")
_COMPARED = re.compile("(?<![A-Za-z])(?P<first>[a-z])-(?P<last>[a-z])(?=[<>≤≥≠])")
_FACTORIAL = re.compile(r"(?<=[0-9n])!(?=\s=)|(?<=^n)!$")
_SIZES = re.compile(
    r"(?<![A-Za-z0-9])(?P<first>[2-6]?X{0,3}[SML])[-–~～](?P<last>[2-6]?X{0,5}[SML])(?![A-Za-z0-9])"
)
_INCREMENT = re.compile(r"(?<=[A-Za-z])\+\+")
_HUNDRED = re.compile("百分之一百(?![零一二三四五六七八九十点万亿])")
_BLANK_BEHIND_DIGIT = re.compile(r"(?<=[0-9]) (?=[年月日号时]|[%‰](?!\s))|(?<=[0-9] [年月日时])  ?(?=[0-9])")
_APART = re.compile(r"(?<![0-9.])(?P<decimal>[0-9]+\.[0-9]{1,2}) (?=[0-9]+(?![0-9:]))")
_LOGARITHM = re.compile(r"log(?P<base>[₀-₉]+)\(?(?P<of>[0-9]+(?![0-9.])|[a-z](?![a-z]))\)?")
_TRADITIONAL = re.compile(f"(?<=[0-9])(?:小時|[ 公分]?[{''.join(contexts.TRADITIONAL).replace('時', '')}])+")
_SIMPLIFIED = str.maketrans(contexts.TRADITIONAL)
_COMMAND = re.compile(r"-{0,2}[A-Za-z][\w./-]*")  # or another option; before an option
_OPTION = re.compile("(?P<dashes>--?)(?P<name>[A-Za-z][A-Za-z-]*)")
_MODULE = re.compile(r"(?!www)[a-z][a-z0-9_]+(?:\.[a-z][a-z0-9_]+)+")
_NUMBER_SIGN = re.compile(
    "(?<=[0-9])#(?=汽油|柴油|油|楼|栋|宿舍|机|厂房|车间|仓|炉|泵|门|电梯|线|桥|井|库|会议)"
    r"|(?<=[0-9])#(?=\s?[-–—~～至到]\s?\d+#)"
    "|(?<=(?<![0-9#])9[258])#(?=[每加涨降上下跌为和与、的])"
)
_FORMULA_SIGN = re.compile(r"(?P<before>(?:[(][A-Za-z²³/]{1,6})?[)]?)(?P<sign>[-−–/*])(?P<ahead>[(]?)")
_FORMULA = re.compile(contexts.FORMULA_OF_WORDS)
_SIGNS_OF_WORDS = {"-": "减", "−": "减", "–": "减", "/": "除以", "*": "乘"}
_STAR = re.compile(r"(?<![*])[*](?![*])")
_PRODUCT = re.compile(r"(?<=[a-zA-Z0-9)])[*](?=[a-zA-Z0-9(])")
_WEEKDAYS = re.compile("(?:周|星期)[一二三四五六](?:/周?[二三四五六])*$")
_LONG_DASH = re.compile("(?<=[0-9])——(?=[0-9])")
_STARS = re.compile("★{2,}☆*|★☆+")
_STARS_BEHIND = re.compile("★(?P<number>[1-9])(?![0-9])")
_DOSES = tuple("次粒片支滴喷袋颗瓶包元块")
_NUMBERED = re.compile(r"(?<![#\d])\d{1,3}#")
_HALVES = {"AM": "上午", "PM": "下午", "A.M.": "上午", "P.M.": "下午", "a.m.": "上午", "p.m.": "下午"}
_CLOCK = re.compile(r"\d{1,2}[:：]\d\d")
_HALF_TOLD = re.compile(f"(?:{contexts.HALVES_TOLD})$")
_ROMAN = re.compile("I{1,3}|IV|VI{1,3}|IX")
_ROMAN_LISTED = re.compile("(?<=[\u4e00-\u9fff])(?:I{1,3}|IV|VI{0,3}|IX)[和与]$")  # before "III"
_CENTURY = re.compile("X{0,2}(?:IX|IV|V?I{0,3})")
_ARROW = re.compile("(?<=[A-Za-z])(?:→|⇒|-?->|=>)(?=[A-Za-z])")
_ARROW_OF_DIGITS = re.compile(
    "(?:(?<=[0-9])|(?<=[0-9][A-Za-z%℃元岁万人个])|(?<=[0-9][A-Za-z]{2})|(?<=[0-9][a-z]{3}))(?:→|⇒|-?->|=>)(?=[0-9])"
    r"|(?<=[0-9])(?:→|⇒|-?->|=>)(?=[A-Za-z]{1,3}\.?[0-9])"
)
_COUNTED = tuple("元块多余右十百千万亿")  # before "RMB"
_DASHES = ("-", "–", "—", "--")
_TILL = (*_DASHES, "~", "～", "〜")
_FAREWELLS = tuple(contexts.FAREWELLS.split("|"))
_ORDINAL = re.compile(r"第[\d一二三四五六七八九十]+[\u4e00-\u9fff]{0,2}\s?$")
_WEEKDAY = re.compile("(?:周|星期|礼拜)[一二三四五六]$")


def say_arrows(text: str, phrase: Phrase) -> str:
    """Return the text with its arrows as pauses, between digits as "到"; "2斤*3袋" with a sign that stays."""
    if text in vocabulary.ARROWS:
        return "，" if phrase.previous and phrase.following else ""
    if "*" in text:
        text = _TIMES.sub("×", text)  # it marks no words
        if "=" in text:
            text = _PRODUCT.sub("×", text)
        elif text[0] in "*)" and "**" not in text and _is_in_product(phrase.before):
            text = text.replace("*", "×", 1)
    if "★" in text:
        text = _STARS.sub(lambda stars: _rated(stars, phrase), _STARS_BEHIND.sub(r"\g<number>★", text))
    if "↑" in text or "↓" in text:
        text = _RISE.sub(lambda arrow: _risen(arrow, phrase), text)
    if "→" in text:
        text = _LIMIT.sub(r"\g<letter>趋于", text)
    return _ARROW.sub("，", _ARROW_OF_DIGITS.sub("到", text))


def _is_in_product(before: str) -> bool:
    """Behind words of a formula in which no mark opens: "总价=单价*数量"."""
    return _FORMULA.search(before) is not None and not _STAR.search(before.rpartition("=")[0])


def _rated(stars: re.Match[str], phrase: Phrase) -> str:
    """ "★★★☆☆", or stars behind what is rated."""
    is_told = "☆" in stars[0] or phrase.before.rstrip().endswith(contexts.RATED)
    return f"{cardinal(str(stars[0].count('★')))}星" if is_told else stars[0]


def _risen(arrow: re.Match[str], phrase: Phrase) -> str:
    """An arrow before an amount, unless a word says so."""
    before = f"{phrase.before}{arrow.string[: arrow.start()]}".rstrip()
    return "" if before.endswith(contexts.RISEN) else "上升" if arrow[0] == "↑" else "下降"


def say_chinese(text: str, phrase: Phrase, wetext: Callable[[str], str]) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned."""
    if (spoken := _beside(text, phrase)) is not None:
        return spoken
    if phrase.following == "·" and "/(" in text:
        text = _OPEN_UNIT.sub("/", text)
    if (comma := _parting_comma(text, phrase)) is not None:
        return _say_parted(text, comma, phrase, wetext)
    if "，" in text:
        text = _WIDE_COMMA.sub(",", text)
    text = _signs_in_words(phrase, text)
    spoken = spell_addresses(text, CHINESE_MARKS, by_digits)
    if _NUMERIC.search(spoken) or phrase.before.endswith("第"):
        signs = _LONG_WORD_SIGNS if "=" in spoken else _WORD_SIGNS
        parts = tag(signs.sub(" ", spoken), phrase)
        spoken = "".join(verbalize(part) if isinstance(part, Tag) else part for part in parts)
        if "/" in spoken:
            spoken = _PER_NONE.sub(" ", spoken)
            spoken = _PER.sub("每", _PER_UNIT.sub(lambda per: f"每{contexts.PER_UNITS[per['unit']]}", spoken))
        if any(character.isdigit() for character in spoken):
            spoken = by_digits(wetext(_VALUED_ZEROS.sub("", spoken)).replace("\\", ""))  # it escapes quotes
    if "=" in text:
        spoken = _QUOTIENT.sub("除以", spoken)
    if "%" in text:
        spoken = _HUNDRED.sub("百分之百", spoken)
    is_coded = text[-3:] in contexts.CODES_OF_MONEY and spoken.endswith(text[-3:])
    if is_coded and (spoken[:-3] or phrase.before).rstrip()[-1:] in _COUNTED:
        spoken = f"{spoken[:-3].rstrip()}{contexts.CODES_OF_MONEY[text[-3:]]}"
    spoken = _SIGN.sub(lambda sign: contexts.SIGNS[sign[0]], _SLASH.sub(" ", spoken))
    return _BLANKS.sub("", " ".join(_DROPPED.sub("", spoken).split()))


def _parting_comma(text: str, phrase: Phrase) -> int | None:
    """Where a comma stands between two numbers; None: nowhere."""
    if "，" in text and _WIDE_COMMA.search(text) and not _is_long_number(text, phrase):
        return text.index("，")
    comma = _LISTING_COMMA.search(text) if "," in text else None
    return comma.start() if comma else None


def _say_parted(text: str, comma: int, phrase: Phrase, wetext: Callable[[str], str]) -> str:
    """Two parts of a phrase, each beside the other; comma: where the first ends."""
    first, mark, last = text[:comma], text[comma], text[comma + 1 :]
    behind = replace(phrase, before=f"{phrase.before}{first}{mark}", previous=f"{first}{mark}")
    ahead = say_chinese(first, replace(phrase, following=mark), wetext)
    return f"{ahead}{mark}{say_chinese(last, behind, wetext)}"


def _is_long_number(text: str, phrase: Phrase) -> bool:
    """One with a currency, three zeros, a word in front or a unit; not of "步骤1" or "约120"."""
    number = _WIDE_NUMBER.match(text)
    if number is None or number["sign"] or number["group"] == "000":
        return number is not None
    if len(number["head"]) == 3:
        return False
    if _AMOUNT_BEFORE.search(phrase.before):
        is_apart = not f"{text[number.end() :]}{phrase.following}"[:1].isalnum()
        return len(number["head"]) == 1 or number["unit"] is not None or is_apart
    is_listed = not phrase.before or _LISTED_BEFORE.search(phrase.before) is not None
    return number["unit"] is not None and not number["more"] and not is_listed


def _signs_in_words(phrase: Phrase, text: str) -> str:
    """Signs that letters or digits on both sides decide, as they are said."""
    if not text.isascii():
        text = _with_plain_signs(text)
    if "(" in text or "·" in text:
        text = _PER_BOTH.sub(_per_both, _BRACKETED.sub(lambda found: _in_brackets(found, phrase), text))
    if "-" in text or "～" in text or "~" in text:
        text = _letters_in_words(_ALPHABET.sub(r"\g<first>到\g<last>", text), phrase)
    if "." in text and _MODULE.fullmatch(text):
        text = text.replace(".", "点")
    if " " in text:
        text = _APART.sub(r"\g<decimal>，", _BLANK_BEHIND_DIGIT.sub("", text))
    if "÷" in text and "=" in text:
        text = _REST.sub("余", text)
    if "-" in text or ":" in text:
        text = _terms_in_words(text, phrase)
    if "!" in text and ("=" in text or text == "n!"):
        text = _FACTORIAL.sub("的阶乘", part_factorials(text))
    if text[-1:] in ("L", "M"):
        text = _SIZES.sub(r"\g<first>到\g<last>", text)
    if "++" in text:
        text = _INCREMENT.sub("加加", text)
    if "." in text and not (text.startswith(".88") and phrase.before.endswith(_FAREWELLS)):
        text = _LEADING_POINT.sub("点", _LEADING_DECIMALS.sub("0.", text))
    return _SHARP.sub(r"\g<letter> sharp", text) if "#" in text else text


def _letters_in_words(text: str, phrase: Phrase) -> str:
    """ "n-1项" with "减", not the name "欧米伽n-3"."""
    return text if phrase.before.endswith(("欧米伽", "欧米茄")) else _LETTER_MINUS.sub("减", text)


def _terms_in_words(text: str, phrase: Phrase) -> str:
    """ "求x-y", "x-y>0" and "a:b=3:4", not "设x-y平面"."""
    if ":" in text and (ratio := _RATIO.fullmatch(text)):
        is_told = ratio["value"] or phrase.before.endswith((*_BEFORE_DIFFERENCE, "比"))
        return text.replace(":", "比") if is_told else text
    if _DIFFERENCE.fullmatch(text) and phrase.before.endswith(_BEFORE_DIFFERENCE):
        return text.replace("-", "减")
    return _COMPARED.sub(r"\g<first>减\g<last>", text)


def _with_plain_signs(text: str) -> str:
    """Write signs that are not ASCII as the rules know them, or as words."""
    if "₀" <= text[-1:] <= "₉" or "log" in text:
        text = _LOGARITHM.sub(
            lambda found: f"以{found['base'].translate(VULGAR)}为底{found['of']}的对数", text
        )
    text = _LONG_DASH.sub("—", text)
    text = _TRADITIONAL.sub(lambda found: found[0].translate(_SIMPLIFIED), text)
    text = _COLON.sub(":", text.translate(_WRITTEN)).lstrip()
    if "#" in text:
        text = _NUMBER_SIGN.sub("号", text)
    if "√" in text:
        text = _ROOT.sub(r"\g<below>分之√\g<root>", text)
    return _DIAMETER.sub("直径", text)


def _per_both(per: re.Match[str]) -> str:
    """ "/(kg·d)" as a unit, "/(人·天)" as two."""
    unit = f"{per['first']}·{per['second']}"
    return f"/{unit}" if unit in contexts.PER_UNITS else f"/{per['first']}/{per['second']}"


def _beside(text: str, phrase: Phrase) -> str | None:
    """A dash, a slash, half a day or a numeral that its neighbors decide; None: the phrase is none."""
    if (sign := _sign_between(text, phrase)) is not None:
        return sign
    if text in _DASHES:
        if "\n" in phrase.source:
            return ""  # of a list's item
        has_pause = not phrase.previous or not phrase.following or phrase.previous[-1] in "，。,.；：！？"
        return "" if has_pause else "，"
    if text == "/" or (text == ">" and (not phrase.previous or "\n" in phrase.source)):
        return ""
    if text in _HALVES and phrase.following[:1].isdigit():
        return _HALVES[text]
    if text in ("am", "pm") and _CLOCK.match(phrase.following):
        return "" if _HALF_TOLD.search(phrase.before) else _HALVES[text.upper()]
    if text[-1] == "#" and len(text) < 5 and text[:-1].isdecimal() and not _is_in_hashes(phrase.before):
        return f"{cardinal(text[:-1])}{'井' if phrase.before.endswith('按') else '号'}"
    bare = text.rstrip(",;.!?)")
    if (name := _named_unit(bare, phrase)) is not None:
        return name + text[len(bare) :]
    if text[0] in "IVX" and _is_numeral(text, phrase):
        is_king = phrase.before.endswith(contexts.KINGS) and phrase.following[:1] != "世"
        return f"{cardinal(str(roman_value(text)))}{'世' if is_king else ''}"
    if (
        text == ">"
        and "\u3400" <= phrase.previous[-1:] < "\ua000"
        and "\u3400" <= phrase.following[:1] < "\ua000"
    ):
        return "，"  # a path through menus
    units = contexts.PER_UNITS if phrase.before.endswith(_DOSES) else contexts.UNITS  # "d" is a day of doses
    ends = ",;.!?)" if units is contexts.UNITS else ",;.!?)/"
    if text[0] == "/" and (unit := text[1:].rstrip(ends)) in units:
        return f"每{units[unit]}{text[1 + len(unit) :].replace('/', '每')}"
    return _of_unit(text, phrase) if text in ("·", ")") else _of_commands(text, phrase)


def _in_brackets(found: re.Match[str], phrase: Phrase) -> str:
    """ "体重(kg)", "时间(s)" and "大学物理(II)", where the brackets are of the phrase."""
    before, unit = f"{phrase.before}{found.string[: found.start()]}".rstrip(), found["unit"]
    if _ROMAN.fullmatch(unit) and before.endswith(contexts.ROMAN_COURSES):
        return f"({cardinal(str(roman_value(unit)))})"
    if before[-1:] in tuple(contexts.QUANTITIES.get(unit, "")):
        return f"({contexts.UNITS[unit]})"
    return f"({contexts.NAMED_UNITS.get(unit, unit)})"


def _named_unit(unit: str, phrase: Phrase) -> str | None:
    """ "几kg", "体重（kg）" and "单位：kg", a phrase; None: no unit, or letters."""
    before = phrase.before.rstrip()
    if before[-1:] == "（" and before[-2:-1] in tuple(contexts.QUANTITIES.get(unit, "")):
        return contexts.UNITS[unit]
    if "/" in unit or _BEFORE_UNIT.search(before):
        return contexts.NAMED_UNITS.get(unit)
    return None


def _is_in_hashes(before: str) -> bool:
    """Whether a hash opens there: "#11#", not "92#和95#"."""
    return "#" in _NUMBERED.sub("", before)


def _of_unit(text: str, phrase: Phrase) -> str | None:
    """The dot and the bracket of "元/(人·天)"."""
    unit = _UNIT_BEFORE.search(phrase.before)
    if unit is None or (unit["times"] is None) == (text == ")"):
        return None
    return "每" if text == "·" else ""


def _sign_between(text: str, phrase: Phrase) -> str | None:
    """A dash as "到", or a sign of a formula of words: "利润=收入-成本"."""
    if text in _TILL and _is_till(text, phrase):
        return "到"
    if text in ("-", "−") and phrase.before.endswith(contexts.TURNED) and phrase.following in ("键", "按"):
        return "减"
    if text == "/" and _WEEKDAYS.search(phrase.before) and phrase.following in tuple("一二三四五六日天周"):
        return "，"
    if text == "/" and f"{phrase.previous[-1:]}/{phrase.following[:1]}" in contexts.RATES:
        return "每"
    found = _FORMULA_SIGN.fullmatch(text)
    if found is None or not _FORMULA.search(f"{phrase.before}{found['before']}"):
        return None
    before = _BRACKETED.sub(lambda unit: _in_brackets(unit, phrase), found["before"])
    return f"{before}{_SIGNS_OF_WORDS[found['sign']]}{found['ahead']}"


def _is_till(text: str, phrase: Phrase) -> bool:
    """Whether a dash or a wave that is a phrase stands between two days, hours or numbers."""
    following = phrase.following[:1]
    if following == "第" and _ORDINAL.search(phrase.before):
        return True
    if _WEEKDAY.search(phrase.before) and following in tuple("二三四五六日天"):
        return True
    if text not in _DASHES and phrase.previous[-1:].isdecimal() and following.isdecimal():
        return True
    return any(
        before.search(phrase.before) and following in tuple(ahead)
        for before, ahead in ((_DAY, "周星礼"), (_HOUR, "早晚上下次凌中明"))
    )


def _is_numeral(text: str, phrase: Phrase) -> bool:
    """ "I期", "XVI世" and behind a name "高数II"."""
    if phrase.following[:1] in contexts.ROMAN_BEFORE and _ROMAN.fullmatch(text):
        return True
    if phrase.following[:1] == "世" and _CENTURY.fullmatch(text):
        return True
    if _ROMAN.fullmatch(text) and _is_part_of_title(phrase):
        return True
    is_named = not phrase.has_blank and "\u4e00" <= phrase.before[-1:] < "\ua000"
    name = _ROMAN_LISTED.sub("", phrase.before)
    is_called = is_named and not name.endswith(contexts.NO_ROMAN)
    return is_called and _ROMAN_NAME.fullmatch(text) is not None


def _is_part_of_title(phrase: Phrase) -> bool:
    """ "文明VI", "《大学英语IV》" and "高等数学（II）"."""
    ahead = phrase.following[:1]
    if phrase.before.endswith("（") and ahead == "）":
        return phrase.before[:-1].rstrip().endswith(contexts.ROMAN_COURSES)
    is_in_title = ahead == "》" and not phrase.before.endswith(("《", *contexts.NO_ROMAN))
    return is_in_title or phrase.before.endswith(contexts.ROMAN_SERIES)


def _of_commands(text: str, phrase: Phrase) -> str | None:
    if text[0] == "-" and _COMMAND.fullmatch(phrase.previous) and (option := _OPTION.fullmatch(text)):
        return f"{'杠' * len(option['dashes'])}{option['name']}"
    if text[0] == "/" and _PATH.fullmatch(text):
        return by_digits(text.replace("/", "斜杠"))
    return None
