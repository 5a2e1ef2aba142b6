"""Small rules that every CosyVoice text goes through; what languages say is for a normaliser."""

import re
import unicodedata

_DECIMALS = re.compile(r"\d+")
_MAX_SPELLED_DIGITS = 36  # the library names no larger numbers


def is_only_punctuation(text: str) -> bool:
    """Nothing but punctuation and symbols, or nothing at all: nobody can speak it."""
    return all(unicodedata.category(character)[0] in "PS" for character in text)


def replace_blank(text: str) -> str:
    """Drops the blanks that do not stand between two ASCII characters, as Chinese text has them.

    As published, a leading blank is judged by the last character; one at the end is dropped.
    """
    kept = []
    for place, character in enumerate(text):
        neighbours = text[place - 1] + text[place + 1 : place + 2]
        if character != " " or (len(neighbours) == 2 and neighbours.isascii() and " " not in neighbours):
            kept.append(character)
    return "".join(kept)


def spell_out_numbers(text: str) -> str:
    """Every run of decimal digits in English words; longer ones than have a name, digit by digit.

    Superscript and circled digits, which the published code reads as zero, are left alone.
    """
    import inflect  # costs seconds

    engine = inflect.engine()

    def spelled(digits: re.Match[str]) -> str:
        is_long = len(digits[0]) > _MAX_SPELLED_DIGITS
        return str(engine.number_to_words(digits[0], group=1 if is_long else 0))

    return _DECIMALS.sub(spelled, text)
