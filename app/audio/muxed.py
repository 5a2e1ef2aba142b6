"""The formats that FFmpeg encodes and wraps: mp3, Ogg Opus, AAC, FLAC and G.711."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Protocol

import av

from app.audio.formats import AudioFormat
from app.audio.pcm import Pcm16

Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How FFmpeg calls a format, set for low latency."""

    container: str
    codec: str
    sample_format: str  # what the codec takes
    bits_per_s: int | None = None  # None: lossless, or given by the rate
    codec_options: Options = field(default_factory=dict)
    container_options: Options = field(default_factory=dict)
    streamed_options: Options = field(default_factory=dict)  # where the container cannot go back


# A frame of mp3 may not borrow room from earlier ones (reservoir), which would hold those back.
# A block of FLAC is 24 ms at 24 kHz; by default it would be 170.
_RECIPES: Mapping[AudioFormat, _Recipe] = MappingProxyType(
    {
        "mp3": _Recipe(
            "mp3",
            "libmp3lame",
            "s16p",
            64_000,
            codec_options={"reservoir": "0"},
            container_options={"id3v2_version": "0"},
            streamed_options={"write_xing": "0"},
        ),
        "opus": _Recipe(
            "ogg",
            "libopus",
            "s16",
            48_000,
            container_options={"page_duration": "20000"},  # microseconds
        ),
        "aac": _Recipe("adts", "aac", "fltp", 64_000),
        "flac": _Recipe(
            "flac",
            "flac",
            "s16",
            codec_options={"frame_size": "576"},
            container_options={"metadata_header_padding": "0"},
        ),
        "ulaw": _Recipe("mulaw", "pcm_mulaw", "s16"),
        "alaw": _Recipe("alaw", "pcm_alaw", "s16"),
    }
)
# Every packet leaves at once; no random serial number and no library's version in the bytes.
_EVERY_CONTAINER: Options = MappingProxyType({"flush_packets": "1", "fflags": "+bitexact"})


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


class _Outbox:
    """What a container wrote since the last look. It cannot seek, so nothing is changed afterwards."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, data: bytes, /) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


class _Muxer:
    """One track of audio in one container, written to a sink."""

    def __init__(self, format: AudioFormat, sample_rate_hz: int, sink: _Sink, is_streamed: bool) -> None:
        recipe = _RECIPES[format]
        options = {**_EVERY_CONTAINER, **recipe.container_options}
        if is_streamed:
            options |= recipe.streamed_options
        self._container = av.open(sink, "w", format=recipe.container, container_options=options)
        track = self._container.add_stream(
            recipe.codec, rate=sample_rate_hz, options=dict(recipe.codec_options), layout="mono"
        )
        assert isinstance(track, av.AudioStream), track
        self._track = track
        self._track.format = av.AudioFormat(recipe.sample_format)
        self._track.codec_context.thread_count = 1
        if recipe.bits_per_s is not None:
            self._track.bit_rate = recipe.bits_per_s
        self._sample_rate_hz = sample_rate_hz
        self._num_samples = 0

    def write_header(self) -> None:
        self._container.start_encoding()

    def write(self, samples: Pcm16) -> None:
        if not len(samples):
            return
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")  # (1, n)
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_samples
        self._num_samples += len(samples)
        self._container.mux(self._track.encode(frame))

    def close(self) -> None:
        self._container.mux(self._track.encode(None))
        self._container.close()


class MuxedCodec:
    """Encodes while the samples come. One that is dropped unfinished writes nothing more."""

    def __init__(self, format: AudioFormat, sample_rate_hz: int) -> None:
        self._outbox = _Outbox()
        self._muxer = _Muxer(format, sample_rate_hz, self._outbox, is_streamed=True)

    def start(self) -> bytes:
        self._muxer.write_header()
        return self._outbox.take()

    def encode(self, samples: Pcm16) -> bytes:
        self._muxer.write(samples)
        return self._outbox.take()

    def finish(self) -> bytes:
        self._muxer.close()
        return self._outbox.take()


def mux_whole(format: AudioFormat, sample_rate_hz: int, samples: Pcm16) -> bytes:
    """A complete file: its header says how long it is, where the format has a place for that."""
    file = io.BytesIO()
    muxer = _Muxer(format, sample_rate_hz, file, is_streamed=False)
    muxer.write_header()
    muxer.write(samples)
    muxer.close()
    return file.getvalue()
