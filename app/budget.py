"""The work of one request: what it may be, and what it has come to, counted where it is first known."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field

from firstword.app.errors import InvalidRequest, TextTooLong

SENTENCE_PAUSE_S: Final = 2.0  # of pauses that each sentence allows beside the setting
READ_CHARS_PER_CHAR: Final = 4

_SENTENCE_END = re.compile(r"[.!?…\n。！？]")  # noqa: RUF001  Chinese ones are meant
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most that one request may cost, whatever carries it."""

    max_text_chars: Annotated[
        int, Field(ge=1, description="Text of one stream; more is refused with 413")
    ] = 4096
    max_read_chars: Annotated[
        int,
        Field(
            ge=0,
            description="The same text as it is read, once a lexicon and marks have replaced words; more is "
            "refused with 413; 0 is four times FIRSTWORD_MAX_TEXT_CHARS",
        ),
    ] = 0
    max_pauses_s: Annotated[
        float,
        Field(ge=0, description="Pauses in one text, beside 2 s for each sentence; more are refused"),
    ] = 60
    max_audio_s: Annotated[
        float,
        Field(
            gt=0,
            description="Audio of one stream, or of the speech tokens and mel frames of one request; an item "
            "of a batch may have as much more as its text is longer than FIRSTWORD_MAX_TEXT_CHARS",
        ),
    ] = 900

    def check_text(self, num_chars: int) -> None:
        """Raise TextTooLong past the limit of a stream."""
        if num_chars > self.max_text_chars:
            raise TextTooLong(
                f"the text has {num_chars} characters, at most {self.max_text_chars} can be spoken at "
                "once; send it in several requests",
                "text",
            )

    def check_given(self, count: int, rate_hz: float, what: str, param: str) -> None:
        """Raise InvalidRequest for more tokens or frames than the audio may be long; what: their name."""
        if count / rate_hz > self.max_audio_s:
            raise InvalidRequest(
                f"{count} {what} are {count / rate_hz:g} s of audio, at most "
                f"{self.max_audio_s * rate_hz:.0f} are taken, {self.max_audio_s:g} s "
                "(FIRSTWORD_MAX_AUDIO_S); send several requests",
                param,
            )


DEFAULT_LIMITS: Final = WorkLimits()


class Work:
    """Counts what one request comes to; each method raises where that is over a limit.

    A text that comes in pieces counts as it comes.
    """

    def __init__(self, limits: WorkLimits, num_item_chars: int = 0) -> None:
        """num_item_chars: of an item of a batch, whose limits grow with its text."""
        scale = max(1.0, num_item_chars / limits.max_text_chars)
        max_read_chars = limits.max_read_chars or READ_CHARS_PER_CHAR * limits.max_text_chars
        self._max_read_chars = round(scale * max_read_chars)
        self._max_pauses_s = limits.max_pauses_s
        self._max_audio_s = scale * limits.max_audio_s
        self._num_read_chars = 0
        self._pauses_s = 0.0
        self._num_sentences = 0
        self._is_in_sentence = False

    def read(self, texts: Iterable[str], pauses_s: float) -> None:
        """Count what is read aloud of a text, or a piece of one, and the pauses in it.

        Raises TextTooLong and InvalidRequest.
        """
        texts = list(texts)
        self._num_read_chars += sum(map(len, texts))
        if self._num_read_chars > self._max_read_chars:
            raise TextTooLong(
                f"the text has {self._num_read_chars} characters as it is read, with what stands for its "
                f"words; at most {self._max_read_chars} can be spoken at once (FIRSTWORD_MAX_READ_CHARS); "
                "replace words by shorter ones, or send it in several requests",
                "text",
            )
        self._count_sentences("".join(texts))
        self._pauses_s += pauses_s
        num_sentences = self._num_sentences + self._is_in_sentence
        max_pauses_s = self._max_pauses_s + SENTENCE_PAUSE_S * num_sentences
        if self._pauses_s > max_pauses_s:
            raise InvalidRequest(
                f"the pauses in the text are {self._pauses_s:g} s together, at most {max_pauses_s:g} s are "
                f"made: {self._max_pauses_s:g} s (FIRSTWORD_MAX_PAUSES_S), {SENTENCE_PAUSE_S:g} s for each "
                f"of its sentences, {num_sentences}; make them shorter, or send it in several requests",
                "text",
            )
        self.check_audio(self._pauses_s)

    def check_audio(self, seconds: float) -> None:
        """Raise InvalidRequest for more audio than there may be."""
        if seconds > self._max_audio_s:
            raise InvalidRequest(
                f"the audio is {seconds:.1f} s long, at most {self._max_audio_s:g} s are made of one request "
                "(FIRSTWORD_MAX_AUDIO_S); send several requests",
                "text",
            )

    def _count_sentences(self, text: str) -> None:
        for number, part in enumerate(_SENTENCE_END.split(text)):
            if number and self._is_in_sentence:
                self._num_sentences += 1
                self._is_in_sentence = False
            self._is_in_sentence |= _WORD.search(part) is not None
