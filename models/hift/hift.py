"""HiFT: F0, harmonic source and generator of one checkpoint, over a whole utterance.

`models.hift.streaming` runs the same parts piece by piece.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from models.config import HiFTConfig
from models.hift.f0 import LOOKAHEAD_FRAMES, F0Predictor
from models.hift.generator import Generator
from models.hift.left_context import ZeroContext
from models.hift.source import HarmonicSource
from models.hift.stft import ShortTimeFourier

Generate = Callable[[Tensor, Tensor], Tensor]
"""Mel (B, M, T) and the source's spectrum (B, n_fft + 2, U T + 1) of a whole piece -> spectrum like that."""


class HiFT(nn.Module):
    """Weights and constants only. `noise` (N, tones): the fixed noise of a causal HiFT, set at load."""

    def __init__(self, config: HiFTConfig):
        super().__init__()
        self.config = config
        self.f0 = F0Predictor(config.num_mels, config.f0_channels, config.is_causal)
        self.source = HarmonicSource(config)
        self.generator = Generator(config)
        self.stft = ShortTimeFourier(config.istft_n_fft)
        self.noise: Tensor | None = None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "HiFT":
        """Moves and casts as any module does, but F0 and source stay whole: they are integrated."""
        for part in (self.f0, self.source):
            part._apply(lambda tensor: tensor.to(fn(tensor).device))
        self.f0.double()
        self.generator._apply(fn)
        device = self.source.linear.weight.device
        self.stft = self.stft.to(device)
        self.noise = None if self.noise is None else self.noise.to(device)
        return self

    def predict_f0(self, mel: Tensor) -> Tensor:
        """mel (B, M, T) -> F0 in Hz (B, T) float32, nothing following the last frame."""
        padded = F.pad(mel, (0, LOOKAHEAD_FRAMES)) if self.config.is_causal else mel
        return self.f0(padded, ZeroContext()).float()

    def fixed_noise(self, start: int, stop: int) -> Tensor:
        """Samples [start, stop) of the noise table, which starts again at its end: (stop - start, tones)."""
        assert self.noise is not None, "a causal HiFT has no noise table before it is loaded"
        if stop <= len(self.noise):
            return self.noise[start:stop]
        return self.noise[torch.arange(start, stop, device=self.noise.device) % len(self.noise)]

    def decode(self, mel: Tensor, source: Tensor, generate: Generate | None = None) -> Tensor:
        """mel (B, M, T), source (B, T L) -> samples (B, T L) float32. generate: not the own generator."""
        config = self.config
        spectrum = self.stft.analyse(self.stft.centred(source))
        padded = F.pad(mel, (0, config.lookahead_frames))
        made = (generate or self._generate)(padded, spectrum)
        samples = self.waveform(made, source.shape[-1])
        return samples.clamp(-config.audio_limit, config.audio_limit)

    def _generate(self, mel: Tensor, source_spectrum: Tensor) -> Tensor:
        dtype = self.generator.conv_pre.weight.dtype
        return self.generator(mel.to(dtype), source_spectrum.to(dtype), ZeroContext())

    def waveform(self, spectrum: Tensor, num_samples: int) -> Tensor:
        """spectrum (B, n_fft + 2, U T + 1) of a whole utterance -> (B, num_samples), not yet limited."""
        samples, envelope = self.stft.overlap_add(spectrum)
        edge = self.config.istft_n_fft // 2
        inner = slice(edge, edge + num_samples)
        return samples[:, inner] / envelope[inner]
