"""Recordings that tests upload: something like speech, written as WAV."""

import io
import wave

import numpy as np
from numpy.typing import NDArray

RATE_HZ = 24_000


def voice(duration_s: float, seed: int = 0, noise: float = 0.0) -> NDArray[np.float32]:
    """Harmonics of a gliding pitch in four syllables a second with pauses between; `noise`: its RMS."""
    generator = np.random.default_rng(seed)
    times_s = np.arange(round(duration_s * RATE_HZ)) / RATE_HZ
    phase = 2 * np.pi * np.cumsum(120 + 10 * seed + 20 * np.sin(3 * times_s)) / RATE_HZ
    harmonics = sum(np.sin(number * phase) / number for number in range(1, 20))
    envelope = np.clip(np.sin(2 * np.pi * 2 * times_s) + 0.5, 0, 1)
    samples = 0.2 * envelope * harmonics + max(noise, 1e-4) * generator.standard_normal(len(times_s))
    return np.clip(samples, -1, 1).astype(np.float32)


def wav(samples: NDArray[np.float32], sample_rate_hz: int = RATE_HZ) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(sample_rate_hz)
        writer.writeframes((samples * 32767).astype("<i2").tobytes())
    return file.getvalue()


def recording(duration_s: float = 2.0, seed: int = 0) -> bytes:
    return wav(voice(duration_s, seed))
