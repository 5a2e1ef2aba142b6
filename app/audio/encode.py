"""Encode samples as wav, pcm, mp3, opus, aac, flac, mu-law or A-law: speed, then sample rate, then codec."""

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Literal, Protocol

import av
import numpy as np

from firstword.app.audio.dsp import (
    Pcm16,
    Resampler,
    Samples,
    Tempo,
    check_speed,
    to_pcm16,
    wav_header,
    within_full_scale,
)
from firstword.app.audio.formats import FORMATS, AudioFormat, FileFormat, Tags, sample_rate_of
from firstword.app.audio.watermark import Watermark


def encode_whole(
    format: FileFormat,
    samples: Samples,
    source_rate_hz: int,
    sample_rate_hz: int | None = None,
    speed: float = 1.0,
    tags: Tags | None = None,
    watermark: Watermark | None = None,
) -> bytes:
    """Return a complete file with true sizes. samples (n,) float32. Raises ValueError as `AudioEncoder`."""
    rate_hz = sample_rate_of("aac" if format == "m4a" else format, sample_rate_hz, source_rate_hz)
    plain: AudioFormat = "pcm_f32" if format == "pcm_f32" else "pcm"
    converter = AudioEncoder(plain, source_rate_hz, rate_hz, speed, watermark=watermark)
    pcm = converter.start() + converter.encode(samples) + converter.finish()
    if format in ("pcm", "pcm_f32"):
        return pcm
    if format == "wav":
        return wav_header(rate_hz, converter.num_samples, tags) + pcm
    file = io.BytesIO()
    muxer = _Muxer(format, rate_hz, file, is_streamed=False, tags=tags)
    muxer.write_header()
    muxer.write(np.frombuffer(pcm, "<i2"))
    muxer.finish()
    return file.getvalue()


class Stage(Protocol):
    def feed(self, samples: Samples) -> Samples: ...

    def finish(self) -> Samples:
        """Return the rest, once and last."""
        ...


class AudioEncoder:
    """Encode one stream while it is made: `start` once, `encode` chunks, `flush` in silences, `finish` once.

    What they return, concatenated, is the file; any of them may return no bytes. `close` frees an encoder
    that is left unfinished; without it its threads live until the garbage collector comes.
    """

    def __init__(
        self,
        format: AudioFormat,
        source_rate_hz: int,
        sample_rate_hz: int | None = None,
        speed: float = 1.0,
        tags: Tags | None = None,
        watermark: Watermark | None = None,
    ) -> None:
        """sample_rate_hz None: the source's own, or the one nearest to it that the format carries.

        tags: for the formats with a container: wav, mp3, opus and flac. watermark: to be laid
        into the speech behind its change of speed, which none survives. Raises ValueError for an unknown
        format, and a rate or speed that it cannot have.
        """
        check_speed(speed)
        self.sample_rate_hz = sample_rate_of(format, sample_rate_hz, source_rate_hz)
        self.media_type = FORMATS[format].media_type
        self.num_samples = 0  # given to the codec so far: after speed and rate, less what those hold back
        self._source_rate_hz = source_rate_hz
        self._speed = speed
        self._marker = None if watermark is None else watermark.marker(source_rate_hz)
        self._stages: list[Stage] | None = None  # None: to be opened for the next samples
        self._codec: MuxedCodec | None = None  # None: the samples themselves, behind a header or none
        self._is_float = format == "pcm_f32"
        self._header = wav_header(self.sample_rate_hz, None, tags) if format == "wav" else b""
        if format not in ("pcm", "pcm_f32", "wav"):
            self._codec = MuxedCodec(format, self.sample_rate_hz, tags)
        self._state: Literal["new", "open", "closed"] = "new"

    def start(self) -> bytes:
        """Return the container's header, which is no audio: for wav, flac, opus and tagged mp3."""
        assert self._state == "new", "start came twice, or after close"
        self._state = "open"
        return self._header if self._codec is None else self._codec.start()

    def encode(self, samples: Samples) -> bytes:
        """samples (n,) float32 at the source's rate, n may be 0. NaN becomes 0; beyond ±1 is clipped."""
        assert self._state == "open", "encode before start or after finish"
        assert samples.dtype == np.float32, f"samples of {samples.dtype}, expected float32"
        assert samples.ndim == 1, f"samples of shape {samples.shape}, expected (n,)"
        if self._stages is None:
            self._stages = []
            if self._speed != 1.0:
                self._stages.append(Tempo(self._speed, self._source_rate_hz))
            if self._marker is not None:
                self._stages.append(self._marker)
            if self.sample_rate_hz != self._source_rate_hz:
                self._stages.append(Resampler(self._source_rate_hz, self.sample_rate_hz))
        samples = within_full_scale(samples)
        for stage in self._stages:
            samples = stage.feed(samples)
        return self._coded(samples)

    def flush(self) -> bytes:
        """Return all but what a codec holds back for its current frame; only where the audio has faded out.

        Speed and sample rate start afresh behind it.
        """
        assert self._state == "open", "flush before start or after finish"
        rest = np.empty(0, np.float32)
        for stage in self._stages or ():
            rest = np.concatenate([stage.feed(rest), stage.finish()])
        self._stages = None
        return self._coded(rest)

    def finish(self) -> bytes:
        assert self._state == "open", "finish before start or twice"
        rest = self.flush()
        self._state = "closed"
        return rest if self._codec is None else rest + self._codec.finish()

    def close(self) -> None:
        """Free everything, finished or not; nothing else may be called afterwards."""
        self._state = "closed"
        self._stages = None
        if self._codec is not None:
            self._codec.close()

    def _coded(self, samples: Samples) -> bytes:
        self.num_samples += len(samples)
        if self._is_float:
            return samples.astype("<f4").tobytes()
        pcm = to_pcm16(samples)
        return pcm.astype("<i2").tobytes() if self._codec is None else self._codec.encode(pcm)


