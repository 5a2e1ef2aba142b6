"""Recordings made fit for the extractors, and acoustic features: log-mel spectrograms and Kaldi's filterbank.

The prompt mel is what the flow continues; whisper's goes to the speech tokenizer, the filterbank to the
speaker encoder.
"""

import math
from dataclasses import dataclass

import kaldi_native_fbank
import numpy as np
import numpy.typing as npt
import soxr
import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.config import MelConfig


class FrontendError(ValueError):
    """A file of the front end is missing, broken or not what was published; the message names it."""


class RecordingError(FrontendError):
    """A recording cannot serve as a prompt or a source; the message says why and what to do."""


class ModeError(FrontendError):
    """A model family or a speaker cannot serve the requested mode."""


FBANK_SAMPLE_RATE_HZ = 16_000
NUM_FBANK_BINS = 80
FRAME_SAMPLES = FBANK_SAMPLE_RATE_HZ * 25 // 1000  # 400


def kaldi_fbank(samples: Tensor) -> Tensor:
    """samples (n,), float32 within ±1 at 16 kHz, n >= 400 -> natural log energies (T, 80), 100 a second.

    Kaldi's defaults without dither: 25 ms frames every 10 ms, edges snipped, povey window, pre-emphasis 0.97.
    """
    assert samples.ndim == 1, f"samples {tuple(samples.shape)}"
    assert len(samples) >= FRAME_SAMPLES, f"{len(samples)} samples"
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = FBANK_SAMPLE_RATE_HZ
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "povey"
    options.frame_opts.preemph_coeff = 0.97
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = NUM_FBANK_BINS
    options.mel_opts.low_freq = 20.0
    options.mel_opts.high_freq = FBANK_SAMPLE_RATE_HZ / 2
    fbank = kaldi_native_fbank.OnlineFbank(options)
    fbank.accept_waveform(FBANK_SAMPLE_RATE_HZ, samples.tolist())
    fbank.input_finished()
    frames = [fbank.get_frame(index) for index in range(fbank.num_frames_ready)]
    return torch.from_numpy(np.stack(frames))  # (T, 80)


def without_mean(features: Tensor) -> Tensor:
    """Return features (T, C) with each channel's mean over time subtracted."""
    return features - features.mean(dim=0)


MIN_SAMPLE_RATE_HZ = 16_000
TRIM_FRAME_MS = 20
TRIM_MARGIN_MS = 100
TRIM_RANGE_DB = 40.0  # what is this far below the loudest frame is not speech
SILENCE_DB = -60.0  # nor is anything below this level, relative to full scale


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """Finite mono float32 samples (n,), n > 0, within about ±1."""

    samples: npt.NDArray[np.float32]
    sample_rate_hz: int

    @classmethod
    def from_channels(cls, samples: npt.NDArray[np.float32], sample_rate_hz: int) -> "Recording":
        """samples (n,) or (channels, n), the channels are averaged.

        Raises RecordingError for a sample rate below 16 kHz, no samples, and NaN or infinity.
        """
        assert samples.dtype == np.float32, f"samples of {samples.dtype}, expected float32"
        assert samples.ndim in (1, 2), f"samples of shape {samples.shape}, expected (n,) or (channels, n)"
        if sample_rate_hz < MIN_SAMPLE_RATE_HZ:
            raise RecordingError(
                f"recorded at {sample_rate_hz} Hz; record at {MIN_SAMPLE_RATE_HZ} Hz or more"
            )
        if samples.size == 0:
            raise RecordingError("the recording is empty")
        if not np.isfinite(samples).all():
            raise RecordingError("the recording holds samples that are not numbers; encode it again")
        mono = samples if samples.ndim == 1 else samples.mean(axis=0)
        return cls(mono, sample_rate_hz)

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.sample_rate_hz

    def trimmed(self) -> "Recording":
        """Cut the silence at both ends; silence in between stays.

        The level of a frame of 20 ms is its RMS without its mean. Frames within 40 dB of the loudest and
        above -60 dBFS are speech. What lies more than 100 ms before the first or behind the last is cut.
        Raises RecordingError where no frame is speech.
        """
        frame_samples = self.sample_rate_hz * TRIM_FRAME_MS // 1000
        margin_samples = self.sample_rate_hz * TRIM_MARGIN_MS // 1000
        levels_db = 10 * np.log10(np.maximum(frame_powers(self.samples, frame_samples), 1e-20))
        loudest_db = float(levels_db.max())
        if loudest_db < SILENCE_DB:
            raise RecordingError(f"the recording is silent: nowhere louder than {SILENCE_DB:.0f} dBFS")
        (speech,) = np.nonzero(levels_db >= max(loudest_db - TRIM_RANGE_DB, SILENCE_DB))
        start = max(0, int(speech[0]) * frame_samples - margin_samples)
        stop = (int(speech[-1]) + 1) * frame_samples + margin_samples
        return Recording(self.samples[start:stop], self.sample_rate_hz)

    def resampled(self, sample_rate_hz: int) -> Tensor:
        """-> (n * sample_rate_hz / self.sample_rate_hz,) float32, by soxr's HQ where the rates differ."""
        samples = self.samples
        if sample_rate_hz != self.sample_rate_hz:
            samples = soxr.resample(samples, self.sample_rate_hz, sample_rate_hz, quality="HQ")
        return torch.from_numpy(samples.copy())  # never the caller's memory


