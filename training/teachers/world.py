"""WORLD's analysis and synthesis of speech, imported where setuptools no longer has what it asks for."""

import importlib.metadata
import sys
import types

import numpy as np
from numpy.typing import NDArray

from training.teachers.spoken import SAMPLE_RATE_HZ, STEP_SAMPLES

if "pkg_resources" in sys.modules:
    import pyworld
else:  # pyworld asks it for its own version; setuptools 81 dropped it
    sys.modules["pkg_resources"] = types.ModuleType("pkg_resources")
    sys.modules["pkg_resources"].get_distribution = importlib.metadata.distribution  # type: ignore[attr-defined]
    try:
        import pyworld
    finally:  # where it is not installed, too
        del sys.modules["pkg_resources"]

__all__ = ["f0_of", "pyworld"]

_PERIOD_MS = 5.0


def f0_of(samples: NDArray[np.float64]) -> NDArray[np.float32]:
    """samples (S * STEP_SAMPLES,) at SAMPLE_RATE_HZ -> (S,) Hz, 0 where there is no pitch."""
    f0_hz, times = pyworld.dio(samples, SAMPLE_RATE_HZ, frame_period=_PERIOD_MS)
    f0_hz = pyworld.stonemask(samples, f0_hz, times, SAMPLE_RATE_HZ)
    at = (np.arange(len(samples) // STEP_SAMPLES) + 0.5) * STEP_SAMPLES / SAMPLE_RATE_HZ
    nearest = np.minimum(np.round(at * 1000 / _PERIOD_MS).astype(int), len(f0_hz) - 1)
    return f0_hz[nearest].astype(np.float32)
