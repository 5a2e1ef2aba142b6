"""The audio of a stream at another speed, its words in time with it."""

from collections.abc import Sequence
from dataclasses import replace

from firstword.app.audio.dsp import Samples, Tempo
from firstword.app.core.interface import Audio
from firstword.app.core.transcript import TimedWord


class TimedTempo:
    """Changes the speed of `Audio` as it comes. A word is given out with the samples in which it ends."""

    def __init__(self, speed: float, sample_rate_hz: int) -> None:
        self._speed = speed
        self._tempo = Tempo(speed, sample_rate_hz)
        self._words: list[TimedWord] = []  # whose end has not been given out
        self._num_samples = 0  # given out

    def feed(self, audio: Audio) -> Audio:
        self._words += [self._timed(word) for word in audio.words]
        return self._given(self._tempo.feed(audio.samples))

    def finish(self) -> Audio:
        """Return the rest, once and last."""
        rest = self._given(self._tempo.finish())
        return Audio(rest.samples, [*rest.words, *self._words])

    def _timed(self, word: TimedWord) -> TimedWord:
        return replace(word, start=int(word.start / self._speed), end=int(word.end / self._speed))

    def _given(self, samples: Samples) -> Audio:
        self._num_samples += len(samples)
        ended: Sequence[TimedWord] = [word for word in self._words if word.end <= self._num_samples]
        self._words = self._words[len(ended) :]
        return Audio(samples, ended)
