"""Sample processing: PCM conversion, resampling, tempo, leading silence.

Each streaming class gives the same result for chunks of any size.
"""

import struct
from fractions import Fraction
from math import sqrt

import av
import av.filter
import numpy as np
import soxr
from numpy.typing import NDArray

from firstword.app.audio.formats import MAX_SPEED, MIN_SPEED, TagName, Tags

Samples = NDArray[np.float32]  # (n,), mono, within ±1
Pcm16 = NDArray[np.int16]  # (n,), mono

FULL_SCALE = 32768  # of ±1.0, as decoders have it: decoded 16-bit audio is reproduced exactly
UNKNOWN_SIZE = 0xFFFFFFFF  # players read such a WAV to its end

_BYTES_PER_SAMPLE = 2
_FMT_BYTES = 16
_INTEGER_PCM = 1
_INFO_TAGS: dict[TagName, bytes] = {"encoded_by": b"ISFT", "artist": b"IART", "comment": b"ICMT"}
# RIFF has no tag for where media came from; Adobe's chunk for XMP, which IPTC's terms are written in, has.
_XMP = (
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:Iptc4xmpExt="http://iptc.org/std/Iptc4xmpExt/2008-02-29/" '
    'Iptc4xmpExt:DigitalSourceType="{source_type}"/></rdf:RDF></x:xmpmeta>'
)


def within_full_scale(samples: Samples) -> Samples:
    """Return a copy clipped to ±1, of any shape. NaN becomes 0, or a resampler would spread it."""
    return np.clip(np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0), -1.0, 1.0)


def to_pcm16(samples: Samples) -> Pcm16:
    """Round to the nearest 16-bit value; clip what is beyond full scale."""
    return np.clip(np.rint(samples * FULL_SCALE), -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)


def wav_header(sample_rate_hz: int, num_samples: int | None, tags: Tags | None = None) -> bytes:
    """Return 44 bytes, and those of the tags: mono, 16 bits. num_samples None: unknown while it streams.

    Raises ValueError for more samples than a WAV can count.
    """
    tags = tags or {}
    info = b"".join(
        _chunk(id, tags[name].encode() + b"\0") for name, id in _INFO_TAGS.items() if name in tags
    )
    if info:
        info = _chunk(b"LIST", b"INFO" + info)
    if "DigitalSourceType" in tags:
        info += _chunk(b"_PMX", _XMP.format(source_type=tags["DigitalSourceType"]).encode())
    size_bytes = UNKNOWN_SIZE if num_samples is None else num_samples * _BYTES_PER_SAMPLE
    riff_bytes = UNKNOWN_SIZE if num_samples is None else 4 + 8 + _FMT_BYTES + len(info) + 8 + size_bytes
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
    riff = struct.pack("<4sI4s", b"RIFF", riff_bytes, b"WAVE")
    return riff + fmt + info + struct.pack("<4sI", b"data", size_bytes)


