"""Reads Chinese text for Kokoro, in the symbols of misaki's first Mandarin front end.

Syllables are those of the voice's own phrases, 一 and 不 in the tone that jieba's word asks for, transcribed
by pinyin-to-ipa (MIT); English words among them are misaki's.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jieba
from hibari.g2p import G2P
from pinyin_to_ipa import pinyin_to_ipa
from pypinyin import Style, lazy_pinyin

from firstword.models.tokenizer.mandarin import Mandarin, pinyin_marks
from training.teachers.pieces import Kind, Piece
from training.teachers.spoken import TeacherError

_PART = re.compile(r"([一-鿿〇]+)|([A-Za-z][A-Za-z' \-]*[A-Za-z]|[A-Za-z])|(.)", re.DOTALL)
_PUNCTUATION = dict(zip("，。！？、；：—…,.!?;:", ",.!?,;:—…,.!?;:", strict=True))  # noqa: RUF001
_TONES_CHANGE = "一不"
_INITIAL = re.compile(r"[zcs]h?|[bpmfdtnlgkhjqxr]")  # "y" and "w" are written, not said
_INITIAL_SYMBOLS = re.compile(r"(?:[ʦꭧʨkpt]ʰ?|[fmnlxhɻʐʂsɕ])")
_SYMBOLS = {  # of pinyin-to-ipa
    **{"˧˩˧": "↓", "˧˥": "↗", "˥˩": "↘", "˥": "→"},
    **{"ʈʂ": "ꭧ", "tɕ": "ʨ", "ts": "ʦ"},
    **{"ɹ\u0329": "ɨ", "ɻ\u0329": "ɨ", "\u032f": ""},
}


def syllable_symbols(syllable: str) -> tuple[str, str]:
    """Of a syllable with its tone as a digit and ü as v: the initial's, "" if it has none, and the final's.

    Raises ValueError for one that pinyin does not have.

    >>> syllable_symbols("zhong1"), syllable_symbols("wo3")
    (('ꭧ', 'ʊ→ŋ'), ('', 'wo↓'))
    """
    symbols = "".join(pinyin_to_ipa(syllable.replace("v", "ü"))[0])
    for theirs, ours in _SYMBOLS.items():
        symbols = symbols.replace(theirs, ours)
    if not _INITIAL.match(syllable):
        return "", symbols
    initial = _INITIAL_SYMBOLS.match(symbols)
    assert initial is not None, f"{syllable}: {symbols}"
    return initial[0], symbols[initial.end() :]


class ChineseReader:
    """Not to be shared between threads."""

    def __init__(self, phrases: Path) -> None:
        """phrases: the voice's file of Mandarin. Raises TokenizerError."""
        jieba.setLogLevel("ERROR")
        self._mandarin = Mandarin(phrases)
        self._english: Any = G2P(british=False)

    def read(self, text: str) -> list[Piece]:
        """A text without Chinese characters is one English piece.

        Raises TeacherError for a character that it cannot read.
        """
        parts: list[tuple[str, str, str]] = _PART.findall(text)
        if not any(chinese for chinese, _, _ in parts):
            return [Piece(Kind.ENGLISH, self._english(text) or "")]
        pieces: list[Piece] = []
        num_marks = 0
        for chinese, english, other in parts:
            if chinese:
                pieces += self._syllables(chinese, num_marks, pieces[-1:])
                num_marks = max(num_marks, *(piece.marks[1] + 1 for piece in pieces))
            elif english:
                pieces += self._words(english, pieces[-1:])
            elif other in _PUNCTUATION:
                if pieces and pieces[-1].symbols == " ":
                    pieces.pop()
                pieces += [Piece(Kind.PAUSE, _PUNCTUATION[other]), _BLANK]
            elif other != " ":
                raise TeacherError(f"{other!r} in {text!r} is neither Chinese, English nor punctuation")
            elif pieces and pieces[-1].symbols != " ":
                pieces.append(_BLANK)
        while pieces and pieces[-1].symbols == " ":
            pieces.pop()
        return pieces

    def _syllables(self, characters: str, num_marks: int, before: list[Piece]) -> Iterator[Piece]:
        """num_marks: of the text so far; before: the last piece of it."""
        readings = self._mandarin.syllables(characters)
        if len(readings) != len(characters):
            raise TeacherError(f"{characters!r}: not every character has a syllable")
        own = iter(readings)
        is_behind = bool(before) and before[0].kind is Kind.FINAL
        for word in jieba.lcut(characters):
            if is_behind:
                yield _BLANK
            changed = lazy_pinyin(word, style=Style.TONE3, neutral_tone_with_five=True)
            for character, tone in zip(word, changed, strict=True):
                reading = next(own)
                yield from _pieces(reading, tone if character in _TONES_CHANGE else reading, num_marks)
                num_marks += len(pinyin_marks(reading))
            is_behind = True

    def _words(self, words: str, before: list[Piece]) -> Iterator[Piece]:
        is_behind = bool(before) and not before[0].symbols.endswith(" ")
        for word in words.split():
            symbols = (self._english(word) or "").strip()
            if not symbols:
                raise TeacherError(f"{word!r} has no English symbols")
            if is_behind:
                yield _BLANK
            yield Piece(Kind.ENGLISH, symbols)
            is_behind = True
        yield _BLANK


_BLANK = Piece(Kind.PAUSE, " ")


def _pieces(reading: str, spoken: str, num_marks: int) -> Iterator[Piece]:
    """reading: a syllable as it is written in marks; spoken: with the tone that it is said in."""
    try:
        num_own = len(pinyin_marks(reading))
        spoken = "er2" if spoken == "er" else spoken  # the ending of a word has a mark of its own
        initial, final = syllable_symbols(spoken if spoken[-1].isdigit() else f"{spoken}5")
    except ValueError as error:
        raise TeacherError(f"{reading!r}: {error}") from error
    first, last = num_marks, num_marks + num_own - 1
    if initial:
        yield Piece(Kind.INITIAL, initial, (first, first))
        first = last
    yield Piece(Kind.FINAL, final, (first, last))
