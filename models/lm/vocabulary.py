"""One id space for all that a language model reads, so that a request is a plain list of ids.

The rows of the speech table come first, so a speech token and the output class that draws it share
one number; then sos and task, where they have a table of their own; then the text ids. The classes
of the stop set are drawn and never read: in CosyVoice 1 class S is the eos while id S is the sos.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from models.config import LMConfig, TransformerLMConfig

NUM_SPECIAL_ROWS = 200  # of CosyVoice 3's speech table, behind its S speech tokens


class Forbidden(IntEnum):
    """Which classes of the stop set may not be drawn; the value is a row of `sampling.class_masks`."""

    NOTHING = 0  # whichever is drawn ends the utterance
    STOPS = 1  # below the minimum length. Published code masks class S alone, which in CosyVoice 3 is no eos
    ALL_BUT_EOS = 2  # after the last text of an interleaved utterance
    ALL_BUT_FILL = 3  # while an interleaved utterance may still get text


@dataclass(frozen=True, slots=True)
class Vocabulary:
    num_speech_ids: int  # S
    num_speech_rows: int  # S, and the special rows of the speech table
    num_classes: int  # V, of the output
    num_text_ids: int
    sos: int
    task: int  # the turn from text to speech
    first_text: int
    eos: int  # an output class
    fill: int | None  # the output class that asks for more text; CosyVoice 1 has none

    @classmethod
    def of(cls, config: LMConfig) -> "Vocabulary":
        size = config.speech_token_size
        if isinstance(config, TransformerLMConfig):
            tables = {"sos": size, "task": size + 1, "first_text": size + 2}
            return cls(size, size, size + 1, config.text_token_size, **tables, eos=size, fill=None)
        num_text_ids = config.qwen2.vocab_size
        if config.has_special_rows:
            rows = size + NUM_SPECIAL_ROWS
            tables = {"sos": size, "task": size + 2, "first_text": rows}
            return cls(size, rows, rows, num_text_ids, **tables, eos=size + 1, fill=size + 3)
        rows = size + 3
        tables = {"sos": rows, "task": rows + 1, "first_text": rows + 2}
        return cls(size, rows, rows, num_text_ids, **tables, eos=size, fill=size + 2)

    @property
    def num_ids(self) -> int:
        return self.first_text + self.num_text_ids

    @property
    def stop_ids(self) -> range:
        """The classes that are no speech token."""
        return range(self.num_speech_ids, self.num_classes)

    def text(self, ids: Iterable[int]) -> tuple[int, ...]:
        """The tokenizer's ids -> ours. Raises ValueError for one outside the model's text table."""
        return tuple(self.first_text + id for id in _within(ids, self.num_text_ids, "text"))

    def speech(self, ids: Iterable[int]) -> tuple[int, ...]:
        """Speech tokens -> ours, the same numbers. Raises ValueError for one that is no speech token."""
        return _within(ids, self.num_speech_ids, "speech")

    def forbidden_ids(self, rule: Forbidden) -> tuple[int, ...]:
        if rule is Forbidden.NOTHING:
            return ()
        if rule is Forbidden.STOPS:
            return tuple(self.stop_ids)
        allowed = self.eos if rule is Forbidden.ALL_BUT_EOS else self.fill
        return tuple(id for id in self.stop_ids if id != allowed)


def _within(ids: Iterable[int], size: int, kind: str) -> tuple[int, ...]:
    checked = tuple(ids)
    wrong = [id for id in checked if not 0 <= id < size]
    if wrong:
        raise ValueError(f"{kind} token {wrong[0]} came; this model has 0 to {size - 1}")
    return checked
