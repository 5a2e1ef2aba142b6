"""Which part of a text has been spoken, by how much of its audio has been given out."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from firstword.app.audio.dsp import Samples

_PAUSE_CHUNK_S = 0.5
_SECONDS_PER_LETTER = 0.07
_SECONDS_PER_IDEOGRAPH = 0.22
_IDEOGRAPHS = r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]"  # and kana, and hangul
_IDEOGRAPH = re.compile(_IDEOGRAPHS)
_AFTER_WORD = ".,;:!?…\"'”’)]}»。，、！？；：）》」』"  # noqa: RUF001  Chinese ones too
_WORD_END = re.compile(rf"(?<=\S)(?=\s)|(?<={_IDEOGRAPHS})|$")


@dataclass(frozen=True, slots=True)
class TimedWord:
    """A word as it was written, from char_start to char_end of the stream's text. start, end: in samples."""

    text: str
    char_start: int
    char_end: int
    start: int
    end: int


@dataclass(slots=True)
class UtteranceTranscript:
    """An utterance's part of the text, exactly as it was given, and how much audio it has so far."""

    source: str = ""
    num_samples: int = 0
    total_samples: int | None = None  # None: not known yet
    char_start: int = 0  # where the source begins in the stream's text
    words: list[TimedWord] = field(default_factory=list)  # that were given out, where they were asked for

    def expected_samples(self, sample_rate_hz: int) -> int:
        """Return the samples of all its audio, estimated by the text's length while they are not known."""
        if self.total_samples is not None:
            return self.total_samples
        return max(self.num_samples, round(estimated_seconds(self.source) * sample_rate_hz))


def estimated_seconds(text: str) -> float:
    """Estimate how long a text takes to say, by its letters alone."""
    ideographs = len(_IDEOGRAPH.findall(text))
    return _SECONDS_PER_IDEOGRAPH * ideographs + _SECONDS_PER_LETTER * (len(text) - ideographs)


@dataclass(frozen=True, slots=True, eq=False)
class Silence:
    """A pause that the text asks for."""

    transcript: UtteranceTranscript
    num_samples: int

    def chunks(self, sample_rate_hz: int) -> Iterator[Samples]:
        """Yield zeros in short chunks, counted as they are given out: a long pause waits for its listener."""
        num_chunk = round(_PAUSE_CHUNK_S * sample_rate_hz)
        for start in range(0, self.num_samples, num_chunk):
            num_samples = min(num_chunk, self.num_samples - start)
            self.transcript.num_samples += num_samples
            yield np.zeros(num_samples, np.float32)


def spoken_text(transcripts: Sequence[UtteranceTranscript], num_samples: int, sample_rate_hz: int) -> str:
    """Return the text that the first `num_samples` samples speak, up to a whole word.

    Within an utterance it goes by the words' times if they are known, else by proportion.
    """
    spoken = ""
    first_sample = 0
    for transcript in transcripts:
        source = transcript.source
        expected = transcript.expected_samples(sample_rate_hz)
        if num_samples < expected:
            limit = num_samples / expected * len(source)
            if transcript.words:
                ends = [word.char_end for word in transcript.words if word.end <= first_sample + num_samples]
                limit = max(ends, default=transcript.char_start) - transcript.char_start
                limit += len(source[limit:]) - len(source[limit:].lstrip(_AFTER_WORD))
            ends = [match.start() for match in _WORD_END.finditer(source) if match.start() <= limit]
            return spoken + source[: max(ends, default=0)]
        spoken += source
        num_samples -= expected
        first_sample += expected
    return spoken
