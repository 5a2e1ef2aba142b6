# ruff: noqa: RUF001  typographic dashes are meant
"""How English is read."""

import random

import pytest
import wetext

from firstword.app.text.english.numbers import cardinal, ordinal
from firstword.app.text.normalize import Normalizer

EXAMPLES = {
    "numbers": [
        ("I have 3 cats", "I have three cats"),
        ("1000 or 1,005", "one thousand or one thousand and five"),
        ("1234567", "one million two hundred thirty four thousand five hundred and sixty seven"),
        ("3.14 and .5", "three point one four and point five"),
        ("-4 or 007", "minus four or zero zero seven"),
        ("1st, 22nd and 103rd", "first, twenty second and one hundred third"),
        ("1/2 cup, 2 3/4 cups, 24/7", "one half cup, two and three quarters cups, twenty four seven"),
        ("1½ hours", "one and a half hours"),
        ("A4, 3D, COVID-19, BA2490", "A four, three D, COVID nineteen, BA twenty four ninety"),
        ("v2.0 at 192.168.0.1", "version two point zero at one nine two dot one six eight dot zero dot one"),
        ("10-20 people", "ten to twenty people"),
        ("#1 of No. 5", "number one of Number five"),
        ("2 + 2 = 4", "two plus two equals four"),
        ("3x4 or 5x", "three by four or five times"),
        ("(5) or “6”", "(five) or “six”"),
        ("a 3-year-old, about 10%-20%", "a three-year-old, about ten percent to twenty percent"),
        ("5*3 ~ 15", "five times three fifteen"),
        ("It was 5. Then 6.", "It was five. Then six."),
    ],
    "dates": [
        ("June 5, 2024", "June fifth twenty twenty four"),
        ("on 5 June 2024", "on the fifth of June twenty twenty four"),
        ("the 4th of July", "the fourth of July"),
        ("2024/06/05", "June fifth twenty twenty four"),
        ("2024-06-05", "June fifth twenty twenty four"),
        ("25/12/2009", "the twenty fifth of December two thousand nine"),
        ("in Jan. 2001", "in January two thousand one"),
        ("in 1905 and 1999", "in nineteen oh five and nineteen ninety nine"),
        ("the 1990s and '80s", "the nineteen nineties and eighties"),
        ("the 30s, 30s", "the thirties, thirty seconds"),
        ("You may. May I?", "You may. May I?"),
    ],
    "money": [
        ("$5.20", "five dollars and twenty cents"),
        ("$1 and $0.50", "one dollar and fifty cents"),
        ("€3, 5€ and £1.01", "three euros, five euros and one pound and one penny"),
        ("£1.5m or $2 billion", "one point five million pounds or two billion dollars"),
        ("US$1,000.50", "one thousand US dollars and fifty cents"),
        ("$5-10", "five to ten dollars"),
        ("$3.5–4 million", "three point five to four million dollars"),
        ("$5/month", "five dollars per month"),
        ("-$5", "minus five dollars"),
        ("¥500", "five hundred yen"),
        ("20 USD", "twenty dollars"),
    ],
    "times": [
        ("at 7:30", "at seven thirty"),
        ("at 7:30 p.m. sharp", "at seven thirty P M sharp"),
        ("at 7 p.m. We left", "at seven P M. We left"),
        ("19:05", "nineteen oh five"),
        ("12:00 and 14:00", "twelve o'clock and fourteen hundred"),
        ("10am-5pm, 12:30–13:45", "ten A M to five P M, twelve thirty to thirteen forty five"),
        ("10:30:15", "ten thirty and fifteen seconds"),
        ("a 3:1 lead", "a three to one lead"),
    ],
    "units": [
        ("5 km and 1 km", "five kilometers and one kilometer"),
        ("3kg, 72°F, 10%", "three kilograms, seventy two degrees Fahrenheit, ten percent"),
        ("100 m at 60 km/h", "one hundred meters at sixty kilometers per hour"),
        ("5 m²", "five square meters"),
        ("5 kg/m² at 2 GB/s", "five kilograms per square meter at two gigabytes per second"),
        ("10-20 °C", "ten to twenty degrees Celsius"),
        ("6'2\"", "six foot two"),
        ("x²", "x squared"),
    ],
    "abbreviations": [
        ("Dr. Smith and Mrs. Jones", "Doctor Smith and Missus Jones"),
        ("on Main St. near St. Paul.", "on Main Street near Saint Paul."),
        ("fruit, e.g. apples, etc. too", "fruit, for example apples, et cetera too"),
        ("Cats vs. dogs, etc.", "Cats versus dogs, et cetera."),
        ("the U.S. Army", "the U S Army"),
        ("No. Never.", "No. Never."),
        ("R&D at AT&T", "R and D at AT and T"),
    ],
    "addresses": [
        ("see https://example.com/foo?x=1 now", "see example dot com slash foo now"),
        ("(www.example.org).", "(w w w dot example dot org)."),
        ("mail joe.bloggs@example.co.uk.", "mail joe dot bloggs at example dot co dot uk."),
    ],
    "telephones": [
        ("+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
        ("555-1234", "five five five, one two three four"),
        ("5551234567", "five five five one two three four five six seven"),
    ],
    "marks": [
        ("**Bold** and `code` and _so_ on", "Bold and code and so on"),
        ("# Title", "Title"),
        ("[our site](https://example.com) is up", "our site is up"),
        ("Hi! 😀 👩‍👩‍👧 Bye👍🏽now", "Hi! Bye now"),
        ("a\x00b \ud800c\u200b", "ab c"),
        ("Hello - there — you", "Hello, there, you"),
        ("  Hello \n  world ", "Hello world"),
        ("don't “stop” (yet)!", "don't “stop” (yet)!"),
        ("Ha [laughter] <strong>ha</strong>", "Ha [laughter] <strong>ha</strong>"),
    ],
}


@pytest.mark.parametrize(
    ("text", "spoken"), [example for examples in EXAMPLES.values() for example in examples]
)
def test_english_is_read(text: str, spoken: str, normalizer: Normalizer) -> None:
    assert normalizer(text, "en") == spoken
    assert normalizer(text, "en-GB") == spoken


def test_numbers_in_words_are_those_of_wetext() -> None:
    normalizer = wetext.Normalizer(lang="en", operator="tn")
    dice = random.Random(5)
    values = [*range(1200), *(dice.randrange(10 ** dice.randint(4, 15)) for _ in range(300))]
    for value in values:
        expected = normalizer.normalize(f"{value:,}")
        expected = f"one {expected}" if expected.startswith("thousand") else expected  # its slip
        assert cardinal(f"{value:,}") == cardinal(str(value)) == expected
    for value in [*range(1, 200), *range(200, 1200, 9)]:
        ending = "th" if 10 < value % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
        assert ordinal(str(value)) == normalizer.normalize(f"{value}{ending}")


def test_numbers_that_wetext_misses() -> None:
    assert cardinal("100000000000001") == "one hundred trillion and one"
    assert cardinal("1000000001") == "one billion and one"
    assert ordinal("100001") == "one hundred thousand first"