def _chunk(id: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", id, len(content)) + content + b"\0" * (len(content) % 2)


class Resampler:
    """Convert the sample rate with soxr's HQ, which holds back about 40 ms, or 80 ms down to 8 kHz."""

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
WINDOW_MS = 20
HOP_MS = 10
_LEAD_IN_S = 0.03  # before the sound: consonants begin softly
_MAX_SEARCH_S = 0.6  # a longer silence is intended


class LeadingSilence:
    """Cut the silence before one stream's first sound, which a listener perceives as latency."""

    def __init__(self, sample_rate_hz: int) -> None:
        self._rate_hz = sample_rate_hz
        self._held: list[Samples] | None = []  # None: the first sound has been found

    def trim(self, samples: Samples, is_last: bool) -> Samples:
        """samples (n,) -> (m,), at first possibly empty. is_last: whatever is held back is returned."""
        if self._held is None:
            return samples
        self._held.append(samples)
        held = np.concatenate(self._held)
        num_searched = round(_MAX_SEARCH_S * self._rate_hz)
        onset = first_loud_window(held[:num_searched], self._rate_hz)
        if onset is None and len(held) < num_searched and not is_last:
            return samples[:0]
        self._held = None
        if onset is None:
            return held
        return held[max(0, onset - round(_LEAD_IN_S * self._rate_hz)) :]


def first_loud_window(samples: Samples, sample_rate_hz: int) -> int | None:
    """Return the index in samples (n,) where the first audible window begins; None: there is none."""
    window = sample_rate_hz * WINDOW_MS // 1000
    hop = sample_rate_hz * HOP_MS // 1000
    if len(samples) < window + hop:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(samples, window)[::hop]  # (W, window)
    is_loud = np.square(windows, dtype=np.float64).mean(axis=1) > AUDIBLE**2  # (W,)
    indices = np.flatnonzero(is_loud[:-1] & is_loud[1:])
    return int(indices[0]) * hop if len(indices) else None


# One atempo filter cannot go below 0.5; above 2 it drops samples instead of blending them.
_FILTER_MIN = 0.5
_FILTER_MAX = 2.0
_FRAME_S = 0.01
_TAIL_S = 0.5  # of silence behind the end, longer than all that the filters hold back


def check_speed(speed: float) -> None:
    """Raise ValueError for a speed out of range, NaN included."""
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise ValueError(f"speed {speed} is out of range; choose one from {MIN_SPEED} to {MAX_SPEED}")


class Tempo:
    """Change the speed at the same pitch with FFmpeg's atempo (WSOLA).

    n samples come out as exactly round(n / speed). It holds back 40 to 70 ms of audio at speeds it takes in
    one filter, up to 200 ms at 4.0.
    """

    def __init__(self, speed: float, sample_rate_hz: int) -> None:
        check_speed(speed)
        self._speed = speed
        self._sample_rate_hz = sample_rate_hz
        graph = av.filter.Graph()
        graph.threads = 1
        time_base = Fraction(1, sample_rate_hz)
        source = graph.add_abuffer(
            sample_rate=sample_rate_hz, format="flt", layout="mono", time_base=time_base
        )
        # What atempo returns for the first 40 ms depends on the size of its input frames: make them equal.
        frames = graph.add("asetnsamples", f"nb_out_samples={round(_FRAME_S * sample_rate_hz)}:pad=0")
        is_single = _FILTER_MIN <= speed <= _FILTER_MAX
        speeds = [speed] if is_single else [sqrt(speed)] * 2
        filters = [graph.add("atempo", repr(float(filter_speed))) for filter_speed in speeds]
        graph.link_nodes(source, frames, *filters, graph.add("abuffersink")).configure()
        self._graph = graph
        self._num_fed_samples = 0
        self._num_returned_samples = 0

    def feed(self, samples: Samples) -> Samples:
        if not len(samples):
            return samples
        self._push(samples)
        ready = self._pull()
        self._num_returned_samples += len(ready)
        return ready

    def finish(self) -> Samples:
        missing = round(self._num_fed_samples / self._speed) - self._num_returned_samples
        if missing <= 0:
            return np.empty(0, np.float32)
        self._push(np.zeros(round(_TAIL_S * self._sample_rate_hz), np.float32))
        self._graph.push(None)
        tail = self._pull()
        assert len(tail) >= missing, f"atempo gave {len(tail)} samples at its end, expected {missing}"
        return tail[:missing]

    def _push(self, samples: Samples) -> None:
        frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")  # (1, n)
        frame.sample_rate = self._sample_rate_hz
        frame.pts = self._num_fed_samples
        self._num_fed_samples += len(samples)
        self._graph.push(frame)

    def _pull(self) -> Samples:
        """Return all that is ready now, or all there is once the end was pushed."""
        frames = [np.empty(0, np.float32)]
        while True:
            try:
                frame = self._graph.pull()
            except (BlockingIOError, EOFError):
                return np.concatenate(frames)
            assert isinstance(frame, av.AudioFrame), frame
            frames.append(frame.to_ndarray()[0])