def frame_powers(samples: npt.NDArray[np.float32], frame_samples: int) -> npt.NDArray[np.float64]:
    """samples (n,) -> the variance of each frame (ceil(n / frame_samples),); the last may be shorter."""
    starts = np.arange(0, len(samples), frame_samples)
    counts = np.diff(starts, append=len(samples))
    wide = samples.astype(np.float64)
    means = np.add.reduceat(wide, starts) / counts
    deviations = wide - means.repeat(counts)
    powers: npt.NDArray[np.float64] = np.add.reduceat(deviations**2, starts) / counts
    return powers


LEAST_MEL = 1e-5  # before the logarithm: what silence has
LINEAR_HZ_PER_MEL = 200 / 3  # Slaney's scale: linear below 1000 Hz,
BREAK_HZ = 1000.0
BREAK_MEL = BREAK_HZ / LINEAR_HZ_PER_MEL  # 15
LOG_STEP = math.log(6.4) / 27  # and 27 mel for each factor of 6.4 above

WHISPER_SAMPLE_RATE_HZ = 16_000
WHISPER_N_FFT = 400
WHISPER_HOP_SAMPLES = 160
WHISPER_FRAME_RATE_HZ = WHISPER_SAMPLE_RATE_HZ // WHISPER_HOP_SAMPLES  # 100
WHISPER_NUM_MELS = 128
WHISPER_RANGE = 8.0  # decades below a recording's loudest bin


class MelExtractor:
    """The prompt mel, as Matcha's `mel_spectrogram` computes it. Read-only, so threads may share one.

    Each extractor has its own filters: published code caches them under `fmax` alone, and two
    configurations in one process get each other's.
    """

    def __init__(self, config: MelConfig, device: torch.device | str = "cpu"):
        self.config = config
        self._filters = slaney_filterbank(
            config.sample_rate_hz, config.n_fft, config.num_mels, config.fmin_hz, config.highest_hz
        ).to(device)
        self._window = torch.hann_window(config.win_samples, device=device)

    def __call__(self, samples: Tensor) -> Tensor:
        """samples (n,) or (B, n), float32 at the config's rate -> natural log-mel (80, T) or (B, 80, T).

        T = n // hop; n must exceed (n_fft - hop) / 2, the reflected margin.
        """
        config = self.config
        margin = (config.n_fft - config.hop_samples) // 2  # samples
        assert samples.shape[-1] > margin, f"{samples.shape[-1]} samples, expected more than {margin}"
        batch = samples.reshape(-1, samples.shape[-1])  # (B, n)
        spectrum = torch.stft(
            F.pad(batch, (margin, margin), mode="reflect"),
            config.n_fft,
            config.hop_samples,
            config.win_samples,
            self._window,
            center=False,
            return_complex=True,
        )  # (B, n_fft / 2 + 1, T)
        magnitude = (spectrum.real**2 + spectrum.imag**2 + 1e-9).sqrt()
        mel = (self._filters @ magnitude).clamp_min(LEAST_MEL).log()  # (B, 80, T)
        return mel.reshape(*samples.shape[:-1], *mel.shape[-2:])


