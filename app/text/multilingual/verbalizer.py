"""Say a tagged number in one of the languages; number words are num2words'."""

# ruff: noqa: RUF001  Cyrillic letters and signs are meant

from collections.abc import Mapping
from typing import Any

from firstword.app.text.multilingual.locales import FEMININE, FRACTIONS, LOCALES, NATIVE, NEUTER, WEAK, Forms
from firstword.app.text.multilingual.tagger import Tag

Fields = Mapping[str, str | None]

MAX_DIGITS = 15  # longer numbers are read digit by digit


def verbalize(tag: Tag, language: str, previous: str, following: str) -> str:
    """Return what is spoken for a tag. previous, following: the words beside it."""
    fields = tag.fields
    kind, _, form = tag.form.partition(".")
    if kind == "telephone":
        return _by_digits(tag.text, language)
    if kind == "date":
        return _date(fields, form, language, previous)
    if kind == "time":
        return _time(fields, language)
    if kind == "money":
        return _money(fields, language)
    if kind == "measure":
        return _measure(fields, form, language)
    if kind == "ordinal":
        return _ordinal(fields, language, previous)
    if kind == "fraction":
        return _fraction(tag.text, language, following)
    if form == "native":
        return f"{_native(_of(fields, 'number'))} {fields['counter']}"
    if form == "minus":
        return LOCALES[language].minus + ("" if language == "ja" else " ")
    if kind == "range":
        return LOCALES[language].to if language in ("ja", "ko", "ru") else f" {LOCALES[language].to} "
    spoken = _number(fields, language)
    if language == "es" and spoken.endswith("uno") and following.isalpha():
        return _before_noun(spoken, language, following.endswith(("a", "as")))
    return spoken


def _words(value: int, language: str, **kwargs: Any) -> str:
    """One call of num2words, imported at first use, since that takes a while."""
    from num2words import num2words  # type: ignore[import-untyped]

    return str(num2words(value, lang=language, **kwargs))


def _of(fields: Fields, name: str) -> str:
    value = fields[name]
    assert value is not None, name
    return value


def _digits_of(written: str) -> str:
    return "".join(one for one in written if one.isdecimal())


def _cardinal(digits: str, language: str, noun: str = "") -> str:
    """noun: what is counted, whose gender "one" and "two" may follow."""
    if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return _by_digits(digits, language)
    value = int(digits)
    if noun and language == "ru":
        return _words(value, language, gender="f" if noun in FEMININE else "m")
    spoken = _words(value, language)
    if noun and value % 10 == 1 and value % 100 != 11:
        spoken = _before_noun(spoken, language, noun in FEMININE)
    return spoken


def _before_noun(spoken: str, language: str, is_feminine: bool) -> str:
    """ "One" as it stands before a noun."""
    if language == "de" and spoken == "eins":
        return "eine" if is_feminine else "ein"
    if language == "es" and spoken.endswith("uno"):
        return (
            f"{spoken[:-1]}a"
            if is_feminine
            else spoken.removesuffix("veintiuno") + "veintiún"
            if (spoken.endswith("veintiuno"))
            else spoken[:-1]
        )
    if language == "it" and spoken == "uno":
        return "una" if is_feminine else "un"
    if language == "fr" and spoken == "un" and is_feminine:
        return "une"
    return spoken


def _by_digits(text: str, language: str) -> str:
    """Digits one by one, a comma between groups."""
    if language == "ja":
        return "".join("〇一二三四五六七八九"[int(one)] for one in _digits_of(text))
    if language == "ko":
        return " ".join("공일이삼사오육칠팔구"[int(one)] for one in _digits_of(text))
    groups: list[list[str]] = [[]]
    for one in text:
        if one.isdecimal():
            groups[-1].append(_words(int(one), language))
        elif groups[-1]:
            groups.append([])
    plus = "plus " if text.startswith("+") else ""
    return plus + ", ".join(" ".join(group) for group in groups if group)


