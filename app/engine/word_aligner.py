"""Which word each speech token is of: the likeliest way through the words, decided with a fixed delay.

A token's word is decided when `LAG_TOKENS` more tokens are known, which they are when its audio is made.
So what was told never changes, and is the same however the tokens arrive.
"""

import numpy as np
import numpy.typing as npt

LAG_TOKENS = 3  # the flow looks as far ahead
_FLOOR = 1e-3  # of the attention on a word
_SKIP = 8.0  # nats a word that has no token

Scores = npt.NDArray[np.float64]


class WordAligner:
    """Of one utterance. Words may come while tokens do."""

    def __init__(self) -> None:
        self.words: list[int] = []  # of the tokens that are decided
        self._num_words = 0
        self._word_of_id: list[int] = []
        self._scores: Scores = np.zeros(0)  # of the best way that ends in each word
        self._origins: list[npt.NDArray[np.int64]] = []  # by token not yet decided: where each came from

    def add_word(self, num_ids: int) -> None:
        """num_ids: of its text tokens."""
        self._word_of_id += [self._num_words] * num_ids
        self._num_words += 1

    def add_token(self, attention: npt.NDArray[np.float32]) -> None:
        """attention (heads, text tokens): of those the language model has read, no more than were added."""
        seen = attention.mean(0, dtype=np.float64)
        if len(seen) > len(self._word_of_id):
            raise ValueError(
                f"attention over {len(seen)} text tokens came; {len(self._word_of_id)} were added"
            )
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
        """No token follows: decide all."""
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
