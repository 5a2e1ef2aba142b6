"""Samples to the bytes of one stream: speed, then sample rate, then codec."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from app.audio.formats import AudioFormat, format_info, sample_rate_of
from app.audio.muxed import MuxedCodec, mux_whole
from app.audio.pcm import Pcm16, PcmCodec, Samples, to_pcm16, wav_header, within_full_scale
from app.audio.resample import Resampler
from app.audio.tempo import Tempo, check_speed


class Stage(Protocol):
    def feed(self, samples: Samples) -> Samples: ...

    def finish(self) -> Samples:
        """The rest, once and last."""
        ...


class Codec(Protocol):
    def start(self) -> bytes:
        """The container's header; before anything else."""
        ...

    def encode(self, samples: Pcm16) -> bytes: ...

    def finish(self) -> bytes: ...


class SampleStages:
    """Samples through every stage in turn; none at all leaves them as they are, within ±1."""

    def __init__(self, open_stages: Callable[[], list[Stage]]) -> None:
        self._open_stages = open_stages
        self._stages = open_stages()

    def feed(self, samples: Samples) -> Pcm16:
        assert samples.dtype == np.float32, f"samples of {samples.dtype}, expected float32"
        assert samples.ndim == 1, f"samples of shape {samples.shape}, expected (n,)"
        samples = within_full_scale(samples)
        for stage in self._stages:
            samples = stage.feed(samples)
        return to_pcm16(samples)

    def finish(self) -> Pcm16:
        rest = np.empty(0, np.float32)
        for stage in self._stages:
            rest = np.concatenate([stage.feed(rest), stage.finish()])
        return to_pcm16(rest)

    def flush(self) -> Pcm16:
        """What they hold back; what comes next begins anew, so this belongs where the sound has faded out."""
        rest = self.finish()
        self._stages = self._open_stages()
        return rest


class AudioEncoder:
    """One stream's encoder: `start` once, `encode` for each piece, `flush` in silences, `finish` once.

    What they return, one behind the other, is the file. Any of them may return no bytes. Dropping it
    unfinished frees it.
    """

    def __init__(self, format: AudioFormat, sample_rate_hz: int, stages: SampleStages, codec: Codec) -> None:
        self.media_type = format_info(format).media_type
        self.sample_rate_hz = sample_rate_hz
        self.num_samples = 0  # given to the codec so far: after speed and rate, less what those hold back
        self._stages = stages
        self._codec = codec
        self._is_started = False
        self._is_finished = False

    def start(self) -> bytes:
        """The container's header, which is no audio: empty for pcm, mp3, aac, ulaw and alaw."""
        assert not self._is_started, "start came twice"
        self._is_started = True
        return self._codec.start()

    def encode(self, samples: Samples) -> bytes:
        """samples (n,) float32 at the source's rate, n may be 0. NaN is silence; beyond ±1 is clipped."""
        assert self._is_open, "encode before start or after finish"
        return self._coded(self._stages.feed(samples))

    def flush(self) -> bytes:
        """All but what a codec holds back for the frame that it has begun: see `SampleStages.flush`."""
        assert self._is_open, "flush before start or after finish"
        return self._coded(self._stages.flush())

    def finish(self) -> bytes:
        assert self._is_open, "finish before start or twice"
        self._is_finished = True
        return self._coded(self._stages.finish()) + self._codec.finish()

    def _coded(self, samples: Pcm16) -> bytes:
        self.num_samples += len(samples)
        return self._codec.encode(samples)

    @property
    def _is_open(self) -> bool:
        return self._is_started and not self._is_finished


def open_encoder(
    format: AudioFormat,
    source_rate_hz: int,
    sample_rate_hz: int | None = None,
    speed: float = 1.0,
    num_samples: int | None = None,
) -> AudioEncoder:
    """An encoder whose bytes leave as the samples come.

    sample_rate_hz None: the source's own, or the one nearest to it that the format carries.
    num_samples: how many will be in the body, after speed and rate, where that is known; a WAV's header
    says it. Raises ValueError for an unknown format, and a rate or speed that it cannot have.
    """
    rate_hz = sample_rate_of(format, sample_rate_hz, source_rate_hz)
    stages = _open_stages(source_rate_hz, rate_hz, speed)
    return AudioEncoder(format, rate_hz, stages, _open_codec(format, rate_hz, num_samples))


def encode_whole(
    format: AudioFormat,
    samples: Samples,
    source_rate_hz: int,
    sample_rate_hz: int | None = None,
    speed: float = 1.0,
) -> bytes:
    """A complete body with true sizes. samples (n,) float32. Raises ValueError as `open_encoder` does."""
    rate_hz = sample_rate_of(format, sample_rate_hz, source_rate_hz)
    stages = _open_stages(source_rate_hz, rate_hz, speed)
    pcm = np.concatenate([stages.feed(samples), stages.finish()])
    if format in ("wav", "pcm"):
        codec = _open_codec(format, rate_hz, len(pcm))
        return codec.start() + codec.encode(pcm) + codec.finish()
    return mux_whole(format, rate_hz, pcm)


def _open_stages(source_rate_hz: int, sample_rate_hz: int, speed: float) -> SampleStages:
    check_speed(speed)

    def opened() -> list[Stage]:
        stages: list[Stage] = []
        if speed != 1.0:
            stages.append(Tempo(speed, source_rate_hz))
        if sample_rate_hz != source_rate_hz:
            stages.append(Resampler(source_rate_hz, sample_rate_hz))
        return stages

    return SampleStages(opened)


def _open_codec(format: AudioFormat, sample_rate_hz: int, num_samples: int | None) -> Codec:
    if format == "pcm":
        return PcmCodec()
    if format == "wav":
        return PcmCodec(wav_header(sample_rate_hz, num_samples))
    return MuxedCodec(format, sample_rate_hz)
