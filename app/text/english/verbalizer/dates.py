"""Say the dates, times and durations of English."""

from collections.abc import Callable, Mapping
from typing import Final

from firstword.app.text.english import units, vocabulary
from firstword.app.text.english.context import Fields, value_of
from firstword.app.text.english.numbers import by_digits, cardinal, counted, ordinal, plural, year

_NAMES = tuple(vocabulary.MONTHS.values())
_PERIODS = {"d": "day", "w": "week", "mo": "month", "y": "year"}


def _month_first(fields: Fields, text: str) -> str:
    day = _days(fields)
    return _with_year(f"{_month(fields)} {day}", fields)


def _day_first(fields: Fields, previous: str, is_counted: bool) -> str:
    article = "" if previous.lower() == "the" else "the "
    return _with_year(f"{article}{_days(fields)} of {_month(fields)}", fields)


def _days(fields: Fields) -> str:
    last = fields.get("last")
    return ordinal(value_of(fields, "day")) + (f" to {ordinal(last)}" if last else "")


def _month(fields: Fields) -> str:
    return vocabulary.MONTHS[value_of(fields, "month")[:3].lower()]


def _with_year(spoken: str, fields: Fields) -> str:
    digits = fields.get("year")
    return f"{spoken} {year(_with_century(digits))}" if digits else spoken


def _with_century(digits: str) -> str:
    return digits if len(digits) == 4 else f"{'20' if digits < '70' else '19'}{digits}"


def _numeric_date(fields: Fields, previous: str, is_counted: bool) -> str:
    """Month before day, behind a dot the other way, unless only one order makes a date."""
    month, day = int(value_of(fields, "first")), int(value_of(fields, "second"))
    is_day_first = (fields.get("sign") == "." and day <= 12) or month > 12
    if is_day_first:
        month, day = day, month
    digits = fields.get("year")
    spoken = f" {year(_with_century(digits))}" if digits else ""
    if is_day_first:
        article = "" if previous.lower() == "the" else "the "
        return f"{article}{ordinal(str(day))} of {_NAMES[month - 1]}{spoken}"
    return f"{_NAMES[month - 1]} {ordinal(str(day))}{spoken}"


def _numeric_days(fields: Fields, previous: str, is_counted: bool) -> str:
    last = {name: fields[f"last_{name}"] for name in ("first", "second")}
    return f"{_numeric_date(fields, previous, False)} to {_numeric_date(last, '', False)}"


def _decade(fields: Fields, text: str) -> str:
    digits = value_of(fields, "digits")
    if digits.endswith("00"):
        return f"{year(digits)}s"
    return plural(year(digits) if len(digits) == 4 else cardinal(digits))


def _era(fields: Fields, text: str) -> str:
    digits = value_of(fields, "digits")
    letters = " ".join(value_of(fields, "era").replace(".", ""))
    return f"{year(digits) if len(digits) == 4 else cardinal(digits)} {letters}"


def _range_of_years(fields: Fields, text: str) -> str:
    last = value_of(fields, "last")
    return f"{year(value_of(fields, 'year'))} to {year(last) if len(last) == 4 else _short_year(last)}"


def _short_year(digits: str) -> str:
    return f"oh {cardinal(digits[1])}" if digits[0] == "0" else cardinal(digits)


def _time(fields: Fields, text: str) -> str:
    minutes, seconds, half = fields.get("minutes"), fields.get("seconds"), fields.get("half")
    hour = cardinal(str(int(value_of(fields, "hour"))))
    ending = f" {half.upper()} M" if half else ""
    zone = fields.get("zone")
    ending += f" {' '.join(zone.upper())}" if zone else ""
    if minutes is None or (half and minutes == "00" and not seconds):
        return hour + ending
    if minutes == "00" and not seconds:
        on_the_hour = f"{hour} o'clock" if 0 < int(value_of(fields, "hour")) <= 12 else f"{hour} hundred"
        return on_the_hour + ending
    spoken = f"oh {cardinal(minutes[1])}" if minutes[0] == "0" else cardinal(minutes)
    if seconds and seconds != "00":
        spoken += f" and {counted(str(int(seconds)), 'second')}"
    return f"{hour} {spoken}{ending}"


def _central(fields: Fields, text: str) -> str:
    """ "8/7c": eight, seven Central."""
    other = {"hour": fields["other"], "minutes": fields["other_minutes"]}
    return f"{_time(fields, '')}, {_time(other, '')} Central"


def _military(fields: Fields, text: str) -> str:
    hour, minutes = value_of(fields, "hour"), value_of(fields, "minutes")
    spoken = by_digits(hour) if hour[0] == "0" else cardinal(hour)
    spoken += " hundred" if minutes == "00" else f" {_short_year(minutes)}"
    return f"{spoken} hours" if fields["unit"] else spoken


def _stamp(fields: Fields, previous: str, is_counted: bool) -> str:
    seconds = None if fields["seconds"] == "00" else fields["seconds"]
    time = _time({**fields, "seconds": seconds, "zone": "UTC" if fields["zone"] else None}, "")
    return f"{_numeric_date(fields, previous, is_counted)}, {time}"


