"""How good speech sounds, by DNSMOS (arXiv 2110.01763), whose networks `speechmos` (MIT) brings."""

from dataclasses import dataclass

import numpy as np
import soxr
from numpy.typing import NDArray
from speechmos import dnsmos

_RATE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class Quality:
    """Mean opinion scores, 1 to 5."""

    p808: float
    overall: float


def quality(samples: NDArray[np.float32], sample_rate_hz: int) -> Quality:
    """samples (n,) within ±1."""
    heard = np.clip(soxr.resample(samples, sample_rate_hz, _RATE_HZ), -1, 1).astype(np.float32)
    scores = dnsmos.run(heard, sr=_RATE_HZ)
    return Quality(float(scores["p808_mos"]), float(scores["ovrl_mos"]))
