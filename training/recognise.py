"""How intelligible speech is, by a recogniser that never heard it: pocketsphinx and its US English model."""

from collections.abc import Sequence

import numpy as np
import pocketsphinx
import soxr
from numpy.typing import NDArray

from training.text.corpus import read_words

_RATE_HZ = 16_000
_MARGIN_S = 0.25
_NOISE = 3e-4  # a little, always the same: the recogniser's estimate of the channel fails on digital silence


class Recogniser:
    """Not to be shared between threads."""

    def __init__(self) -> None:
        self._decoder = pocketsphinx.Decoder(loglevel="FATAL")

    def __call__(self, samples: NDArray[np.float32], sample_rate_hz: int) -> list[str]:
        """samples (n,), any level -> the words heard."""
        margin = np.zeros(int(_MARGIN_S * sample_rate_hz), np.float32)
        heard = soxr.resample(np.concatenate([margin, samples, margin]), sample_rate_hz, _RATE_HZ)
        heard = heard / max(1e-6, float(np.abs(heard).max())) * 0.5
        heard = heard + np.random.default_rng(0).standard_normal(len(heard)) * _NOISE
        self._decoder.start_utt()
        self._decoder.process_raw((heard * 32767).astype("<i2").tobytes(), full_utt=True)
        self._decoder.end_utt()
        hypothesis = self._decoder.hyp()
        return read_words(hypothesis.hypstr) if hypothesis else []


def word_errors(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """Substitutions, insertions and deletions between two lists of words (Levenshtein's distance)."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(wanted, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(heard, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (word != other))
    return row[-1]
