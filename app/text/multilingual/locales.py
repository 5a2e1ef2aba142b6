"""What each language calls months, currencies, units and signs, and how it writes numbers."""

# ruff: noqa: RUF001  Cyrillic letters and signs are meant

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

Forms = tuple[str, ...]  # one, several; in Russian one, two to four, several


@dataclass(frozen=True, slots=True)
class Locale:
    """decimal, separator: as numbers are written. point, minus, percent, to: words.

    months: January first. currencies: sign to the forms of its name and of its hundredth. units: as
    currencies.
    """

    decimal: str
    separator: str
    point: str
    minus: str
    percent: str
    to: str
    months: tuple[str, ...]
    currencies: Mapping[str, tuple[Forms, Forms]]
    units: Mapping[str, Forms]


def _same(*words: str) -> Forms:
    return words if len(words) > 1 else (words[0], words[0])


LOCALES: Final[Mapping[str, Locale]] = {
    "de": Locale(
        ",",
        ".",
        "Komma",
        "minus",
        "Prozent",
        "bis",
        (
            *("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober"),
            *("November", "Dezember"),
        ),
        {
            "€": (_same("Euro"), _same("Cent")),
            "$": (_same("Dollar"), _same("Cent")),
            "£": (_same("Pfund"), _same("Pence")),
            "CHF": (_same("Franken"), _same("Rappen")),
        },
        {
            "km": _same("Kilometer"),
            "m": _same("Meter"),
            "cm": _same("Zentimeter"),
            "mm": _same("Millimeter"),
            "kg": _same("Kilogramm"),
            "g": _same("Gramm"),
            "l": _same("Liter"),
            "ml": _same("Milliliter"),
            "km/h": _same("Kilometer pro Stunde"),
            "°C": _same("Grad Celsius"),
            "°": _same("Grad"),
            "h": ("Stunde", "Stunden"),
            "min": ("Minute", "Minuten"),
            "s": ("Sekunde", "Sekunden"),
        },
    ),
    "es": Locale(
        ",",
        ".",
        "coma",
        "menos",
        "por ciento",
        "a",
        (
            *("enero", "febrero", "marzo", "abril", "mayo", "junio", "julio", "agosto", "septiembre"),
            *("octubre", "noviembre", "diciembre"),
        ),
        {
            "€": (("euro", "euros"), ("céntimo", "céntimos")),
            "$": (("dólar", "dólares"), ("centavo", "centavos")),
            "£": (("libra", "libras"), ("penique", "peniques")),
        },
        {
            "km": ("kilómetro", "kilómetros"),
            "m": ("metro", "metros"),
            "cm": ("centímetro", "centímetros"),
            "mm": ("milímetro", "milímetros"),
            "kg": ("kilogramo", "kilogramos"),
            "g": ("gramo", "gramos"),
            "l": ("litro", "litros"),
            "ml": ("mililitro", "mililitros"),
            "km/h": ("kilómetro por hora", "kilómetros por hora"),
            "°C": ("grado Celsius", "grados Celsius"),
            "°": ("grado", "grados"),
            "h": ("hora", "horas"),
            "min": ("minuto", "minutos"),
            "s": ("segundo", "segundos"),
        },
    ),
    "fr": Locale(
        ",",
        " ",
        "virgule",
        "moins",
        "pour cent",
        "à",
        (
            *(
                "janvier",
                "février",
                "mars",
                "avril",
                "mai",
                "juin",
                "juillet",
                "août",
                "septembre",
                "octobre",
            ),
            *("novembre", "décembre"),
        ),
        {
            "€": (("euro", "euros"), ("centime", "centimes")),
            "$": (("dollar", "dollars"), ("cent", "cents")),
            "£": (("livre", "livres"), ("penny", "pence")),
        },
        {
            "km": ("kilomètre", "kilomètres"),
            "m": ("mètre", "mètres"),
            "cm": ("centimètre", "centimètres"),
            "mm": ("millimètre", "millimètres"),
            "kg": ("kilogramme", "kilogrammes"),
            "g": ("gramme", "grammes"),
            "l": ("litre", "litres"),
            "ml": ("millilitre", "millilitres"),
            "km/h": ("kilomètre par heure", "kilomètres par heure"),
            "°C": ("degré Celsius", "degrés Celsius"),
            "°": ("degré", "degrés"),
            "min": ("minute", "minutes"),
            "s": ("seconde", "secondes"),
        },
    ),
    "it": Locale(
        ",",
        ".",
        "virgola",
        "meno",
        "per cento",
        "a",
        (
            *("gennaio", "febbraio", "marzo", "aprile", "maggio", "giugno", "luglio", "agosto", "settembre"),
            *("ottobre", "novembre", "dicembre"),
        ),
        {
            "€": (_same("euro"), ("centesimo", "centesimi")),
            "$": (("dollaro", "dollari"), ("centesimo", "centesimi")),
            "£": (("sterlina", "sterline"), ("penny", "penny")),
        },
        {
            "km": ("chilometro", "chilometri"),
            "m": ("metro", "metri"),
            "cm": ("centimetro", "centimetri"),
            "mm": ("millimetro", "millimetri"),
            "kg": ("chilogrammo", "chilogrammi"),
            "g": ("grammo", "grammi"),
            "l": ("litro", "litri"),
            "ml": ("millilitro", "millilitri"),
            "km/h": ("chilometro all'ora", "chilometri all'ora"),
            "°C": ("grado Celsius", "gradi Celsius"),
            "°": ("grado", "gradi"),
            "h": ("ora", "ore"),
            "min": ("minuto", "minuti"),
            "s": ("secondo", "secondi"),
        },
    ),
    "ru": Locale(
        ",",
        " ",
        "",
        "минус",
        "процент",
        "-",
        (
            *("января", "февраля", "марта", "апреля", "мая", "июня", "июля", "августа", "сентября"),
            *("октября", "ноября", "декабря"),
        ),
        {
            "€": (_same("евро", "евро", "евро"), ("цент", "цента", "центов")),
            "$": (("доллар", "доллара", "долларов"), ("цент", "цента", "центов")),
            "₽": (("рубль", "рубля", "рублей"), ("копейка", "копейки", "копеек")),
            "руб.": (("рубль", "рубля", "рублей"), ("копейка", "копейки", "копеек")),
            "руб": (("рубль", "рубля", "рублей"), ("копейка", "копейки", "копеек")),
        },
        {
            "км": ("километр", "километра", "километров"),
            "м": ("метр", "метра", "метров"),
            "см": ("сантиметр", "сантиметра", "сантиметров"),
            "мм": ("миллиметр", "миллиметра", "миллиметров"),
            "кг": ("килограмм", "килограмма", "килограммов"),
            "г": ("грамм", "грамма", "граммов"),
            "л": ("литр", "литра", "литров"),
            "км/ч": ("километр в час", "километра в час", "километров в час"),
            "°C": ("градус Цельсия", "градуса Цельсия", "градусов Цельсия"),
            "°": ("градус", "градуса", "градусов"),
            "ч": ("час", "часа", "часов"),
            "мин": ("минута", "минуты", "минут"),
        },
    ),
    "ja": Locale(
        ".",
        ",",
        "点",
        "マイナス",
        "パーセント",
        "から",
        (),
        {
            "¥": (_same("円"), _same("")),
            "￥": (_same("円"), _same("")),
            "$": (_same("ドル"), _same("セント")),
            "€": (_same("ユーロ"), _same("セント")),
        },
        {
            "km": _same("キロメートル"),
            "m": _same("メートル"),
            "cm": _same("センチメートル"),
            "mm": _same("ミリメートル"),
            "kg": _same("キログラム"),
            "g": _same("グラム"),
            "l": _same("リットル"),
            "L": _same("リットル"),
            "ml": _same("ミリリットル"),
            "km/h": _same("キロメートル毎時"),
            "°C": _same("度"),
            "℃": _same("度"),
            "°": _same("度"),
        },
    ),
    "ko": Locale(
        ".",
        ",",
        "점",
        "마이너스",
        "퍼센트",
        "에서",
        (),
        {
            "₩": (_same("원"), _same("")),
            "$": (_same("달러"), _same("센트")),
            "€": (_same("유로"), _same("센트")),
            "¥": (_same("엔"), _same("")),
        },
        {
            "km": _same("킬로미터"),
            "m": _same("미터"),
            "cm": _same("센티미터"),
            "mm": _same("밀리미터"),
            "kg": _same("킬로그램"),
            "g": _same("그램"),
            "l": _same("리터"),
            "L": _same("리터"),
            "ml": _same("밀리리터"),
            "km/h": _same("킬로미터 퍼 아워"),
            "°C": _same("도"),
            "℃": _same("도"),
            "°": _same("도"),
        },
    ),
}
AFTER_NUMBER: Final = frozenset(
    {"Uhr", "de", "del", "год", "года", "году", "г."}
    | {month for locale in LOCALES.values() for month in locale.months}
    | {
        form
        for language in ("de", "es", "fr", "it", "ru")
        for table in (LOCALES[language].currencies, LOCALES[language].units)
        for form in table
    }
)
"""Words that change how a number before them is read."""
FEMININE: Final = frozenset(
    ("копейка", "минута", "libra", "hora", "livre", "minute", "seconde", "sterlina", "ora")
)
"""Nouns before which "one" has another form."""
FRACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "de": {
        **{"1/2": "ein halb", "1/3": "ein Drittel", "2/3": "zwei Drittel"},
        **{"1/4": "ein Viertel", "3/4": "drei Viertel"},
    },
    "es": {
        **{"1/2": "medio", "1/3": "un tercio", "2/3": "dos tercios"},
        **{"1/4": "un cuarto", "3/4": "tres cuartos"},
    },
    "fr": {
        **{"1/2": "un demi", "1/3": "un tiers", "2/3": "deux tiers"},
        **{"1/4": "un quart", "3/4": "trois quarts"},
    },
    "it": {
        **{"1/2": "mezzo", "1/3": "un terzo", "2/3": "due terzi"},
        **{"1/4": "un quarto", "3/4": "tre quarti"},
    },
    "ru": {
        **{"1/2": "одна вторая", "1/3": "одна треть", "2/3": "две трети"},
        **{"1/4": "одна четверть", "3/4": "три четверти"},
    },
    "ja": {
        **{"1/2": "二分の一", "1/3": "三分の一", "2/3": "三分の二"},
        **{"1/4": "四分の一", "3/4": "四分の三"},
    },
    "ko": {
        **{"1/2": "이분의 일", "1/3": "삼분의 일", "2/3": "삼분의 이"},
        **{"1/4": "사분의 일", "3/4": "사분의 삼"},
    },
}
"""Of an amount; others are left as they are."""
NATIVE: Final[Mapping[str, str]] = {
    **{
        "1": "한",
        "2": "두",
        "3": "세",
        "4": "네",
        "5": "다섯",
        "6": "여섯",
        "7": "일곱",
        "8": "여덟",
        "9": "아홉",
    },
    **{
        "10": "열",
        "20": "스무",
        "30": "서른",
        "40": "마흔",
        "50": "쉰",
        "60": "예순",
        "70": "일흔",
        "80": "여든",
    },
    "90": "아흔",
}
"""Korean numbers before hours and counters; those between are joined, 20 is 스물 before a digit."""
COUNTERS: Final = "시간|시|개월|개|명|살|마리|잔|병|번|권|장|대|그루|송이|사람|가지"
ARTICLES: Final = frozenset(
    [
        "der",
        "die",
        "das",
        "den",
        "dem",
        "am",
        "im",
        "vom",
        "zum",
        "zur",
        "beim",
        "ein",
        "eine",
        "einen",
        "einem",
        "einer",
        "jeder",
        "jede",
        "jedes",
        "ihr",
        "sein",
    ]
)
"""Behind one of these a German number with a stop is an ordinal."""
NEUTER: Final = frozenset(
    ["Kilo", "Kilogramm", "Pfund", "Glas", "Stück", "Jahr", "Gramm", "Dutzend", "Paket"]
)
WEAK: Final = frozenset(["am", "vom", "zum", "im", "beim", "den", "dem", "einen", "einem"])
"""Behind one of these its ending is -en."""
