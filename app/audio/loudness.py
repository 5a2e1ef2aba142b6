"""Loudness of speech by ITU-R BS.1770, as FFmpeg's filter ebur128 measures it."""

from fractions import Fraction

import av
import av.filter

from firstword.app.audio.dsp import Samples

_BLOCK_S = 0.1
_SILENCE_LUFS = -70.0  # the gate of BS.1770: what is quieter does not count


def integrated_lufs(samples: Samples, sample_rate_hz: int) -> float | None:
    """Return the integrated loudness of mono samples (n,) within ±1; None for silence or under 0.4 s."""
    graph = av.filter.Graph()
    time_base = Fraction(1, sample_rate_hz)
    source = graph.add_abuffer(format="flt", sample_rate=sample_rate_hz, layout="mono", time_base=time_base)
    meter = graph.add("ebur128", "metadata=1:framelog=quiet")
    sink = graph.add("abuffersink")
    source.link_to(meter)
    meter.link_to(sink)
    graph.configure()
    lufs = _SILENCE_LUFS
    size = round(_BLOCK_S * sample_rate_hz)
    for start in range(0, len(samples), size):
        frame = av.AudioFrame.from_ndarray(samples[None, start : start + size], format="flt", layout="mono")
        frame.sample_rate, frame.time_base, frame.pts = sample_rate_hz, time_base, start
        source.push(frame)
        while True:
            try:
                measured = sink.pull()
            except (av.BlockingIOError, av.EOFError):
                break
            lufs = float(measured.metadata.get("lavfi.r128.I", _SILENCE_LUFS))
    return lufs if lufs > _SILENCE_LUFS else None