def _number(fields: Fields, language: str) -> str:
    whole, decimals = _digits_of(_of(fields, "whole")), fields.get("decimals")
    if not decimals:
        return _cardinal(whole, language)
    if language == "ru":
        from decimal import Decimal

        from num2words import num2words

        return str(num2words(Decimal(f"{whole}.{decimals}"), lang="ru"))
    behind = (
        _by_digits(decimals, language)
        if language in ("ja", "ko")
        else " ".join(_words(int(one), language) for one in decimals)
    )
    point = LOCALES[language].point
    return (
        f"{_cardinal(whole, language)}{point}{behind}"
        if language == "ja"
        else (f"{_cardinal(whole, language)} {point} {behind}")
    )


def _fraction(written: str, language: str, noun: str) -> str:
    """noun: what stands behind it, whose gender "half" follows as far as its ending tells."""
    if written == "1/2" and language == "de" and noun[:1].isupper():
        return "eine halbe" if noun.endswith("e") else f"ein halbe{'s' if noun in NEUTER else 'r'}"
    if written == "1/2" and language in ("es", "it") and noun.endswith("a"):
        return "media" if language == "es" else "mezza"
    return FRACTIONS[language][written]


def _form_of(forms: Forms, digits: str) -> str:
    """The form of a noun behind a number."""
    value = int(digits)
    if len(forms) == 3:
        if value % 10 == 1 and value % 100 != 11:
            return forms[0]
        return forms[1] if value % 10 in (2, 3, 4) and value % 100 not in (12, 13, 14) else forms[2]
    return forms[0] if value == 1 else forms[1]


def _counted(digits: str, forms: Forms, language: str) -> str:
    blank = "" if language == "ja" else " "
    return f"{_cardinal(digits, language, forms[0])}{blank}{_form_of(forms, digits)}"


def _money(fields: Fields, language: str) -> str:
    forms, cents = LOCALES[language].currencies[_of(fields, "sign")]
    whole, decimals = _digits_of(_of(fields, "whole")), fields.get("decimals")
    if decimals and (len(decimals) > 2 or not cents[0]):
        blank = "" if language == "ja" else " "
        return f"{_number(fields, language)}{blank}{forms[-1]}"
    hundredths = str(int((decimals or "0").ljust(2, "0")))
    if hundredths == "0":
        return _counted(whole, forms, language)
    if whole == "0":
        return _counted(hundredths, cents, language)
    spoken = _counted(whole, forms, language)
    match language:
        case "de" | "fr":
            return f"{spoken} {_cardinal(hundredths, language)}"
        case "es":
            return f"{spoken} con {_counted(hundredths, cents, language)}"
        case "it":
            return f"{spoken} e {_cardinal(hundredths, language)}"
        case _:
            return f"{spoken}{'' if language == 'ja' else ' '}{_counted(hundredths, cents, language)}"


def _measure(fields: Fields, form: str, language: str) -> str:
    locale = LOCALES[language]
    blank = "" if language == "ja" else " "
    whole, decimals = _digits_of(_of(fields, "whole")), fields.get("decimals")
    if form == "percent":
        if language == "ru":
            forms: Forms = ("процент", "процента", "процентов")
            return f"{_number(fields, language)} {forms[1] if decimals else _form_of(forms, whole)}"
        return f"{_number(fields, language)}{blank}{locale.percent}"
    forms = locale.units[_of(fields, "unit")]
    if decimals:
        return f"{_number(fields, language)}{blank}{forms[1]}"
    return _counted(whole, forms, language)


def _ordinal(fields: Fields, language: str, previous: str) -> str:
    value, ending = int(_of(fields, "number")), fields.get("ending") or ""
    match language:
        case "de":
            return _words(value, language, to="ordinal") + ("n" if previous.lower() in WEAK else "")
        case "es":
            spoken = _words(value, language, to="ordinal")
            return spoken.replace("o ", "a ")[:-1] + "a" if ending == "ª" else spoken
        case "it":
            spoken = _words(value, language, to="ordinal")
            return f"{spoken[:-1]}a" if ending == "ª" else spoken
        case "fr":
            if value == 1:
                return "première" if ending in ("re", "ère") else "premier"
            return _words(value, language, to="ordinal")
        case _:
            cases = {"й": ("m", "n"), "я": ("f", "n"), "е": ("n", "n"), "го": ("m", "g"), "му": ("m", "d")}
            gender, case = cases.get(ending, ("m", "n"))
            return _words(value, language, to="ordinal", gender=gender, case=case)


