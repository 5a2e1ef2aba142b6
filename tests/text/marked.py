"""Speech marks over a toy tokenizer, and what tests compare of parts."""

from firstword.app.text.marks import Part, Span, SpeechMarks
from firstword.models.tokenizer import PHONEME_MARKS, SPEECH_MARKS
from tests.text.examples import codes

COSYVOICE3 = SPEECH_MARKS[: SPEECH_MARKS.index("<|en|>")]
FIRST_ID = 10_000_000  # of the marks: their index is added


def speech_marks(taken: tuple[str, ...] = COSYVOICE3) -> SpeechMarks:
    ids = {mark: [FIRST_ID + index] for index, mark in enumerate(SPEECH_MARKS)}
    return SpeechMarks(codes, lambda mark: ids[mark], taken, SPEECH_MARKS, PHONEME_MARKS)


def joined(parts: list[Part]) -> list[Part]:
    """Plain text that follows plain text is one."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, Span) and part.is_plain and isinstance(last, Span) and last.is_plain:
            found[-1] = Span(last.source + part.source, last.written + part.written)
        else:
            found.append(part)
    return found
