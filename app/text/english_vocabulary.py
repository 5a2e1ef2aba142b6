"""English words, abbreviations, signs and units that change how their neighbors are read."""

import re

# ruff: noqa: RUF001  typographic dashes, quotes and signs are meant


MONTHS = {
    "jan": "January",
    "feb": "February",
    "mar": "March",
    "apr": "April",
    "may": "May",
    "jun": "June",
    "jul": "July",
    "aug": "August",
    "sep": "September",
    "oct": "October",
    "nov": "November",
    "dec": "December",
}
MONTH = (
    r"Jan(?:uary|\.)?|Feb(?:ruary|\.)?|Mar(?:ch|\.)?|Apr(?:il|\.)?|May|June?|July?|Aug(?:ust|\.)?"
    r"|Sep(?:tember|t?\.)?|Oct(?:ober|\.)?|Nov(?:ember|\.)?|Dec(?:ember|\.)?"
)

# What a word stands for before a name: its full stop ends no sentence.
TITLES = {
    "Dr.": "Doctor",
    "Mr.": "Mister",
    "Mrs.": "Missus",
    "Ms.": "Miz",
    "Prof.": "Professor",
    "Rev.": "Reverend",
    "Gen.": "General",
    "Col.": "Colonel",
    "Capt.": "Captain",
    "Lt.": "Lieutenant",
    "Sgt.": "Sergeant",
    "Gov.": "Governor",
    "Sen.": "Senator",
    "Mt.": "Mount",
}
# Before a number only; elsewhere they are words ("No.") or rare.
COUNTED = {
    "No.": "Number",
    "no.": "number",
    "Nos.": "Numbers",
    "Fig.": "Figure",
    "fig.": "figure",
    "Vol.": "Volume",
    "vol.": "volume",
    "Ch.": "Chapter",
    "Sec.": "Section",
    "p.": "page",
    "pp.": "pages",
}
ABBREVIATIONS = {
    "e.g.": "for example",
    "i.e.": "that is",
    "etc.": "et cetera",
    "vs.": "versus",
    "cf.": "compare",
    "approx.": "approximately",
    "Ph.D.": "P H D",
    "Jr.": "Junior",
    "Sr.": "Senior",
    "Inc.": "Incorporated",
    "Ltd.": "Limited",
    "Corp.": "Corporation",
    "Co.": "Company",
    "Dept.": "Department",
    "Ave.": "Avenue",
    "Blvd.": "Boulevard",
    "Rd.": "Road",
}
SAINT_OR_STREET = "St."
CURRENCY_CODES = {"USD": "$", "EUR": "€", "GBP": "£", "JPY": "¥", "US$": "$"}
OPERATORS = {
    "+": "plus",
    "=": "equals",
    "×": "times",
    "÷": "divided by",
    "<": "is less than",
    ">": "is greater than",
    "-": "to",
    "–": "to",
    "—": "to",
    "--": "to",
}
SCALES = {
    "k": "thousand",
    "K": "thousand",
    "m": "million",
    "M": "million",
    "mn": "million",
    "bn": "billion",
    "B": "billion",
    "b": "billion",
    "tn": "trillion",
    "thousand": "thousand",
    "million": "million",
    "billion": "billion",
    "trillion": "trillion",
}
UNITS = {  # one, several
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "kmh": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"),
    "mph": ("mile per hour", "miles per hour"),
    "km²": ("square kilometer", "square kilometers"),
    "m²": ("square meter", "square meters"),
    "m³": ("cubic meter", "cubic meters"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "nm": ("nanometer", "nanometers"),
    "m": ("meter", "meters"),
    "mi": ("mile", "miles"),
    "ft": ("foot", "feet"),
    "yd": ("yard", "yards"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "ml": ("milliliter", "milliliters"),
    "mL": ("milliliter", "milliliters"),
    "l": ("liter", "liters"),
    "L": ("liter", "liters"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "℃": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "℉": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "%": ("percent", "percent"),
    "h": ("hour", "hours"),
    "hr": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "min": ("minute", "minutes"),
    "mins": ("minute", "minutes"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "ms": ("millisecond", "milliseconds"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"),
    "dB": ("decibel", "decibels"),
    "kB": ("kilobyte", "kilobytes"),
    "KB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "Mbps": ("megabit per second", "megabits per second"),
    "kcal": ("kilocalorie", "kilocalories"),
}
DOTTED = re.compile(r"(?:[A-Za-z]\.){2,}")
INITIAL = re.compile(r"[A-Z]\.")

EDGES = "\"'“”‘’()[],;:!?*_"  # what may stand around a word; full stops belong to it
MONTH_NAME = re.compile(f"(?:{MONTH})")
HALF_OF_DAY = re.compile(r"[AaPp]\.?[Mm]\.?")


def is_abbreviation(word: str) -> bool:
    """Whether the full stop at its end belongs to the word, judged by the word alone."""
    bare = word.strip(EDGES)
    if not bare.endswith("."):
        return False
    return (
        bare in TITLES
        or bare in COUNTED
        or bare in ABBREVIATIONS
        or bare == SAINT_OR_STREET
        or DOTTED.fullmatch(bare) is not None
        or INITIAL.fullmatch(bare) is not None
        or MONTH_NAME.fullmatch(bare.strip()) is not None
    )