def _date(fields: Fields, form: str, language: str, previous: str) -> str:
    if form == "month":
        return "유월" if fields["month"] == "6" else "시월"
    year = fields.get("year")
    if year and len(year) == 2:
        year = f"{'20' if year < '70' else '19'}{year}"
    if form == "year":
        return _russian_year(_of(fields, "year"), _of(fields, "case"))
    day = str(int(_of(fields, "day")))
    if language in ("ja", "ko"):
        month = str(int(_of(fields, "month")))
        return _eastern_date(_of({"year": year}, "year"), month, day, language)
    name = fields.get("name") or LOCALES[language].months[int(_of(fields, "month")) - 1]
    match language:
        case "de":
            spoken = f"{_ordinal({'number': day}, language, previous)}"
            if previous.lower() not in WEAK and previous.lower() not in ("der", "die", "das"):
                spoken += "r"
            return f"{spoken} {name}" + (f" {_words(int(year), language, to='year')}" if year else "")
        case "es":
            spoken = "primero" if day == "1" else _cardinal(day, language)
            return f"{spoken} de {name}" + (f" de {_cardinal(year, language)}" if year else "")
        case "fr" | "it":
            first = "premier" if language == "fr" else "primo"
            spoken = first if day == "1" else _cardinal(day, language)
            return f"{spoken} {name}" + (f" {_cardinal(year, language)}" if year else "")
        case _:
            case = "g" if previous.lower() in ("с", "до", "от", "после", "около") else "n"
            spoken = _words(int(day), language, to="ordinal", gender="n", case=case)
            return f"{spoken} {name}" + (f" {_russian_year(year, 'года')}" if year else "")


def _russian_year(year: str, case: str) -> str:
    cases = {"год": "n", "года": "g", "году": "p", "годе": "p", "г.": "g"}
    spoken = _words(int(year), "ru", to="ordinal", gender="m", case=cases.get(case, "n"))
    return f"{spoken} {'года' if case == 'г.' else case}"


def _eastern_date(year: str, month: str, day: str, language: str) -> str:
    if language == "ja":
        return "".join(
            _cardinal(one, "ja") + unit for one, unit in ((year, "年"), (month, "月"), (day, "日"))
        )
    months = {"6": "유", "10": "시"}
    return (
        f"{_cardinal(year, 'ko')}년 {months.get(month) or _cardinal(month, 'ko')}월 {_cardinal(day, 'ko')}일"
    )


def _time(fields: Fields, language: str) -> str:
    hour, minutes = str(int(_of(fields, "hour"))), fields.get("minutes")
    minute = str(int(minutes)) if minutes else "0"
    match language:
        case "de":
            spoken = "ein" if hour == "1" else _cardinal(hour, language)
            return f"{spoken} Uhr" + (f" {_cardinal(minute, language)}" if minute != "0" else "")
        case "fr":
            spoken = _counted(hour, ("heure", "heures"), language)
            spoken = spoken.replace("un heure", "une heure")
            return spoken + (f" {_cardinal(minute, language)}" if minute != "0" else "")
        case "es":
            spoken = "una" if hour == "1" else _cardinal(hour, language)
            return f"{spoken} en punto" if minute == "0" else f"{spoken} y {_cardinal(minute, language)}"
        case "it":
            spoken = "una" if hour == "1" else _cardinal(hour, language)
            return spoken if minute == "0" else f"{spoken} e {_cardinal(minute, language)}"
        case "ru":
            spoken = _counted(hour, ("час", "часа", "часов"), language)
            return (
                spoken
                if minute == "0"
                else (f"{spoken} {_counted(minute, ('минута', 'минуты', 'минут'), language)}")
            )
        case "ja":
            return f"{_cardinal(hour, 'ja')}時" + (f"{_cardinal(minute, 'ja')}分" if minute != "0" else "")
        case _:
            native = _native(hour) if 0 < int(hour) <= 12 else _cardinal(hour, "ko")
            return f"{native} 시" + (f" {_cardinal(minute, 'ko')} 분" if minute != "0" else "")


def _native(digits: str) -> str:
    """Korean numbers of one to ninety nine before a counter."""
    if digits in NATIVE:
        return NATIVE[digits]
    tens = NATIVE[f"{digits[0]}0"].replace("스무", "스물")
    return f"{tens}{NATIVE[digits[1]]}"
