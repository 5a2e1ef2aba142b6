"""Units and currencies: how they are written, and what one of them and several are called."""

_SQUARE, _CUBIC = ("square ", "²", "2"), ("cubic ", "³", "3")
_LENGTHS = {
    "km": "kilometer",
    "m": "meter",
    "cm": "centimeter",
    "mm": "millimeter",
    "ft": "foot",
    "in": "inch",
}
_LENGTHS |= {"mi": "mile", "yd": "yard"}
_PLURALS = {"foot": "feet", "inch": "inches"}


def _several(one: str) -> str:
    return one if one.endswith("hertz") else _PLURALS.get(one, f"{one}s")


# Written in one way only, where another case of the letters is another unit or a word.
EXACT: dict[str, tuple[str, str]] = {
    symbol: (one, _several(one))
    for symbol, one in {
        **{
            "m": "meter",
            "nm": "nanometer",
            "µm": "micrometer",
            "μm": "micrometer",
            "yd": "yard",
            "yds": "yard",
            "mL": "milliliter",
            "in": "inch",
        },
        **{"mi": "mile", "ft": "foot", "g": "gram", "mg": "milligram", "µg": "microgram", "μg": "microgram"},
        **{"mcg": "microgram", "t": "ton", "lb": "pound", "lbs": "pound", "oz": "ounce"},
        **{
            "LB": "pound",
            "LBS": "pound",
            "OZ": "ounce",
            "TSP": "teaspoon",
            "TBSP": "tablespoon",
            "YDS": "yard",
            **{"qts": "quart", "gals": "gallon", "tbs": "tablespoon"},
        },
        **{"l": "liter", "L": "liter", "dl": "deciliter", "dL": "deciliter", "cl": "centiliter"},
        **{"µl": "microliter", "μl": "microliter", "µL": "microliter", "μL": "microliter", "gal": "gallon"},
        **{
            "qt": "quart",
            "pt": "pint",
            "pts": "pint",
            "fl oz": "fluid ounce",
            "bbl": "barrel",
            "tbsp": "tablespoon",
        },
        **{
            "tsp": "teaspoon",
            "Tbsp": "tablespoon",
            "Tbs": "tablespoon",
            "h": "hour",
            "hr": "hour",
            "hrs": "hour",
            "min": "minute",
        },
        **{"mins": "minute", "s": "second", "sec": "second", "secs": "second", "ms": "millisecond"},
        **{
            "µs": "microsecond",
            "μs": "microsecond",
            "ns": "nanosecond",
            "yr": "year",
            "yrs": "year",
            "d": "day",
        },
        **{"wk": "week", "wks": "week", "mo": "month", "mos": "month", "V": "volt", "mV": "millivolt"},
        **{"kV": "kilovolt", "W": "watt", "mW": "milliwatt", "kW": "kilowatt", "MW": "megawatt"},
        **{
            "GW": "gigawatt",
            "TW": "terawatt",
            "Wh": "watt hour",
            "kWh": "kilowatt hour",
            "MWh": "megawatt hour",
        },
        **{"GWh": "gigawatt hour", "A": "ampere", "mA": "milliampere", "Ah": "ampere hour"},
        **{
            "mAh": "milliampere hour",
            "\u2126": "ohm",
            "\u03a9": "ohm",
            "kΩ": "kilohm",
            "MΩ": "megohm",
            "N": "newton",
        },
        **{"kN": "kilonewton", "J": "joule", "kJ": "kilojoule", "MJ": "megajoule", "Pa": "pascal"},
        **{"hPa": "hectopascal", "kPa": "kilopascal", "MPa": "megapascal", "bar": "bar", "mbar": "millibar"},
        **{"atm": "atmosphere", "K": "kelvin", "cal": "calorie", "kcal": "kilocalorie", "mol": "mole"},
        **{
            "mIU": "milli international unit",
            "mmol": "millimole",
            "kB": "kilobyte",
            "KB": "kilobyte",
            "kb": "kilobyte",
            "MB": "megabyte",
        },
        **{"GB": "gigabyte", "TB": "terabyte", "PB": "petabyte", "KiB": "kibibyte", "MiB": "mebibyte"},
        **{"GiB": "gibibyte", "TiB": "tebibyte", "Kb": "kilobit", "Mb": "megabit", "Gb": "gigabit"},
        **{"Mbit": "megabit", "Gbit": "gigabit", "MP": "megapixel", "px": "pixel", "ha": "hectare"},
        **{"kn": "knot", "kt": "knot", "kts": "knot", "ly": "light year", "ct": "carat", "lm": "lumen"},
        **{"Bq": "becquerel", "Sv": "sievert", "mSv": "millisievert", "eV": "electronvolt"},
        **{
            "Nm": "newton meter",
            "µF": "microfarad",
            "μF": "microfarad",
            "uF": "microfarad",
            "nF": "nanofarad",
        },
        **{
            "pF": "picofarad",
            "keV": "kiloelectronvolt",
            "MeV": "megaelectronvolt",
            "GeV": "gigaelectronvolt",
        },
        **{"TeV": "teraelectronvolt", "GPa": "gigapascal", "ng": "nanogram", "ug": "microgram"},
        **{"nmol": "nanomole", "pmol": "picomole", "kA": "kiloampere", "kVA": "kilovolt ampere"},
        **{"rad": "radian", "Mt": "megaton", "c": "cup"},
        **{"sq": "square", "pc": "piece", "pcs": "piece", "pkg": "package", "★": "star", "⭐": "star"},
    }.items()
}
# Written in any case.
FREE: dict[str, tuple[str, str]] = {
    symbol: (one, _several(one))
    for symbol, one in {
        **{"km": "kilometer", "cm": "centimeter", "mm": "millimeter", "kg": "kilogram", "kgs": "kilogram"},
        **{"ml": "milliliter", "hz": "hertz", "khz": "kilohertz", "mhz": "megahertz", "ghz": "gigahertz"},
        **{"thz": "terahertz", "db": "decibel"},
    }.items()
} | {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "kph": ("kilometer per hour", "kilometers per hour"),
    "mph": ("mile per hour", "miles per hour"),
    "mpg": ("mile per gallon", "miles per gallon"),
    "rpm": ("revolution per minute", "revolutions per minute"),
    "IU": ("international unit", "international units"),
    "bpm": ("beat per minute", "beats per minute"),
    "fps": ("frame per second", "frames per second"),
    "dpi": ("dot per inch", "dots per inch"),
    "ppi": ("pixel per inch", "pixels per inch"),
    "psi": ("pound per square inch", "pounds per square inch"),
    "ppm": ("part per million", "parts per million"),
    "ppb": ("part per billion", "parts per billion"),
    "mmhg": ("millimeter of mercury", "millimeters of mercury"),
    "bps": ("bit per second", "bits per second"),
    "kbps": ("kilobit per second", "kilobits per second"),
    "mbps": ("megabit per second", "megabits per second"),
    "gbps": ("gigabit per second", "gigabits per second"),
    "tbps": ("terabit per second", "terabits per second"),
}
UNITS: dict[str, tuple[str, str]] = {
    **{
        form: unit
        for symbol, unit in FREE.items()
        for form in (symbol, symbol.upper(), symbol.capitalize(), symbol[:-2] + symbol[-2:].capitalize())
        if form != "Mm"
    },
    **EXACT,
    **{
        form: (f"{word}{one}", f"{word}{_several(one)}")
        for symbol, one in _LENGTHS.items()
        for word, *signs in (_SQUARE, _CUBIC)
        for form in (
            *(symbol + sign for sign in signs),
            *(f"{'sq' if word == 'square ' else 'cu'}{gap}{symbol}" for gap in (" ", ". ", "-")),
        )
    },
    **{f"sq{dot} {form}": ("square mile", "square miles") for dot in ("", ".") for form in ("mile", "miles")},
    **{f"sq{dot} {form}": ("square foot", "square feet") for dot in ("", ".") for form in ("foot", "feet")},
    **dict.fromkeys(("ft-lb", "ft-lbs", "lb-ft"), ("foot pound", "foot pounds")),
    "dBA": ("decibel A", "decibels A"),
    "cc": ("cubic centimeter", "cubic centimeters"),
    "sqft": ("square foot", "square feet"),
    "m/s": ("meter per second", "meters per second"),
    "m/s²": ("meter per second squared", "meters per second squared"),
    "m/s2": ("meter per second squared", "meters per second squared"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "THz": ("terahertz", "terahertz"),
    "Hz": ("hertz", "hertz"),
    "dB": ("decibel", "decibels"),
    "hp": ("horsepower", "horsepower"),
    "N·m": ("newton meter", "newton meters"),
    "N⋅m": ("newton meter", "newton meters"),
    "l/100km": ("liter per one hundred kilometers", "liters per one hundred kilometers"),
    "l/100 km": ("liter per one hundred kilometers", "liters per one hundred kilometers"),
    "L/100km": ("liter per one hundred kilometers", "liters per one hundred kilometers"),
    "L/100 km": ("liter per one hundred kilometers", "liters per one hundred kilometers"),
    "mmHg": ("millimeter of mercury", "millimeters of mercury"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "° C": ("degree Celsius", "degrees Celsius"),
    "ºC": ("degree Celsius", "degrees Celsius"),
    "degC": ("degree Celsius", "degrees Celsius"),
    "℃": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "° F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "ºF": ("degree Fahrenheit", "degrees Fahrenheit"),
    "degF": ("degree Fahrenheit", "degrees Fahrenheit"),
    "℉": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "deg": ("degree", "degrees"),
    "%": ("percent", "percent"),
    "‰": ("per mille", "per mille"),
    "inHg": ("inch of mercury", "inches of mercury"),
    "AU": ("astronomical unit", "astronomical units"),
    "gpm": ("gallon per minute", "gallons per minute"),
    "gsm": ("gram per square meter", "grams per square meter"),
    "cfm": ("cubic foot per minute", "cubic feet per minute"),
    "lux": ("lux", "lux"),
    "lx": ("lux", "lux"),
    "pct": ("percent", "percent"),
    "doz": ("dozen", "dozen"),
    "cwt": ("hundredweight", "hundredweight"),
    "fl. oz": ("fluid ounce", "fluid ounces"),
}
del UNITS["sq"]
UNIT_WORDS = frozenset(word for unit in UNITS for word in unit.split() if word != "c") | {
    "sq",
    "sq.",
    "fl",
    "fl.",
    "cu",
    "cu.",
}
"""As a text has them between blanks."""
SHORT = frozenset(
    unit
    for unit in UNITS
    if len(unit) > 1 and unit.isalpha() and unit not in ("in", "pt", "bar", "rad", "deg")
)
"""Written without a number behind "per"."""

PERIODS = {
    **{
        "mo": "month",
        "mth": "month",
        "month": "month",
        "yr": "year",
        "y": "year",
        "year": "year",
        "wk": "week",
    },
    **{"week": "week", "d": "day", "day": "day", "hr": "hour", "h": "hour", "hour": "hour", "min": "minute"},
    **{
        "minute": "minute",
        "s": "second",
        "sec": "second",
        "second": "second",
        "night": "night",
        "qtr": "quarter",
    },
    **{"ea": "each", "pp": "person"},
}
"""Behind "/" of an amount."""

PRICED = frozenset(
    {
        *("user", "seat", "person", "head", "member", "employee", "student", "guest", "adult", "child"),
        *("room", "team", "device", "license", "site", "line"),
    }
)
"""Behind the first of two "/" of a price, as periods and units."""

_CENTS = ("cent", "cents")
MONEY: dict[str, tuple[str, str, str, str]] = {
    "$": ("dollar", "dollars", *_CENTS),
    "€": ("euro", "euros", *_CENTS),
    "£": ("pound", "pounds", "penny", "pence"),
    "¥": ("yen", "yen", "", ""),
    "￥": ("yuan", "yuan", "fen", "fen"),
    "₹": ("rupee", "rupees", "paisa", "paise"),
    "₩": ("won", "won", "", ""),
    "₽": ("ruble", "rubles", "kopek", "kopeks"),
    "₿": ("bitcoin", "bitcoin", "", ""),
    "₺": ("lira", "lira", "kurush", "kurush"),
    "₪": ("shekel", "shekels", "agora", "agorot"),
    "₫": ("dong", "dong", "", ""),
    "₦": ("naira", "naira", "kobo", "kobo"),
    "₴": ("hryvnia", "hryvnia", "kopek", "kopeks"),
    "₱": ("peso", "pesos", "centavo", "centavos"),
    "฿": ("baht", "baht", "satang", "satang"),
    "₡": ("colon", "colones", "", ""),
    "₵": ("cedi", "cedis", "", ""),
    "₸": ("tenge", "tenge", "", ""),
    "₲": ("guarani", "guaranies", "", ""),
    "¢": (*_CENTS, "", ""),
}
"""By sign: one, several, one hundredth, several of them."""
SIGNS = "".join(MONEY)

CURRENCY_WORDS = frozenset(word for sign in "$€£¥₹" for word in MONEY[sign][:2])

_DOLLARS = {
    **{
        "US": "US",
        "AU": "Australian",
        "A": "Australian",
        "C": "Canadian",
        "CA": "Canadian",
        "S": "Singapore",
    },
    **{"SG": "Singapore", "HK": "Hong Kong", "NZ": "New Zealand", "NT": "Taiwan", "TW": "Taiwan"},
    **{"J": "Jamaican", "TT": "Trinidad", "BZ": "Belize", "Z": "Zimbabwean"},
}
CODES: dict[str, tuple[str, str, str, str]] = {
    "USD": MONEY["$"],
    "US$": MONEY["$"],
    "EUR": MONEY["€"],
    "GBP": MONEY["£"],
    "JPY": MONEY["¥"],
    "CHF": ("Swiss franc", "Swiss francs", "centime", "centimes"),
    "CAD": ("Canadian dollar", "Canadian dollars", *_CENTS),
    "AUD": ("Australian dollar", "Australian dollars", *_CENTS),
    "NZD": ("New Zealand dollar", "New Zealand dollars", *_CENTS),
    "SGD": ("Singapore dollar", "Singapore dollars", *_CENTS),
    "HKD": ("Hong Kong dollar", "Hong Kong dollars", *_CENTS),
    "TWD": ("Taiwan dollar", "Taiwan dollars", *_CENTS),
    "INR": ("Indian rupee", "Indian rupees", "paisa", "paise"),
    "Rs": ("rupee", "rupees", "paisa", "paise"),
    "Rs.": ("rupee", "rupees", "paisa", "paise"),
    "PKR": ("Pakistani rupee", "Pakistani rupees", "paisa", "paise"),
    "CNY": ("Chinese yuan", "Chinese yuan", "fen", "fen"),
    "RMB": ("renminbi", "renminbi", "fen", "fen"),
    "KRW": ("Korean won", "Korean won", "", ""),
    "RUB": ("Russian ruble", "Russian rubles", "kopek", "kopeks"),
    "BRL": ("Brazilian real", "Brazilian reais", "centavo", "centavos"),
    "MXN": ("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "SEK": ("Swedish krona", "Swedish kronor", "öre", "öre"),
    "NOK": ("Norwegian krone", "Norwegian kroner", "øre", "øre"),
    "DKK": ("Danish krone", "Danish kroner", "øre", "øre"),
    "kr": ("krona", "kronor", "öre", "öre"),
    "PLN": ("Polish zloty", "Polish zloty", "grosz", "groszy"),
    "zł": ("zloty", "zloty", "grosz", "groszy"),
    "CZK": ("Czech koruna", "Czech korunas", "", ""),
    "Kč": ("koruna", "korunas", "", ""),
    "HUF": ("Hungarian forint", "Hungarian forints", "", ""),
    "TRY": ("Turkish lira", "Turkish lira", "kurush", "kurush"),
    "ZAR": ("South African rand", "South African rand", *_CENTS),
    "AED": ("dirham", "dirhams", "fils", "fils"),
    "SAR": ("Saudi riyal", "Saudi riyals", "halala", "halalas"),
    "ILS": ("Israeli shekel", "Israeli shekels", "agora", "agorot"),
    "THB": ("Thai baht", "Thai baht", "satang", "satang"),
    "IDR": ("Indonesian rupiah", "Indonesian rupiah", "", ""),
    "MYR": ("Malaysian ringgit", "Malaysian ringgit", "sen", "sen"),
    "RM": ("ringgit", "ringgit", "sen", "sen"),
    "PHP": ("Philippine peso", "Philippine pesos", "centavo", "centavos"),
    "VND": ("Vietnamese dong", "Vietnamese dong", "", ""),
    "NGN": ("Nigerian naira", "Nigerian naira", "kobo", "kobo"),
    "KES": ("Kenyan shilling", "Kenyan shillings", *_CENTS),
    "EGP": ("Egyptian pound", "Egyptian pounds", "piaster", "piasters"),
    "BTC": ("bitcoin", "bitcoin", "", ""),
    "ETH": ("ether", "ether", "", ""),
    "USDT": ("tether", "tether", "", ""),
}
SMALL_CODES = ("usd", "eur", "gbp", "jpy", "inr", "chf", "aud", "btc", "eth")
CODES |= {code: CODES[code.upper()] for code in SMALL_CODES}
"""Before or behind a number."""
PREFIXED: dict[str, tuple[str, str, str, str]] = {
    **{f"{land}$": (f"{name} dollar", f"{name} dollars", *_CENTS) for land, name in _DOLLARS.items()},
    **{f"{code}$": CODES[code] for code in ("USD", "CAD", "AUD", "NZD", "SGD", "HKD", "TWD")},
    "zł": CODES["zł"],
    "R$": ("real", "reais", "centavo", "centavos"),
    "MX$": ("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "Mex$": ("Mexican peso", "Mexican pesos", "centavo", "centavos"),
    "CN¥": ("Chinese yuan", "Chinese yuan", "fen", "fen"),
    "JP¥": ("Japanese yen", "Japanese yen", "", ""),
    "E£": ("Egyptian pound", "Egyptian pounds", "piaster", "piasters"),
}
