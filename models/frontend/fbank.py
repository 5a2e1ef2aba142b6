"""Kaldi's filterbank features, what the speaker encoder hears."""

import kaldi_native_fbank
import numpy as np
import torch
from torch import Tensor

FBANK_SAMPLE_RATE_HZ = 16_000
NUM_FBANK_BINS = 80
FRAME_SAMPLES = FBANK_SAMPLE_RATE_HZ * 25 // 1000  # 400


def kaldi_fbank(samples: Tensor) -> Tensor:
    """samples (n,), float32 within ±1 at 16 kHz, n >= 400 -> natural log energies (T, 80), 100 a second.

    Kaldi's defaults without dither: 25 ms frames every 10 ms, edges snipped, povey window, pre-emphasis 0.97.
    """
    assert samples.ndim == 1, f"samples {tuple(samples.shape)}"
    assert len(samples) >= FRAME_SAMPLES, f"{len(samples)} samples"
    fbank = kaldi_native_fbank.OnlineFbank(_options())
    fbank.accept_waveform(FBANK_SAMPLE_RATE_HZ, samples.tolist())
    fbank.input_finished()
    frames = [fbank.get_frame(index) for index in range(fbank.num_frames_ready)]
    return torch.from_numpy(np.stack(frames))  # (T, 80)


def without_mean(features: Tensor) -> Tensor:
    """features (T, C) -> the same, each channel with mean zero over time."""
    return features - features.mean(dim=0)


def _options() -> kaldi_native_fbank.FbankOptions:
    options = kaldi_native_fbank.FbankOptions()
    options.frame_opts.samp_freq = FBANK_SAMPLE_RATE_HZ
    options.frame_opts.dither = 0.0
    options.frame_opts.window_type = "povey"
    options.frame_opts.preemph_coeff = 0.97
    options.frame_opts.snip_edges = True
    options.mel_opts.num_bins = NUM_FBANK_BINS
    options.mel_opts.low_freq = 20.0
    options.mel_opts.high_freq = FBANK_SAMPLE_RATE_HZ / 2
    return options