def _week(fields: Fields, text: str) -> str:
    day = fields["weekday"]
    week = f"{year(value_of(fields, 'year'))} week {cardinal(str(int(value_of(fields, 'week'))))}"
    return f"{week} day {cardinal(day)}" if day else week


def _offset(fields: Fields, text: str) -> str:
    minutes = value_of(fields, "minutes")
    sign = "plus" if fields["sign"] == "+" else "minus"
    spoken = f" {sign} {cardinal(str(int(value_of(fields, 'hours'))))}"
    return spoken if minutes == "00" else f"{spoken} {cardinal(minutes)}"


def _duration(fields: Fields, text: str) -> str:
    parts = [
        counted(digits.lstrip("0") or "0", one)
        for one in ("day", "hour", "minute", "second")
        if (digits := fields.get(f"{one}s"))
    ]
    rest = fields.get("rest")
    return " ".join([*parts, cardinal(rest)] if rest else parts)


def _whole_hours(fields: Fields, text: str) -> str:
    """ "1:00 hrs", whose minutes are not said where there are none."""
    minutes = value_of(fields, "minutes").lstrip("0")
    return _duration({"hours": fields["hours"], "minutes": minutes}, text)


def _minute_of_match(fields: Fields, text: str) -> str:
    added = f" plus {cardinal(fields['added'])}" if fields["added"] else ""
    return f"{cardinal(value_of(fields, 'minutes'))}{added} minutes"


def _every(fields: Fields, text: str) -> str:
    """ "q6h" of a prescription."""
    last = f" to {cardinal(fields['last'])}" if fields["last"] else ""
    return f"every {cardinal(value_of(fields, 'number'))}{last} hours"


def _pace(fields: Fields, text: str) -> str:
    per, seconds = fields["per"], fields["seconds"]
    spoken = _duration({**fields, "seconds": None if seconds == "00" else seconds}, text)
    return f"{spoken} per {units.UNITS[per][0] if per in units.UNITS else per}" if per else spoken


def _elapsed(fields: Fields, text: str) -> str:
    hours, minutes = (str(int(fields[name] or 0)) for name in ("hours", "minutes"))
    seconds = value_of(fields, "seconds").removeprefix("0")
    parts = [counted(hours, "hour")] if hours != "0" else []
    parts += [counted(minutes, "minute")] if minutes != "0" else []
    spoken = " ".join(parts)
    if spoken and seconds == "0":
        return spoken
    return f"{spoken} and {counted(seconds, 'second')}" if spoken else counted(seconds, "second")


FORMS: Final[Mapping[str, Callable[[Fields, str], str]]] = {
    "date.month_first": _month_first,
    "date.joined_month_first": _month_first,
    "date.season": _range_of_years,
    "time.on_hour": _time,
    "date.month_and_year": lambda fields, text: _with_year(_month(fields), fields),
    "date.month_of_year": lambda fields, text: _with_year(_NAMES[int(value_of(fields, "first")) - 1], fields),
    "date.month_and_short_year": lambda fields, text: (
        f"{_month(fields)} {_short_year(value_of(fields, 'digits'))}"
    ),
    "date.joined_short_year": lambda fields, text: (
        f"{_month(fields)} {_short_year(value_of(fields, 'digits'))}"
    ),
    "date.year_and_month": lambda fields, text: _with_year(
        _NAMES[int(value_of(fields, "first")) - 1], fields
    ),
    "date.week": _week,
    "date.decade": _decade,
    "date.era": _era,
    "date.era_first": lambda fields, text: f"A D {_era({**fields, 'era': ''}, text)}".strip(),
    "date.range": _range_of_years,
    "date.year": lambda fields, text: year(value_of(fields, "year")),
    "date.short_year": lambda fields, text: _short_year(value_of(fields, "digits")),
    "time.clock": _time,
    "time.central": _central,
    "time.offset": _offset,
    "time.military": _military,
    "time.hour": _time,
    "time.short_hour": _time,
    "duration.ago": lambda fields, text: counted(
        value_of(fields, "number"), _PERIODS[value_of(fields, "unit")]
    ),
    "duration.aged": lambda fields, text: f"{counted(value_of(fields, 'number'), 'year')} old",
    "duration.every": _every,
    "duration.age": lambda fields, text: f"{cardinal(value_of(fields, 'number'))} year old",
    "duration.match": _minute_of_match,
    "duration.parts": _duration,
    "duration.hours": _whole_hours,
    "duration.minutes": _duration,
    "duration.pace": _pace,
    "duration.clock": _elapsed,
}
WITH_NEIGHBORS: Final[Mapping[str, Callable[[Fields, str, bool], str]]] = {
    "date.day_first": _day_first,
    "date.joined_day_first": _day_first,
    "date.days": _numeric_days,
    "date.numeric": _numeric_date,
    "date.iso": _numeric_date,
    "date.stamp": _stamp,
    "date.month_and_day": _numeric_date,
}
"""As of the verbalizer: also given the word before it, and whether it stands before what it measures."""
