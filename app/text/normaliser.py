"""Text as it is written into text as it is said."""

import threading
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from app.text import language as languages
from app.text.characters import cleaned, is_blank_between
from app.text.chinese import CHINESE, say_chinese
from app.text.english import say_english
from app.text.english_words import NumberWords
from app.text.phrases import Phrase, find_phrases

MAX_CACHED = 2048  # readings of single expressions, each of at most some 100 characters


class Normaliser:
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
        def normalise(text: str) -> str:
            with self._lock:
                if not loaded:
                    loaded.append(_load_wetext(language))
                try:
                    return str(loaded[0].normalize(text)) or text
                except (AssertionError, RuntimeError):  # it has no reading for this text
                    return text

        return normalise


def _load_wetext(language: Literal["en", "zh"]) -> Any:
    import wetext

    return wetext.Normalizer(lang=language, operator="tn")


def joined(left: str, right: str, has_blank: bool) -> str:
    """What was said and what is said next, with the blank that belongs between them."""
    is_blank = has_blank and is_blank_between(left, right)
    return f"{left} {right}" if is_blank else left + right
