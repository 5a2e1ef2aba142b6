"""Log-mel spectrograms: the prompt mel that the flow continues, and whisper's for the speech tokenizer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from models.config import MelConfig

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
        nyquist_hz = config.sample_rate_hz / 2
        fmax_hz = nyquist_hz if config.fmax_hz is None else config.fmax_hz
        self._filters = slaney_filterbank(
            config.sample_rate_hz, config.n_fft, config.num_mels, config.fmin_hz, fmax_hz
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
        mel = (self._filters @ magnitude).clamp_min(1e-5).log()  # (B, 80, T)
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
    edges_mel = torch.linspace(_to_mel(fmin_hz), _to_mel(fmax_hz), num_mels + 2, dtype=torch.float64)
    edges_hz = _to_hz(edges_mel)
    slopes = edges_hz[:, None] - bins_hz  # (num_mels + 2, bins)
    widths_hz = edges_hz.diff()[:, None]  # (num_mels + 1, 1)
    rising = -slopes[:-2] / widths_hz[:-1]  # (num_mels, bins)
    falling = slopes[2:] / widths_hz[1:]
    triangles = torch.minimum(rising, falling).clamp_min(0)
    return (triangles * 2 / (edges_hz[2:] - edges_hz[:-2])[:, None]).float()


def _to_mel(hz: float) -> float:
    if hz < BREAK_HZ:
        return hz / LINEAR_HZ_PER_MEL
    return BREAK_MEL + math.log(hz / BREAK_HZ) / LOG_STEP


def _to_hz(mel: Tensor) -> Tensor:
    above = BREAK_HZ * torch.exp(LOG_STEP * (mel - BREAK_MEL))
    return torch.where(mel < BREAK_MEL, mel * LINEAR_HZ_PER_MEL, above)
