"""Faster or slower speech of the same pitch, while the samples come."""

from collections.abc import Iterator
from fractions import Fraction
from math import sqrt

import av
import av.filter
import numpy as np

from app.audio.pcm import Samples
from app.audio.speeds import MAX_SPEED, MIN_SPEED

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
