"""Mels that sound as if somebody else had spoken, so that the flow learns to take a voice from its prompt."""

import numpy as np
from numpy.typing import NDArray

from firstword.models.config import NUM_MELS
from firstword.models.frontend.features import LEAST_MEL, mel_centers_hz
from training.features import MEL

_MAX_LOG_WARP = 0.25  # either way
_WARPED_TO_HZ = 6000.0  # above, the frequencies between there and the highest share what is left
_TILTS = (0.5, 0.7, 0.6, 0.4, 0.3, 0.3)  # standard deviations of cosines over the bands, in nepers
_CENTERS_HZ = mel_centers_hz(MEL).numpy()


def disguised(mel: NDArray[np.floating], rng: np.random.Generator) -> NDArray[np.float32]:
    """mel (F, M) natural log -> (F, M): in all frames the frequencies are multiplied by the same warp factor,
    and the same bands made louder or softer."""
    warp = float(np.exp(rng.uniform(-_MAX_LOG_WARP, _MAX_LOG_WARP)))
    bands = np.arange(NUM_MELS)
    order = np.arange(len(_TILTS))[:, None]
    cosines = np.cos(np.pi * order * (bands + 0.5) / NUM_MELS)
    gain = (rng.normal(size=len(_TILTS)) * _TILTS) @ cosines
    place = np.interp(_unwarped_hz(_CENTERS_HZ, warp), _CENTERS_HZ, bands)
    low = np.minimum(place.astype(int), NUM_MELS - 2)
    share = place - low
    moved = mel[:, low] * (1 - share) + mel[:, low + 1] * share
    return np.maximum(moved + gain, np.log(LEAST_MEL)).astype(np.float32)


def _unwarped_hz(hz: NDArray[np.float64], warp: float) -> NDArray[np.float64]:
    """Where the sound at `hz` was before (vocal tract length perturbation, Jaitly and Hinton, 2013)."""
    bend = _WARPED_TO_HZ * min(1.0, warp)
    return np.interp(hz, [0.0, bend, MEL.highest_hz], [0.0, bend / warp, MEL.highest_hz])
