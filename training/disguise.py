"""Mels that sound as if somebody else had spoken, so that the flow learns to take a voice from its prompt.

The corpus has few voices, and their embeddings tell them apart: a flow that was trained on them alone gives a
recording of a new voice the sound of the nearest that it knows.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from firstword.models.config import NUM_MELS
from firstword.models.frontend.features import slaney_filterbank
from training.features import MEL

_STRETCH = 0.25  # of the frequencies, the logarithm of the most
_STRETCHED_TO_HZ = 6000.0  # above, the frequencies between there and the highest share what is left
_TILTS = (0.5, 0.7, 0.6, 0.4, 0.3, 0.3)  # standard deviations of cosines over the bands, in nepers
_FLOOR = float(np.log(1e-5))  # of a log-mel
_HIGHEST_HZ = 8000.0  # of a mel


def disguised(mel: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.float32]:
    """mel (F, M) natural log -> (F, M): all frames with the same frequencies stretched or pressed, the same
    bands made louder or softer."""
    stretch = float(np.exp(rng.uniform(-_STRETCH, _STRETCH)))
    bands = np.arange(NUM_MELS)
    order = np.arange(len(_TILTS))[:, None]
    cosines = np.cos(np.pi * order * (bands + 0.5) / NUM_MELS)
    gain = (rng.normal(size=len(_TILTS)) * _TILTS) @ cosines
    place = np.interp(_source_hz(_band_hz(), stretch), _band_hz(), bands)
    low = np.minimum(place.astype(int), NUM_MELS - 2)
    share = place - low
    moved = mel[:, low] * (1 - share) + mel[:, low + 1] * share
    return np.maximum(moved + gain, _FLOOR).astype(np.float32)


def _source_hz(hz: NDArray[np.float64], stretch: float) -> NDArray[np.float64]:
    """Where the sound at `hz` comes from (vocal tract length perturbation, Jaitly and Hinton, 2013)."""
    bend = _STRETCHED_TO_HZ * min(1.0, stretch)
    return np.interp(hz, [0.0, bend, _HIGHEST_HZ], [0.0, bend / stretch, _HIGHEST_HZ])


@cache
def _band_hz() -> NDArray[np.float64]:
    """(M,): the centres of the bands."""
    filters = slaney_filterbank(MEL.sample_rate_hz, MEL.n_fft, NUM_MELS, 0.0, _HIGHEST_HZ).double().numpy()
    hz = np.linspace(0.0, MEL.sample_rate_hz / 2, filters.shape[1])
    return (filters * hz).sum(1) / filters.sum(1)
