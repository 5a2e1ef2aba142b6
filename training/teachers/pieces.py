"""What a teacher of Mandarin says, piece by piece."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, runtime_checkable

from training.teachers.spoken import Spoken

NO_MARKS = (0, -1)


class Kind(Enum):
    INITIAL = auto()
    FINAL = auto()
    ENGLISH = auto()  # a word among Chinese ones, or a whole text
    PAUSE = auto()  # punctuation or a blank


@dataclass(frozen=True, slots=True)
class Piece:
    """Symbols that are spoken together."""

    kind: Kind
    symbols: str
    marks: tuple[int, int] = NO_MARKS  # the first and the last of the text's pinyin marks that it says


@runtime_checkable
class PieceTeacher(Protocol):
    """A voice that speaks Mandarin, and English among it. Not to be shared between threads."""

    def speak_pieces(self, text: str, is_heard: bool = True) -> tuple[Spoken, list[Piece]]:
        """What is said, and the pieces in it: its phones are those, untold, between two pads of silence.

        Its words are characters and English words. What is not heard has durations and pitch as ever, and
        samples of silence. Raises TeacherError.
        """
