"""English number words: cardinals, ordinals, years, digits one by one."""

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_TEENS = (
    *DIGITS,
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    "nineteen",
)
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_SCALES_IN_WORDS = (
    (10**18, "quintillion"),
    (10**15, "quadrillion"),
    (10**12, "trillion"),
    (10**9, "billion"),
    (10**6, "million"),
    (1000, "thousand"),
    (100, "hundred"),
)
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
MAX_DIGITS = 15  # of a number that is spoken as one; longer ones are read digit by digit
MAX_SEPARATED = 21  # of one that is written with separators


def by_digits(digits: str) -> str:
    return " ".join(DIGITS[int(digit)] for digit in digits)


def cardinal(digits: str) -> str:
    """Digits with or without thousands separators; those that are too many for a number, or begin with a
    zero, one by one.
    """
    longest = MAX_SEPARATED if "," in digits else MAX_DIGITS
    digits = digits.replace(",", "")
    if len(digits) > longest or (len(digits) > 1 and digits[0] == "0"):
        return by_digits(digits)
    head, tail = _in_words(int(digits))
    return f"{head} and {tail}" if head and tail else head or tail


def number(digits: str) -> str:
    """As `cardinal`, also with a decimal point."""
    whole, point, decimals = digits.partition(".")
    spoken = cardinal(whole) if whole else ""
    return f"{spoken} point {by_digits(decimals)}".lstrip() if point else spoken


def counted(digits: str, one: str) -> str:
    """Digits and what they count, one of it or several."""
    return f"{number(digits)} {one if digits == '1' else f'{one}s'}"


def ordinal(digits: str) -> str:
    digits = digits.replace(",", "")
    if len(digits) > MAX_DIGITS:
        return f"{by_digits(digits)}th"
    head, tail = _in_words(int(digits))
    *before, last = " ".join(filter(None, (head, tail))).split(" ")
    if last in _ORDINALS:
        last = _ORDINALS[last]
    else:
        last = f"{last.removesuffix('y')}ieth" if last.endswith("y") else f"{last}th"
    return " ".join([*before, last])


def year(digits: str) -> str:
    """Four digits: "nineteen oh five", "two thousand four", "twenty twenty four"."""
    century, rest = int(digits[:2]), int(digits[2:])
    if century % 10 == 0 and rest < 10:
        return cardinal(digits).replace(" and ", " ")
    if rest == 0:
        return f"{cardinal(str(century))} hundred"
    end = f"oh {DIGITS[rest]}" if rest < 10 else cardinal(str(rest))
    return f"{cardinal(str(century))} {end}"


def pairs(digits: str) -> str:
    """A code such as a flight's: two digits at a time where that comes out even, else one by one."""
    is_even = len(digits) == 4 and "0" not in digits[::2]
    if digits[0] != "0" and (len(digits) <= 3 or digits[1:] == "000"):
        return cardinal(digits)
    return year(digits) if is_even else by_digits(digits)


def in_parts(digits: str) -> str:
    """A house, a room or a flight: "one twenty three", "one oh one", "forty one fifty", "ten oh five"."""
    if len(digits) == 3 and digits[0] != "0" and digits[1:] != "00":
        rest = f"oh {DIGITS[int(digits[2])]}" if digits[1] == "0" else cardinal(digits[1:])
        return f"{DIGITS[int(digits[0])]} {rest}"
    if len(digits) == 4 and digits[0] != "0" and digits[2] == "0" != digits[3]:
        return f"{cardinal(digits[:2])} oh {DIGITS[int(digits[3])]}"
    if len(digits) == 4 and digits[0] != "0":
        return year(digits)
    return cardinal(digits) if len(digits) < 4 or digits[-3:] == "000" else by_digits(digits)


def with_oh(digits: str) -> str:
    """One by one, zero as "oh", as postal codes are said."""
    return by_digits(digits).replace("zero", "oh")


def plural(word: str) -> str:
    """Of a number word: "nineties", "hundreds"."""
    return f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"


def _in_words(value: int) -> tuple[str, str]:
    """Return the words up to the hundreds, and those of the last two digits; either may be ""."""
    groups = []
    for scale, name in _SCALES_IN_WORDS:
        count, value = divmod(value, scale)
        if count:
            hundreds, rest = _in_words(count)
            groups.append(" ".join(filter(None, (hundreds, rest, name))))
    if value or not groups:
        tens = f"{_TENS[value // 10]} {DIGITS[value % 10]}" if value % 10 else _TENS[value // 10]
        return " ".join(groups), _TEENS[value] if value < 20 else tens
    return " ".join(groups), ""


def roman_value(numeral: str) -> int:
    """Of a numeral in capitals."""
    values = [{"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}[letter] for letter in numeral]
    return sum(
        -value if value < max(values[at + 1 :], default=0) else value for at, value in enumerate(values)
    )
