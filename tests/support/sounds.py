"""Sounds to encode, and decoders independent of ours."""

import io

import av
import numpy as np
import soundfile

from firstword.app.audio.dsp import Samples
from firstword.app.audio.formats import AudioFormat

G711 = {"ulaw": "ULAW", "alaw": "ALAW"}


def tone(duration_s: float, rate_hz: int, frequency_hz: float = 300.0, level: float = 0.4) -> Samples:
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    return (level * np.sin(2 * np.pi * frequency_hz * times_s)).astype(np.float32)


def chirp(duration_s: float, rate_hz: int) -> Samples:
    """Never the same twice: 100 to 3000 Hz, so that a piece lost or out of place shows."""
    times_s = np.arange(round(duration_s * rate_hz)) / rate_hz
    phase = 2 * np.pi * (100 * times_s + 2900 * times_s**2 / (2 * duration_s))
    return (0.4 * np.sin(phase)).astype(np.float32)


def babble(duration_s: float, rate_hz: int = 24_000, seed: int = 0) -> Samples:
    """Noise with the slope of speech, in syllables: what a watermark can hide in."""
    num_samples = round(duration_s * rate_hz)
    noise = np.random.default_rng(seed).standard_normal(num_samples)
    frequencies_hz = np.fft.rfftfreq(num_samples, 1 / rate_hz)
    sloped = np.fft.irfft(np.fft.rfft(noise) / (1 + frequencies_hz / 400), num_samples)
    syllables = np.sin(2 * np.pi * 2 * np.arange(num_samples) / rate_hz) ** 2
    return (0.1 * sloped / sloped.std() * syllables).astype(np.float32)


def dominant_hz(samples: Samples, rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)), 1 << 18))
    return float(spectrum.argmax() * rate_hz / (1 << 18))


def decode(format: AudioFormat, body: bytes, rate_hz: int) -> tuple[Samples, int]:
    """Decode with libsndfile, or with FFmpeg what that cannot. Returns the samples and their rate."""
    if format == "pcm":
        return np.frombuffer(body, "<i2").astype(np.float32) / 32768, rate_hz
    if format == "pcm_f32":
        return np.frombuffer(body, "<f4"), rate_hz
    if format in G711:
        raw = {"format": "RAW", "subtype": G711[format], "samplerate": rate_hz, "channels": 1}
        return soundfile.read(io.BytesIO(body), dtype="float32", **raw)
    if format == "aac" or (format == "flac" and not counts_samples(body)):
        return decode_with_ffmpeg(body)
    return soundfile.read(io.BytesIO(body), dtype="float32")


def counts_samples(flac: bytes) -> bool:
    """Whether a FLAC says its length in its STREAMINFO: 36 bits, 0 for unknown."""
    return int.from_bytes(flac[21:26], "big") & 0xFFFFFFFFF != 0


def decode_with_ffmpeg(body: bytes) -> tuple[Samples, int]:
    with av.open(io.BytesIO(body)) as container:
        rate_hz = container.streams.audio[0].sample_rate
        to_float = av.AudioResampler(format="flt", layout="mono")
        frames = [part for frame in container.decode(audio=0) for part in to_float.resample(frame)]
        return np.concatenate(
            [np.empty(0, np.float32), *(frame.to_ndarray()[0] for frame in frames)]
        ), rate_hz
