"""Normalize text for speech: what is written becomes what is spoken, phrase by phrase."""

import re
import threading
import unicodedata
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from firstword.app.text import language as languages
from firstword.app.text.chinese import CHINESE
from firstword.app.text.chinese.reader import say_arrows, say_chinese
from firstword.app.text.english import vocabulary
from firstword.app.text.english.arrows import say_arrow, say_inner_arrows
from firstword.app.text.english.marks import SAID_MARKS, say_marks
from firstword.app.text.english.reader import say_english, say_word
from firstword.app.text.markup import PICTURE, cell_pause, clean_phrase, is_heart, is_tick_box, key_names
from firstword.app.text.multilingual import LANGUAGES as OTHERS
from firstword.app.text.multilingual.reader import say_other
from firstword.app.text.phrases import MARK, SILENT_MARKS, SOUND_MARKS, Phrase, blank_between, find_phrases
from firstword.app.text.sentences import ends_line

# ruff: noqa: RUF001  Chinese punctuation is meant

MAX_CACHED = 2048  # results for single expressions, each of at most some 100 characters

_LINE_BREAK = re.compile(rf"[\w{MARK}][^\S\n]*\n\s*(?:[-*•–#{PICTURE}]+\s*)?(?:\[[ xX]?\]?\s*)?$")
_LINE_BEFORE = re.compile(rf"(?P<line>[^\n]*)(?P<blank>\n\s*(?:(?:[-+*•◦▪●–#]+|[{PICTURE}]+)\s+)?)$")
_PAUSES = frozenset("，。！？；：、")
_NO_FILLERS = dict.fromkeys((0x115F, 0x1160, 0x3164, 0xFFA0))  # invisible, though Unicode calls them letters


class Normalizer:
    """Normalizes English and Chinese, and numbers, dates and money in those of `multilingual`; text in other
    languages is only cleaned. Any thread may call it.

    It goes phrase by phrase, so that text in pieces gives what the whole text gives.
    """

    def __init__(self, spoken: Collection[str] = ()) -> None:
        """spoken: the languages of the checkpoint, as ISO 639-1; short text may be in one of them."""
        self.spoken = tuple(spoken)
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
        for language in set(OTHERS).intersection(spoken):
            self("1", language)

    def __call__(self, text: str, language: str) -> str:
        """language: ISO 639-1, also with a region. Takes any string, in time linear in its length."""
        return self.normalize_phrases(find_phrases(text, languages.has_ordinal_stops(language)), language)

    def normalize_phrases(self, phrases: Iterable[Phrase], language: str) -> str:
        primary = languages.primary_language(language)
        spoken, has_blank = "", False
        for phrase in phrases:
            has_blank |= phrase.has_blank
            if more := self._said_in_line(phrase, primary):
                spoken += blank_between(spoken, more, has_blank) + more
                has_blank = False
        return spoken

    def normalize_phrase(self, phrase: Phrase, language: str) -> str:
        """Return "" where nothing of it can be spoken. The mark of a line that had none stands in front."""
        return self._said_in_line(phrase, languages.primary_language(language))

    def _said_in_line(self, phrase: Phrase, primary: str) -> str:
        """How a phrase is spoken, behind the mark of a line that ended without one."""
        spoken = self._said(phrase, primary)
        if not spoken or ("\n" not in phrase.source and "\n" not in phrase.before):
            return spoken
        if primary in CHINESE:
            return f"，{spoken}" if _begins_line(phrase) else spoken
        return f". {spoken}" if _begins_sentence(phrase) else spoken

    def _said(self, phrase: Phrase, primary: str) -> str:
        written = phrase.text
        if phrase.is_mark or (primary in CHINESE and _is_plain_chinese(written)):
            return written
        if primary == "en" and (word := say_word(written)) is not None:
            return word
        if (pause := cell_pause(written, phrase.source, phrase.previous, phrase.following)) is not None:
            return "，" if pause == "," and primary in CHINESE else pause
        if written in vocabulary.ARROWS and primary == "en":
            return say_arrow(phrase)
        if is_tick_box(written, phrase.previous) or is_heart(written, phrase.previous, phrase.following):
            return ""
        is_key = written[:1] in ("*", "#") and (primary == "en" or primary in CHINESE)
        keys = is_key and key_names(written, phrase.before, phrase.following, primary != "en")
        if primary == "en":
            written = say_inner_arrows(written, phrase)
            if not SAID_MARKS.isdisjoint(written):
                written = say_marks(written, phrase)
        if primary in CHINESE:
            written = say_arrows(written, phrase)
        text = keys or clean_phrase(written)
        if text and primary == "en":
            return say_english(text, phrase)
        if text and primary in CHINESE:
            return say_chinese(text, phrase, self._chinese)
        if text and primary in OTHERS:
            return say_other(text, phrase, primary)
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


def _is_plain_chinese(text: str) -> bool:
    """Whether it is read alike beside any others."""
    return len(text) == 1 and ("\u4e00" <= text <= "\u9fff" or text in _PAUSES)


def _begins_line(phrase: Phrase) -> bool:
    """Whether the line before it ends in a word; it may be an item of a list."""
    return _LINE_BREAK.search(phrase.before + phrase.blank) is not None


def _begins_sentence(phrase: Phrase) -> bool:
    """Whether the line before it ended a sentence without a mark; it may be an item of a list."""
    found = _LINE_BEFORE.search(phrase.before + phrase.blank)
    if found is None or not any(map(str.isalnum, found["line"])):
        return False
    *_, last = found["line"].split()
    return last[-1] not in ".!?…,;:" and ends_line(found["line"], last, f"{found['blank']}{phrase.text}")


def is_speakable(text: str) -> bool:
    """Whether a text has a letter, a number or a speech mark that is heard: not only blanks, punctuation,
    symbols and controls."""
    return any(
        unicodedata.category(character)[0] in "LN" or SOUND_MARKS <= character < SILENT_MARKS
        for character in text.translate(_NO_FILLERS)
    )


def unread_numbers(spoken: str, language: str) -> str:
    """Return a warning where digits were left as they are; "" where none were."""
    if spoken.isalpha() or not any(character.isdecimal() for character in spoken):
        return ""
    primary = languages.primary_language(language)
    name = languages.NAMES.get(primary, primary)
    return (
        f"some numbers of the text in {name} were not written out; how the voice says them is its own matter"
    )
