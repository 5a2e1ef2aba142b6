"""Kokoro-82M speaking Mandarin, and English among it, in any of its styles.

It reads Chinese by the shipped phrases.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from firstword.models.tokenizer import PRONUNCIATION_FOLDER
from firstword.models.tokenizer.mandarin import MANDARIN_FILE
from training.settings import BUILTIN
from training.teachers.kokoro import UNIT_S, Styled, cycles_of
from training.teachers.pieces import Kind, Piece
from training.teachers.pinyin import ChineseReader
from training.teachers.spoken import UNTOLD, Spoken, as_int16
from training.teachers.symbols import LAG_S
from training.text.mandarin import read_characters

_LOWEST_HZ = 50.0  # what is told below is no voice
_PHRASES = BUILTIN / PRONUNCIATION_FOLDER / MANDARIN_FILE


class MandarinKokoro:
    knows_phase = True

    def __init__(self, styles: Mapping[str, float], speed: float = 1.0) -> None:
        """styles: names and their shares of the mixture. Raises TeacherError for one that does not exist."""
        self._voice = Styled(styles, speed)
        self._reader = ChineseReader(_PHRASES)

    def speak(self, text: str) -> Spoken:
        """As `speak_pieces`."""
        return self.speak_pieces(text)[0]

    def speak_pieces(self, text: str, is_heard: bool = True) -> tuple[Spoken, list[Piece]]:
        """As `PieceTeacher`."""
        read = (replace(one, symbols=self._voice.known(one.symbols)) for one in self._reader.read(text))
        pieces = [one for one in read if one.symbols]
        said = self._voice.say("".join(one.symbols for one in pieces), is_heard)
        ends_s = np.cumsum(said.durations) * UNIT_S - LAG_S
        ends_s[-1] += LAG_S
        last = np.cumsum([1, *(len(one.symbols) for one in pieces), 1]) - 1
        is_silent = np.array([True, *(one.kind is Kind.PAUSE for one in pieces), True])
        begins = np.array([False, *_begin_words(pieces), False])
        spoken = Spoken(
            as_int16(said.samples),
            np.where(is_silent, 0, UNTOLD).astype(np.uint8),
            np.maximum(ends_s[last], 0.0).astype(np.float32),
            np.where(is_silent, -1, np.cumsum(begins) - 1).astype(np.int32),
            len(read_characters(text)),
            np.where(said.f0_of_steps > _LOWEST_HZ, said.f0_of_steps, 0.0).astype(np.float32),
            cycles_of(said.f0_hz),
            "",
        )
        return spoken, pieces


def _begin_words(pieces: list[Piece]) -> list[bool]:
    """Whether a piece begins a character or an English word."""
    before = [None, *(one.kind for one in pieces[:-1])]
    return [
        one.kind is not Kind.PAUSE and (one.kind, kind) != (Kind.FINAL, Kind.INITIAL)
        for one, kind in zip(pieces, before, strict=True)
    ]
