"""Samples as 16-bit numbers, and the WAV header in front of them."""

import struct

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (n,), mono, within ±1
Pcm16 = NDArray[np.int16]  # (n,), mono

FULL_SCALE = 32768  # of ±1.0, as decoders have it: 16-bit audio that was decoded comes out as it went in
UNKNOWN_SIZE = 0xFFFFFFFF  # players read such a WAV to its end

_BYTES_PER_SAMPLE = 2
_FMT_BYTES = 16
_INTEGER_PCM = 1


def within_full_scale(samples: Samples) -> Samples:
    """A copy within ±1, of any shape. NaN is silence: in a resampler one would fill its whole filter."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)


def to_pcm16(samples: Samples) -> Pcm16:
    """Rounds to the nearest; clips what is beyond full scale, never wraps."""
    return np.clip(np.rint(samples * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def wav_header(sample_rate_hz: int, num_samples: int | None) -> bytes:
    """44 bytes: mono, 16 bits. num_samples None: unknown while it streams.

    Raises ValueError for more samples than a WAV can count.
    """
    size_bytes = UNKNOWN_SIZE if num_samples is None else num_samples * _BYTES_PER_SAMPLE
    riff_bytes = UNKNOWN_SIZE if num_samples is None else 4 + 8 + _FMT_BYTES + 8 + size_bytes
    if riff_bytes > UNKNOWN_SIZE:
        raise ValueError(f"{num_samples} samples are more than a WAV can hold (4 GiB); send it as flac")
    fmt = struct.pack(
        "<4sIHHIIHH",
        b"fmt ",
        _FMT_BYTES,
        _INTEGER_PCM,
        1,
        sample_rate_hz,
        sample_rate_hz * _BYTES_PER_SAMPLE,
        _BYTES_PER_SAMPLE,
        8 * _BYTES_PER_SAMPLE,
    )
    return (
        struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE") + fmt + struct.pack("<4sI", b"data", size_bytes)
    )


class PcmCodec:
    """Samples as they are, little-endian, behind a header or none."""

    def __init__(self, header: bytes = b"") -> None:
        self._header = header

    def start(self) -> bytes:
        return self._header

    def encode(self, samples: Pcm16) -> bytes:
        return samples.astype("<i2").tobytes()

    def finish(self) -> bytes:
        return b""