class MuxedCodec:
    """A format that FFmpeg encodes and wraps."""

    def __init__(self, format: AudioFormat, sample_rate_hz: int, tags: Tags | None = None) -> None:
        self._written = _ByteSink()
        self._muxer = _Muxer(format, sample_rate_hz, self._written, is_streamed=True, tags=tags)

    def start(self) -> bytes:
        """Return the container's header; before anything else."""
        self._muxer.write_header()
        return self._written.take()

    def encode(self, samples: Pcm16) -> bytes:
        self._muxer.write(samples)
        return self._written.take()

    def finish(self) -> bytes:
        self._muxer.finish()
        return self._written.take()

    def close(self) -> None:
        """Free everything, finished or not; may come more than once."""
        self._muxer.close()


class _Sink(Protocol):
    def write(self, data: bytes, /) -> int: ...


class _ByteSink:
    """Collect what a container writes until `take`. It has no `seek`, so nothing is changed afterwards."""

    def __init__(self) -> None:
        self._data = bytearray()

    def write(self, data: bytes, /) -> int:
        self._data += data
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._data)
        self._data.clear()
        return taken


Options = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _MuxerSettings:
    """What FFmpeg calls a format, with options for low latency."""

    container: str
    codec: str
    sample_format: str  # what the codec takes
    bits_per_s: int | None = None  # None: lossless, or given by the rate
    codec_options: Options = field(default_factory=dict)
    container_options: Options = field(default_factory=dict)
    streamed_options: Options = field(default_factory=dict)  # where the container cannot seek
    tagged_options: Options | None = None  # where it has tags; None: it has no place for them


# A frame of mp3 may not borrow bits from earlier ones (reservoir), which would hold those back.
# A block of FLAC is 24 ms at 24 kHz; by default it would be 170.
_MUXER_SETTINGS: Mapping[FileFormat, _MuxerSettings] = MappingProxyType(
    {
        "mp3": _MuxerSettings(
            "mp3",
            "libmp3lame",
            "s16p",
            64_000,
            codec_options={"reservoir": "0"},
            container_options={"id3v2_version": "0"},
            streamed_options={"write_xing": "0"},
            tagged_options={"id3v2_version": "4"},
        ),
        "opus": _MuxerSettings(
            "ogg",
            "libopus",
            "s16",
            48_000,
            container_options={"page_duration": "20000"},  # microseconds
            tagged_options={},
        ),
        "aac": _MuxerSettings("adts", "aac", "fltp", 64_000),
        "m4a": _MuxerSettings("ipod", "aac", "fltp", 64_000, tagged_options={}),
        "flac": _MuxerSettings(
            "flac",
            "flac",
            "s16",
            codec_options={"frame_size": "576"},
            container_options={"metadata_header_padding": "0"},
            tagged_options={},
        ),
        "ulaw": _MuxerSettings("mulaw", "pcm_mulaw", "s16"),
        "alaw": _MuxerSettings("alaw", "pcm_alaw", "s16"),
    }
)
# Every packet leaves at once; no random serial number and no library version in the bytes.
_EVERY_CONTAINER: Options = MappingProxyType({"flush_packets": "1", "fflags": "+bitexact"})


class _Muxer:
    """One audio track in one container, written to a sink."""

    def __init__(
        self,
        format: FileFormat,
        sample_rate_hz: int,
        sink: _Sink,
        is_streamed: bool,
        tags: Tags | None = None,
    ) -> None:
        settings = _MUXER_SETTINGS[format]
        options = {**_EVERY_CONTAINER, **settings.container_options}
        if is_streamed:
            options |= settings.streamed_options
        has_tags = tags is not None and settings.tagged_options is not None
        if has_tags:
            options |= settings.tagged_options or {}
        container = av.open(sink, "w", format=settings.container, container_options=options)
        track = container.add_stream(
            settings.codec, rate=sample_rate_hz, options=dict(settings.codec_options), layout="mono"
        )
        assert isinstance(track, av.AudioStream), track
        track.format = av.AudioFormat(settings.sample_format)
        track.codec_context.thread_count = 1
        if has_tags:
            container.metadata.update((tags or {}).items())
        if settings.bits_per_s is not None:
            track.bit_rate = settings.bits_per_s
        self._open: tuple[av.container.OutputContainer, av.AudioStream] | None = (container, track)
        self._sample_rate_hz = sample_rate_hz
        self._num_samples = 0

    def write_header(self) -> None:
        container, _ = self._opened
        container.start_encoding()

    def write(self, samples: Pcm16) -> None:
        if not len(samples):
            return
        frame = av.AudioFrame.from_ndarray(samples[None], format="s16", layout="mono")  # (1, n)
        frame.sample_rate = self._sample_rate_hz
        frame.time_base = Fraction(1, self._sample_rate_hz)
        frame.pts = self._num_samples
        self._num_samples += len(samples)
        container, track = self._opened
        container.mux(track.encode(frame))

    def finish(self) -> None:
        container, track = self._opened
        container.mux(track.encode(None))
        self.close()

    def close(self) -> None:
        """End the codec's threads, which it does when container and track are closed and dropped."""
        if self._open is not None:
            container, _ = self._open
            self._open = None
            container.close()

    @property
    def _opened(self) -> tuple[av.container.OutputContainer, av.AudioStream]:
        assert self._open is not None, "the muxer is closed"
        return self._open
