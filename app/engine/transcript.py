"""Which words a listener has heard: text against audio, utterance by utterance. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_SECONDS_PER_LETTER = 0.07
_SECONDS_PER_IDEOGRAPH = 0.22
_IDEOGRAPHS = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"  # and kana, and hangul
_IDEOGRAPH = re.compile(_IDEOGRAPHS)
_WORD_END = re.compile(rf"(?<=\S)(?=\s)|(?<={_IDEOGRAPHS})|$")


@dataclass(slots=True)
class Said:
    """One utterance: its part of the text, exactly as it was given, and its audio so far."""

    source: str = ""
    num_samples: int = 0
    total_samples: int | None = None  # None: not known yet

    def expected_samples(self, sample_rate_hz: int) -> int:
        """All its audio; while that is not known, guessed from the length of the text."""
        if self.total_samples is not None:
            return self.total_samples
        ideographs = len(_IDEOGRAPH.findall(self.source))
        letters = len(self.source) - ideographs
        guess_s = _SECONDS_PER_IDEOGRAPH * ideographs + _SECONDS_PER_LETTER * letters
        return max(self.num_samples, round(guess_s * sample_rate_hz))


def spoken_text(said: Sequence[Said], num_samples: int, sample_rate_hz: int) -> str:
    """The text of the first `num_samples` samples; within an utterance in proportion, to a whole word."""
    spoken = ""
    for one in said:
        expected = one.expected_samples(sample_rate_hz)
        if num_samples < expected:
            return spoken + _whole_words(one.source, num_samples / expected)
        spoken += one.source
        num_samples -= expected
    return spoken


def _whole_words(text: str, share: float) -> str:
    """The words of `text` that end within its first `share`."""
    limit = share * len(text)
    ends = [match.start() for match in _WORD_END.finditer(text) if match.start() <= limit]
    return text[: max(ends, default=0)]
