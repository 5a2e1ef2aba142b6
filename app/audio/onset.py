"""Cuts the silence before the first sound, which a listener takes for latency."""

import numpy as np
from numpy.typing import NDArray

from app.audio.pcm import Samples

_WINDOW_S, _HOP_S = 0.02, 0.01
_THRESHOLD = 10 ** (-45 / 20)  # of a window's RMS; two windows in a row are a sound
_KEPT_S = 0.03  # before the sound: consonants begin softly
_MAX_SEARCH_S = 0.6  # a longer silence is meant


class LeadingSilence:
    """Of one stream: hand it the audio piece by piece, and take what is to be heard."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz
        self._held: list[Samples] | None = []  # None: the beginning is past

    def trim(self, samples: Samples, is_last: bool) -> Samples:
        """samples (n,) -> (m,): at first maybe nothing. is_last: what is held is given back whole."""
        if self._held is None:
            return samples
        self._held.append(samples)
        heard = np.concatenate(self._held)
        onset = first_sound(heard, self._rate_hz)
        if onset is None and len(heard) < _MAX_SEARCH_S * self._rate_hz and not is_last:
            return samples[:0]
        self._held = None
        if onset is None or onset > _MAX_SEARCH_S * self._rate_hz:
            return heard
        return heard[max(0, onset - round(_KEPT_S * self._rate_hz)) :]


def first_sound(samples: Samples, sample_rate_hz: int) -> int | None:
    """Where the first audible window of samples (n,) begins; None: there is none."""
    window, hop = round(_WINDOW_S * sample_rate_hz), round(_HOP_S * sample_rate_hz)
    if len(samples) < window + hop:
        return None
    windows: NDArray[np.float32] = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop]
    is_loud = np.sqrt(np.mean(np.square(windows), axis=1)) > _THRESHOLD
    places = np.flatnonzero(is_loud[:-1] & is_loud[1:])
    return int(places[0]) * hop if len(places) else None
