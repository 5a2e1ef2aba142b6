"""The harmonic source: sines of F0 and its overtones where voiced, noise everywhere.

Phases are kept in cycles, in float64, and carried from call to call: a stream's phase never jumps,
and does not lose precision with time as the published float32 sum does.
"""

import math

import torch
from torch import Tensor, nn

from models.config import HiFTConfig


class HarmonicSource(nn.Module):
    def __init__(self, config: HiFTConfig):
        super().__init__()
        self._config = config
        self.num_tones = config.num_harmonics + 1
        self.linear = nn.Linear(self.num_tones, 1)
        # How the published code tells its two generators apart.
        self._is_running_sum = not config.is_causal and config.sample_rate_hz == 22_050

    def initial_phases(self, generator: torch.Generator) -> Tensor | None:
        """Where an utterance begins, in cycles: random overtones for CosyVoice 1; None: nowhere special."""
        if not self._is_running_sum:
            return None
        phases = torch.rand(self.num_tones, generator=generator, dtype=torch.float64) - 0.5
        phases[0] = 0.0
        return phases

    def forward(
        self, f0: Tensor, noise: Tensor, carry: Tensor | None, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """f0 (B, T) Hz, noise (B, T L, tones), carry (B, tones) -> source (B, T L), carries (B, T, tones).

        L samples a frame; the source is float32. `carries[:, i]`: the phases, in cycles, at the end of
        frame i, to go on from. carry None: the utterance starts here. is_last: nothing follows frame T - 1.
        """
        config = self._config
        tones = torch.arange(1, self.num_tones + 1, device=f0.device, dtype=torch.float64)
        advance = (
            f0.double()[..., None] * tones / config.sample_rate_hz
        ) % 1.0  # (B, T, tones), cycles a sample
        phase, carries = self._phase(advance, carry, is_last)
        voiced = (f0 > config.voiced_threshold_hz).float()[..., None]
        voiced = voiced.repeat_interleave(config.samples_per_frame, dim=1)  # (B, T L, 1)
        sines = torch.sin(2 * math.pi * (phase % 1.0)).float() * config.sine_amplitude
        noise_amplitude = torch.where(voiced > 0, config.noise_amplitude, config.sine_amplitude / 3)
        tones_and_noise = sines * voiced + noise_amplitude * noise
        return torch.tanh(self.linear(tones_and_noise)[..., 0]), carries

    def _phase(self, advance: Tensor, carry: Tensor | None, is_last: bool) -> tuple[Tensor, Tensor]:
        """advance (B, T, tones) cycles a sample -> phase (B, T L, tones) cycles, carries (B, T, tones)."""
        if self._config.is_causal:
            return self._staircase(advance, carry)
        if self._is_running_sum:
            return self._running_sum(advance, carry)
        return self._interpolated(advance, carry, is_last)

    def _staircase(self, advance: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor]:
        """CosyVoice 3: the phase stands still within a frame, at the frame's end."""
        carries = _offset((advance * self._config.samples_per_frame).cumsum(1), carry)
        return carries.repeat_interleave(self._config.samples_per_frame, dim=1), carries

    def _running_sum(self, advance: Tensor, carry: Tensor | None) -> tuple[Tensor, Tensor]:
        """CosyVoice 1: each sample adds its own advance."""
        length = self._config.samples_per_frame
        carries = _offset((advance * length).cumsum(1), carry)
        back = torch.arange(length - 1, -1, -1, device=advance.device, dtype=torch.float64)
        phase = carries[:, :, None] - back[:, None] * advance[:, :, None]  # (B, T, L, tones)
        return phase.flatten(1, 2), carries

    def _interpolated(self, advance: Tensor, carry: Tensor | None, is_last: bool) -> tuple[Tensor, Tensor]:
        """CosyVoice 2: linear between the frames' centres, still before the first and after the last.

        Half a frame before a centre and half a frame after the one before have the later frame's
        advance. Where the next frame is not known yet, this frame's own is used.
        """
        half = self._config.samples_per_frame // 2
        after = torch.zeros_like(advance[:, -1:]) if is_last else advance[:, -1:]
        slopes = torch.stack([advance, torch.cat([advance[:, 1:], after], dim=1)], dim=2).flatten(1, 2)
        if carry is None:  # published: the phase of the first centre, which is a whole frame's advance
            carry = advance[:, 0] * self._config.samples_per_frame
            slopes[:, 0] = 0.0
        ends = _offset((slopes * half).cumsum(1), carry)  # (B, 2 T, tones)
        back = torch.arange(half, 0, -1, device=advance.device, dtype=torch.float64) - 0.5
        phase = ends[:, :, None] - back[:, None] * slopes[:, :, None]  # (B, 2 T, L / 2, tones)
        return phase.flatten(1, 2), ends[:, 1::2]


def _offset(cycles: Tensor, carry: Tensor | None) -> Tensor:
    return cycles if carry is None else cycles + carry[:, None]
