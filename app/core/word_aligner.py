"""When words sound: which word each speech token is of, by the language model's attention.

The likeliest way through the words is decided with a fixed delay: a token's word when `LAG_TOKENS` more
tokens are known, which they are when its audio is made. So what was given out never changes, and is the same
however the tokens arrive.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from firstword.app.core.transcript import TimedWord, estimated_seconds
from firstword.app.telemetry.stream_stats import WordTimes
from firstword.app.text.words import Word
from firstword.models.lm.alignment import text_attention
from firstword.models.lm.plan import TokenDetail

LAG_TOKENS = 3  # the flow looks as far ahead
_FLOOR = 1e-3  # of the attention on a word
_SKIP = 8.0  # nats a word that has no token
_BEGINS_AT = 0.25  # of a word's first token: in training a token is of what sounds at three quarters of it


class WordAligner:
    """Assigns the speech tokens of one utterance to its words, which may come while tokens do."""

    def __init__(self) -> None:
        self.words: list[int] = []  # of the tokens that are decided
        self._num_words = 0
        self._word_of_id: list[int] = []
        self._scores: npt.NDArray[np.float64] = np.zeros(0)  # of the best way that ends in each word
        self._origins: list[npt.NDArray[np.int64]] = []  # by token not yet decided: where each came from

    def add_word(self, num_ids: int) -> None:
        """Add a word of `num_ids` text tokens."""
        self._word_of_id += [self._num_words] * num_ids
        self._num_words += 1

    def add_ids(self, num_ids: int) -> None:
        """Add text tokens to the last word, or before the first word to that one."""
        self._word_of_id += [max(0, self._num_words - 1)] * num_ids

    def add_token(self, attention: npt.NDArray[np.float32]) -> None:
        """Add a speech token by its attention (heads, text tokens) to the text that was read so far."""
        seen = attention.mean(0, dtype=np.float64)
        if len(seen) > len(self._word_of_id):
            raise ValueError(
                f"attention over {len(seen)} text tokens came; {len(self._word_of_id)} were added"
            )
        if not self._num_words or (not len(seen) and not len(self._scores)):  # no word was read yet
            self.words.append(0)
            return
        weights = np.bincount(self._word_of_id[: len(seen)], seen, self._num_words)
        fit = np.log(weights + _FLOOR)
        before = np.full(self._num_words, -np.inf)
        before[: len(self._scores)] = self._scores
        if not len(self._scores):
            before[0] = 0.0
        # The best way to come to a word from one before it: a step is free, a skipped word is not.
        reached = before + _SKIP * np.arange(self._num_words)
        best = np.maximum.accumulate(reached)
        origin = np.maximum.accumulate(np.where(reached == best, np.arange(self._num_words), -1))
        moved = np.concatenate([[-np.inf], best[:-1]]) - _SKIP * (np.arange(self._num_words) - 1)
        came_from = np.concatenate([[0], origin[:-1]])
        stays = before >= moved
        self._scores = np.where(stays, before, moved) + fit
        self._origins.append(np.where(stays, np.arange(self._num_words), came_from))
        if len(self._origins) > LAG_TOKENS:
            self._decide_oldest()

    def finish(self) -> None:
        """Decide the last tokens: none follows."""
        while self._origins:
            self._decide_oldest()

    def _decide_oldest(self) -> None:
        """Take the best way, and drop those that are of another word there."""
        ancestors = np.arange(len(self._scores))
        for origin in reversed(self._origins[1:]):
            ancestors = np.where(ancestors < len(origin), origin[np.minimum(ancestors, len(origin) - 1)], -1)
        word = int(ancestors[self._scores.argmax()])
        self._scores = np.where(ancestors == word, self._scores, -np.inf)
        self.words.append(word)
        self._origins.pop(0)


class UtteranceWords:
    """Times the words of one utterance, given out with the audio they end in; a time never changes.

    Times come from the language model's attention if it tells any, else from the words' lengths.
    """

    def __init__(self, samples_per_token: float, sample_rate_hz: int, rate: float) -> None:
        """rate: tempo, as a factor of the networks' own."""
        self.first_sample = 0  # of the stream, where the utterance begins
        self.found: WordTimes = "aligned"
        self._samples_per_token = samples_per_token / rate
        self._sample_rate_hz = sample_rate_hz
        self._rate = rate
        self._aligner = WordAligner()
        self._words: list[tuple[str, int, int]] = []  # from and to which character of the stream's text
        self._seconds: list[float] = []  # estimated, of each word
        self._starts: list[int] = []  # the first token of each word, as far as they are decided
        self._num_tokens = 0
        self._num_decided = 0
        self._num_taken = 0
        self._estimated_ends_s: list[float] = []  # where they are estimated

    def add(self, source: str, words: Sequence[Word], num_ids: int, char_start: int) -> None:
        """Add words. num_ids: their text tokens. char_start: position of the source in the stream's text."""
        for word in words:
            text = source[word.start : word.end]
            self._words.append((text, char_start + word.start, char_start + word.end))
            self._seconds.append(estimated_seconds(text + " ") / self._rate)
            self._aligner.add_ids(word.num_before)  # a pause goes with what was said before it
            self._aligner.add_word(word.num_ids)
        self._aligner.add_ids(num_ids - sum(word.num_before + word.num_ids for word in words))

    def take_ended(
        self, details: Sequence[TokenDetail], num_trimmed: int, num_samples: int, is_last: bool
    ) -> list[TimedWord]:
        """Return the words that have ended since the last call.

        details: of all tokens that were made into audio. num_trimmed: samples cut off before the first that
        was given out. num_samples: of the utterance, given out so far. is_last: they are all.
        """
        queries = [detail.query for detail in details[self._num_tokens :]]
        if None in queries:
            self.found = "estimated"
        if self.found == "aligned":
            for attention in text_attention([query for query in queries if query is not None]):
                self._aligner.add_token(attention)
        self._num_tokens = len(details)
        if self.found == "estimated":
            bounds = self._estimated(num_samples, is_last)
        else:
            bounds = self._decided(num_trimmed / self._rate, num_samples, is_last)
        first = self._num_taken
        self._num_taken = max(first, len(bounds) - 1)
        return [
            TimedWord(*self._words[number], self.first_sample + start, self.first_sample + end)
            for number, (start, end) in enumerate(pairwise(bounds[first:]), first)
        ]

    def _decided(self, num_trimmed: float, num_samples: int, is_last: bool) -> list[int]:
        """Return where each word begins, in samples of the utterance, as far as decided; its end at last."""
        if is_last:
            self._aligner.finish()
        for index, word in enumerate(self._aligner.words[self._num_decided :], self._num_decided):
            while len(self._starts) <= word:
                self._starts.append(index)
        self._num_decided = len(self._aligner.words)
        begins = [start + _BEGINS_AT if start else 0.0 for start in self._starts]
        starts = [max(0, round(begin * self._samples_per_token - num_trimmed)) for begin in begins]
        if not is_last:
            return [start for start in starts if start <= num_samples]
        starts += [num_samples] * (len(self._words) + 1 - len(starts))  # words without a token of their own
        return [min(start, num_samples) for start in starts]

    def _estimated(self, num_samples: int, is_last: bool) -> list[int]:
        """Return bounds as `_decided` does, by the words' estimated lengths; the last share what is left."""
        limit_s = num_samples / self._sample_rate_hz
        bounds = [0.0, *self._estimated_ends_s]
        for seconds in self._seconds[len(bounds) - 1 :]:
            if bounds[-1] + seconds > limit_s:
                break
            bounds.append(bounds[-1] + seconds)
        if is_last and (rest := self._seconds[len(bounds) - 1 :]):
            share = max(0.0, limit_s - bounds[-1]) / sum(rest)
            bounds += [bounds[-1] + share * seconds for seconds in accumulate(rest)]
        self._estimated_ends_s = bounds[1:]
        return [round(bound * self._sample_rate_hz) for bound in bounds]
