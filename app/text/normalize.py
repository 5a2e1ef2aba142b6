"""Normalize text for speech: what is written becomes what is spoken, phrase by phrase."""

import re
import threading
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from firstword.app.text import language as languages
from firstword.app.text.chinese import CHINESE, say_chinese
from firstword.app.text.english import say_english
from firstword.app.text.phrases import SILENT_MARKS, SOUND_MARKS, Phrase, blank_between, find_phrases

MAX_CACHED = 2048  # results for single expressions, each of at most some 100 characters

_PICTURE = "\u2190-\u21ff\u2300-\u23ff\u2500-\u27bf\u2b00-\u2bff\ufe0e\ufe0f\u20e3\U0001f000-\U0001faff"
_PICTURES = re.compile(f"[{_PICTURE}][{_PICTURE}\u200d\U000e0020-\U000e007f]*")
_BETWEEN_WORDS = re.compile(rf"(?<=\w){_PICTURES.pattern}(?=\w)")
# Controls, lone surrogates, private use, marks of direction and of byte order.
_UNSPEAKABLE = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ud800-\udfff"
    "\ue000-\uf8ff\ufeff\ufff0-\uffff\U000e0000-\U000e007f\U000f0000-\U000fffff]"
)
_NO_FILLERS = dict.fromkeys((0x115F, 0x1160, 0x3164, 0xFFA0))  # invisible, though Unicode calls them letters
_CHECKPOINT_MARKS = re.compile(r"\[[a-z][a-z_-]*\]|</?[a-z]+>|<\|[A-Za-z_]+\|>")  # a checkpoint's own marks
_LINK_TARGET = re.compile(r"(?<=\])\([^()\s]*\)")
_MARKDOWN = re.compile(
    r"[][`\\|^™®©]|~~|(?<![0-9])\*|\*(?![0-9])|(?<!\w)_+|_+(?!\w)|(?<!\w)#+(?=\s|$|[^\W\d])"
)
_INNER_UNDERSCORE = re.compile(r"(?<=\w)_+(?=\w)")
_RULE = re.compile(r"[-=_+~]{3,}")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF10, 0xFF5B) if chr(code).isalnum()}


class Normalizer:
    """Normalizes English and Chinese; text in other languages is only cleaned. Any thread may call it.

    It goes phrase by phrase, so that text in pieces gives what the whole text gives.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wetext: list[Any] = []  # loaded at first use, since that takes half a second
        self._chinese = lru_cache(maxsize=MAX_CACHED)(self._normalize_chinese)

    def warm_up(self, spoken: Collection[str]) -> None:
        """Load what is loaded at first use: language detection, and Chinese where it is spoken.

        spoken: languages as ISO 639-1.
        """
        languages.warm_up()
        if not set(CHINESE).isdisjoint(spoken):
            self("1", "zh")

    def __call__(self, text: str, language: str) -> str:
        """language: ISO 639-1, also with a region. Takes any string, in time linear in its length."""
        return self.normalize_phrases(find_phrases(text), language)

    def normalize_phrases(self, phrases: Iterable[Phrase], language: str) -> str:
        spoken, has_blank = "", False
        for phrase in phrases:
            has_blank |= phrase.has_blank
            if more := self.normalize_phrase(phrase, language):
                spoken += blank_between(spoken, more, has_blank) + more
                has_blank = False
        return spoken

    def normalize_phrase(self, phrase: Phrase, language: str) -> str:
        """Return "" where nothing of the phrase can be spoken."""
        if phrase.is_mark:
            return phrase.text
        text = clean_phrase(phrase.text)
        primary = languages.primary_language(language)
        if text and primary == "en":
            return say_english(text, phrase)
        if text and primary in CHINESE:
            return say_chinese(text, phrase, self._chinese)
        return text

    def _normalize_chinese(self, text: str) -> str:
        with self._lock:
            if not self._wetext:
                import wetext

                self._wetext.append(wetext.Normalizer(lang="zh", operator="tn"))
            try:
                return str(self._wetext[0].normalize(text)) or text
            except (AssertionError, RuntimeError):  # it has no reading for this text
                return text


def clean_phrase(phrase: str) -> str:
    """Remove what cannot be spoken, controls, pictures and markdown; make full-width letters plain."""
    if phrase.isascii() and phrase.isalpha():
        return phrase
    phrase = _PICTURES.sub("", _BETWEEN_WORDS.sub(" ", _UNSPEAKABLE.sub("", phrase)))
    phrase = phrase.translate(_FULL_WIDTH).strip()
    if _RULE.fullmatch(phrase):
        return ""
    parts = [
        _MARKDOWN.sub("", _INNER_UNDERSCORE.sub(" ", _LINK_TARGET.sub("", between)))
        for between in _CHECKPOINT_MARKS.split(phrase)
    ]
    marks = [*_CHECKPOINT_MARKS.findall(phrase), ""]
    return " ".join("".join(text + mark for text, mark in zip(parts, marks, strict=True)).split())


def is_speakable(text: str) -> bool:
    """Whether a text has a letter, a number or a speech mark that is heard: not only blanks, punctuation,
    symbols and controls."""
    return any(
        unicodedata.category(character)[0] in "LN" or SOUND_MARKS <= character < SILENT_MARKS
        for character in text.translate(_NO_FILLERS)
    )


def is_only_punctuation(text: str) -> bool:
    """Whether a text is empty or all of it is punctuation and symbols, by the published rule."""
    return all(unicodedata.category(character)[0] in "PS" for character in text)