class WhisperMelExtractor:
    """Whisper's log-mel with 128 bins, for the speech tokenizers. Read-only, so threads may share one."""

    def __init__(self) -> None:
        nyquist_hz = WHISPER_SAMPLE_RATE_HZ / 2
        self._filters = slaney_filterbank(
            WHISPER_SAMPLE_RATE_HZ, WHISPER_N_FFT, WHISPER_NUM_MELS, 0.0, nyquist_hz
        )
        self._window = torch.hann_window(WHISPER_N_FFT)

    def __call__(self, samples: Tensor) -> Tensor:
        """samples (n,), float32 at 16 kHz, n > 200 -> (128, n // 160), within 2 of its own maximum."""
        assert samples.ndim == 1, f"samples {tuple(samples.shape)}"
        assert len(samples) > WHISPER_N_FFT // 2, f"{len(samples)} samples"
        spectrum = torch.stft(
            samples,
            WHISPER_N_FFT,
            WHISPER_HOP_SAMPLES,
            window=self._window,
            center=True,
            pad_mode="reflect",
            return_complex=True,
        )  # (201, n // 160 + 1)
        power = spectrum[:, :-1].abs() ** 2
        log_mel = (self._filters @ power).clamp_min(1e-10).log10()  # (128, n // 160)
        log_mel = torch.maximum(log_mel, log_mel.max() - WHISPER_RANGE)
        return (log_mel + 4) / 4


def slaney_filterbank(
    sample_rate_hz: int, n_fft: int, num_mels: int, fmin_hz: float, fmax_hz: float
) -> Tensor:
    """Triangles equally spaced on Slaney's mel scale, each of area 1 (librosa's `mel`, norm slaney).

    -> (num_mels, n_fft / 2 + 1) float32
    """
    bins_hz = torch.linspace(0, sample_rate_hz / 2, n_fft // 2 + 1, dtype=torch.float64)
    edges_hz = _edges_hz(num_mels, fmin_hz, fmax_hz)
    slopes = edges_hz[:, None] - bins_hz  # (num_mels + 2, bins)
    widths_hz = edges_hz.diff()[:, None]  # (num_mels + 1, 1)
    rising = -slopes[:-2] / widths_hz[:-1]  # (num_mels, bins)
    falling = slopes[2:] / widths_hz[1:]
    triangles = torch.minimum(rising, falling).clamp_min(0)
    return (triangles * 2 / (edges_hz[2:] - edges_hz[:-2])[:, None]).float()


def mel_centers_hz(config: MelConfig) -> Tensor:
    """Where the triangles of a log-mel have their tops, (num_mels,) float64."""
    return _edges_hz(config.num_mels, config.fmin_hz, config.highest_hz)[1:-1]


def _edges_hz(num_mels: int, fmin_hz: float, fmax_hz: float) -> Tensor:
    """Of the triangles: (num_mels + 2,) float64."""
    return _to_hz(torch.linspace(_to_mel(fmin_hz), _to_mel(fmax_hz), num_mels + 2, dtype=torch.float64))


def _to_mel(hz: float) -> float:
    if hz < BREAK_HZ:
        return hz / LINEAR_HZ_PER_MEL
    return BREAK_MEL + math.log(hz / BREAK_HZ) / LOG_STEP


def _to_hz(mel: Tensor) -> Tensor:
    above = BREAK_HZ * torch.exp(LOG_STEP * (mel - BREAK_MEL))
    return torch.where(mel < BREAK_MEL, mel * LINEAR_HZ_PER_MEL, above)
