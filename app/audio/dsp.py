"""Sample processing: PCM conversion, resampling, tempo, leading silence.

Samples as 16-bit numbers, and the WAV header in front of them.

From one sample rate to another while the samples come; pieces of any size give the same result.

Cuts the silence before the first sound, which a listener takes for latency.

Faster or slower speech of the same pitch, while the samples come.
"""

import struct
from collections.abc import Iterator
from fractions import Fraction
from math import sqrt

import av
import av.filter
import numpy as np
import soxr
from numpy.typing import NDArray

from firstword.app.audio.formats import MAX_SPEED, MIN_SPEED

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


class Resampler:
    """soxr's HQ, which holds about 40 ms back, 80 ms on the way down to 8 kHz."""

    def __init__(self, source_rate_hz: int, sample_rate_hz: int) -> None:
        self._stream = soxr.ResampleStream(source_rate_hz, sample_rate_hz, num_channels=1, quality="HQ")

    def feed(self, samples: Samples) -> Samples:
        return self._resampled(samples, is_last=False)

    def finish(self) -> Samples:
        return self._resampled(np.empty(0, np.float32), is_last=True)

    def _resampled(self, samples: Samples, is_last: bool) -> Samples:
        resampled: Samples = self._stream.resample_chunk(samples, last=is_last)
        return resampled


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


_FILTER_MIN, _FILTER_MAX = 0.5, 2.0  # below, one filter cannot; above, it drops samples instead of blending
_FRAME_S = 0.01
_TAIL_S = 0.5  # of silence behind the end, longer than all that the filters hold back


def check_speed(speed: float) -> None:
    """Raises ValueError for a speed out of range, NaN included."""
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise ValueError(f"speed {speed} is out of range; choose one from {MIN_SPEED} to {MAX_SPEED}")


class Tempo:
    """FFmpeg's atempo (WSOLA): n samples come out as exactly round(n / speed), whatever the pieces.

    It waits for 40 to 70 ms of sound at speeds it takes in one filter, up to 200 ms at 4.0.
    """

    def __init__(self, speed: float, sample_rate_hz: int) -> None:
        check_speed(speed)
        self._speed = speed
        self._sample_rate_hz = sample_rate_hz
        self._graph = _open_graph(_filter_speeds(speed), sample_rate_hz)
        self._num_fed = 0
        self._num_given = 0

    def feed(self, samples: Samples) -> Samples:
        if not len(samples):
            return samples
        self._push(samples)
        return self._given(self._pulled())

    def finish(self) -> Samples:
        missing = round(self._num_fed / self._speed) - self._num_given
        if missing <= 0:
            return np.empty(0, np.float32)
        self._push(np.zeros(round(_TAIL_S * self._sample_rate_hz), np.float32))
        self._graph.push(None)
        tail = self._pulled()
        assert len(tail) >= missing, f"atempo gave {len(tail)} samples at its end, expected {missing}"
        return self._given(tail[:missing])

    def _push(self, samples: Samples) -> None:
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")  # (1, n)
        frame.sample_rate = self._sample_rate_hz
        frame.pts = self._num_fed
        self._num_fed += len(samples)
        self._graph.push(frame)

    def _given(self, samples: Samples) -> Samples:
        self._num_given += len(samples)
        return samples

    def _pulled(self) -> Samples:
        return np.concatenate([np.empty(0, np.float32), *self._frames()])

    def _frames(self) -> Iterator[Samples]:
        """All that is ready now, or all there is once the graph was told the end."""
        while True:
            try:
                frame = self._graph.pull()
            except (BlockingIOError, EOFError):
                return
            assert isinstance(frame, av.AudioFrame), frame
            yield frame.to_ndarray()[0]


def _filter_speeds(speed: float) -> list[float]:
    """One filter's speed, or two whose product is `speed`."""
    if _FILTER_MIN <= speed <= _FILTER_MAX:
        return [speed]
    return [sqrt(speed)] * 2


def _open_graph(speeds: list[float], sample_rate_hz: int) -> av.filter.Graph:
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add_abuffer(
        sample_rate=sample_rate_hz, format="flt", layout="mono", time_base=Fraction(1, sample_rate_hz)
    )
    # What atempo gives for the first 40 ms depends on the frames it is fed: equal ones, then.
    frames = graph.add("asetnsamples", f"nb_out_samples={round(_FRAME_S * sample_rate_hz)}:pad=0")
    filters = [graph.add("atempo", repr(speed)) for speed in speeds]
    graph.link_nodes(source, frames, *filters, graph.add("abuffersink")).configure()
    return graph
