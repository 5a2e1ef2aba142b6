"""Cuts the silence before the first sound, which a listener takes for latency."""

import numpy as np

from app.audio.pcm import Samples

AUDIBLE = 10 ** (-45 / 20)  # of full scale, a window's RMS; two windows in a row are a sound
WINDOW_MS, HOP_MS = 20, 10
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
        onset = first_loud_window(heard, self._rate_hz)
        if onset is None and len(heard) < _MAX_SEARCH_S * self._rate_hz and not is_last:
            return samples[:0]
        self._held = None
        if onset is None or onset > _MAX_SEARCH_S * self._rate_hz:
            return heard
        return heard[max(0, onset - round(_KEPT_S * self._rate_hz)) :]


def first_loud_window(samples: Samples, sample_rate_hz: int) -> int | None:
    """samples (n,) -> where the first window begins that is heard; None: there is none."""
    window, hop = (sample_rate_hz * ms // 1000 for ms in (WINDOW_MS, HOP_MS))
    if len(samples) < window + hop:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop]  # (W, window)
    is_loud = np.square(windows, dtype=np.float64).mean(axis=1) > AUDIBLE**2  # (W,)
    places = np.flatnonzero(is_loud[:-1] & is_loud[1:])
    return int(places[0]) * hop if len(places) else None
