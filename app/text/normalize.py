"""Normalize text for speech: numbers, abbreviations, symbols.

Small rules that every CosyVoice text goes through; what languages say is for a normalizer.

Text as it is written into text as it is said.
"""

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from firstword.app.text import language as languages
from firstword.app.text.characters import cleaned, is_blank_between
from firstword.app.text.chinese import CHINESE, say_chinese
from firstword.app.text.english import say_english
from firstword.app.text.english_numbers import NumberWords
from firstword.app.text.phrases import Phrase, find_phrases

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
    import inflect

    engine = inflect.engine()

    def spelled(digits: re.Match[str]) -> str:
        is_long = len(digits[0]) > _MAX_SPELLED_DIGITS
        return str(engine.number_to_words(digits[0], group=1 if is_long else 0))

    return _DECIMALS.sub(spelled, text)


MAX_CACHED = 2048  # readings of single expressions, each of at most some 100 characters


class Normalizer:
    """Reads English and Chinese; text in other languages is only cleaned. Any thread may call it.

    Reads phrase by phrase, so that text which comes in pieces is read as if it had come at once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._english = NumberWords(self._wetext("en"))
        self._chinese = self._wetext("zh")

    def warm_up(self) -> None:
        """Loads what is loaded at first use, what finds languages too: about two seconds."""
        languages.warm_up()
        self("1", "en")
        self("1", "zh")

    def __call__(self, text: str, language: str) -> str:
        """language: ISO 639-1, also with a region. Takes any string, in time linear in its length."""
        return self.read_all(find_phrases(text), language)

    def read_all(self, phrases: Iterable[Phrase], language: str) -> str:
        said, has_blank = "", False
        for phrase in phrases:
            has_blank |= phrase.has_blank
            if more := self.read(phrase, language):
                said, has_blank = joined(said, more, has_blank), False
        return said

    def read(self, phrase: Phrase, language: str) -> str:
        """One phrase; "" where nothing of it can be said."""
        text = cleaned(phrase.text)
        primary = languages.primary_language(language)
        if text and primary == "en":
            return say_english(text, phrase, self._english)
        if text and primary in CHINESE:
            return say_chinese(text, phrase, self._chinese)
        return text

    def _wetext(self, language: Literal["en", "zh"]) -> Callable[[str], str]:
        loaded: list[Any] = []

        @lru_cache(maxsize=MAX_CACHED)
        def normalize(text: str) -> str:
            with self._lock:
                if not loaded:
                    loaded.append(_load_wetext(language))
                try:
                    return str(loaded[0].normalize(text)) or text
                except (AssertionError, RuntimeError):  # it has no reading for this text
                    return text

        return normalize


def _load_wetext(language: Literal["en", "zh"]) -> Any:
    import wetext

    return wetext.Normalizer(lang=language, operator="tn")


def joined(left: str, right: str, has_blank: bool) -> str:
    """What was said and what is said next, with the blank that belongs between them."""
    is_blank = has_blank and is_blank_between(left, right)
    return f"{left} {right}" if is_blank else left + right
