"""Harmonic Vocos: F0, harmonic pulses, their filters, and one inverse short-time Fourier transform.

Vocos (arXiv 2306.00814) makes the spectrum of a whole frame by ConvNeXt blocks (arXiv 2201.03545), without
upsampling. Here the blocks filter the harmonics of F0 and noise (arXiv 1904.12088), and add a part whose
phase is free:

    S = exp(a) e^(i b) P + exp(c) Z + exp(d) e^(i e)

with P the spectrum of pulses, Z complex normal noise, and a to e of each bin and frame. Frames are `hop`
samples apart, more often than mel frames, between which the mel is interpolated. All but the first
convolutions look back only.
"""

import math
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import HarmonicVocosConfig
from firstword.models.layers import ConvContext, FullContext

KERNEL = 7
REACH = KERNEL - 1  # frames that a block looks back
LOWEST_HZ, HIGHEST_HZ = 40.0, 800.0  # of F0
OCTAVES = math.log(HIGHEST_HZ / LOWEST_HZ)  # natural ones
NUM_COSINES = 16
TOP_HZ = 11_000.0  # of the harmonics
MAX_LOG = 7.0  # of a magnitude
NUM_PARTS = 5  # a to e
_MEL_MEAN, _MEL_SCALE = -5.0, 2.5


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels: int, hidden: int, index: int):
        """index: of its left context."""
        super().__init__()
        self.index = index
        self.depthwise = nn.Conv1d(channels, channels, KERNEL, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, hidden)
        self.down = nn.Linear(hidden, channels)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, C, T) -> (B, C, T)."""
        y = self.depthwise(context.extend(self.index, x, REACH))
        return x + self.down(F.gelu(self.up(self.norm(y.mT)))).mT


class Backbone(nn.Module):
    """A convolution that looks `lookahead` frames ahead and back, then blocks that look back only."""

    def __init__(self, num_mels: int, sizes: tuple[int, int, int], outputs: int, lookahead: int, first: int):
        """sizes: channels, hidden channels of a block, and blocks. first: the index of its first context."""
        super().__init__()
        channels, hidden, num_layers = sizes
        indices = count(first)
        self.lookahead, self.index = lookahead, next(indices)
        self.conv_pre = nn.Conv1d(num_mels, channels, 2 * lookahead + 1)
        self.blocks = nn.ModuleList(ConvNeXtBlock(channels, hidden, next(indices)) for _ in range(num_layers))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, outputs)

    def forward(
        self, mel: Tensor, context: ConvContext, is_start: bool, condition: Tensor | None = None
    ) -> Tensor:
        """mel (B, M, T) -> (B, T, outputs); at the start `lookahead` frames fewer, which come at the end.

        condition (B, C, T): added behind the first convolution, as long as the result.
        """
        x = self.enter(mel, context, is_start, condition)
        for block in self.blocks:
            x = block(x, context)
        return self.leave(x)

    def enter(
        self, mel: Tensor, context: ConvContext, is_start: bool, condition: Tensor | None = None
    ) -> Tensor:
        """-> (B, C, T), what the first block is given."""
        x: Tensor = self.conv_pre(context.extend(self.index, mel, 2 * self.lookahead))
        if is_start:
            x = x[:, :, self.lookahead :]
        return x if condition is None else x + condition

    def leave(self, x: Tensor) -> Tensor:
        """x (B, C, T), what the last block made -> (B, T, outputs)."""
        made: Tensor = self.head(self.norm(x.mT))
        return made


class HarmonicVocos(nn.Module):
    """Weights and constants only; a stream's state is `firstword.models.harmonic_vocos.streaming`'s."""

    def __init__(self, config: HarmonicVocosConfig):
        super().__init__()
        self.config = config
        f0_sizes = (config.f0_channels, 3 * config.f0_channels, config.f0_layers)
        sizes = (config.channels, config.hidden_channels, config.num_layers)
        outputs = NUM_PARTS * config.num_bins
        self.f0_net = Backbone(config.num_mels, f0_sizes, 1, config.f0_lookahead_frames, 0)
        first = 1 + config.f0_layers
        self.filters_net = Backbone(config.num_mels, sizes, outputs, config.lookahead_frames, first)
        self.f0_projection = nn.Linear(NUM_COSINES, config.channels)

    def to_dtype(self, dtype: torch.dtype) -> "HarmonicVocos":
        """Cast all but the F0 predictor, whose result is integrated."""
        self.filters_net.to(dtype)
        self.f0_projection.to(dtype)
        return self

    def frames(self, mel: Tensor, first_mel: int, first: int, stop: int) -> Tensor:
        """mel (B, M, T) from mel frame `first_mel` on -> frames [first, stop) of the spectrum's rate, scaled.

        Linear between the centers of mel frames; before the first and after the last it stands still.
        """
        hop, per_mel = self.config.hop_samples, self.config.samples_per_frame
        at = torch.arange(first, stop, device=mel.device) * hop - per_mel // 2
        place = at.div(per_mel, rounding_mode="floor")
        share = (at - place * per_mel).to(mel.dtype) / per_mel
        left, right = ((place + step - first_mel).clamp(0, mel.shape[-1] - 1) for step in (0, 1))
        drawn = mel[:, :, left] * (1 - share) + mel[:, :, right] * share
        return (drawn - _MEL_MEAN) / _MEL_SCALE

    def pitch(self, mel: Tensor, context: ConvContext, is_start: bool) -> Tensor:
        """mel (B, M, T) as `frames` gives it -> the pitch of each frame within 0 to 1, (B, T) float32."""
        return self.f0_net(mel.float(), context, is_start)[..., 0].sigmoid()

    def filters(self, mel: Tensor, pitch: Tensor, context: ConvContext, is_start: bool) -> Tensor:
        """mel (B, M, T) as `frames` gives it, pitch (B, T) -> (B, T, 5 bins): a, b, c, d, e of each bin.

        At the start the result, and the pitch with it, has `lookahead_frames` fewer frames than the mel.
        """
        dtype = self.filters_net.conv_pre.weight.dtype
        return self.filters_net(mel.to(dtype), context, is_start, self.condition(pitch))

    def condition(self, pitch: Tensor) -> Tensor:
        """pitch (B, T) within 0 to 1 -> (B, C, T), what it adds behind the first convolution."""
        return self.f0_projection(cosines(pitch).to(self.f0_projection.weight.dtype)).mT

    def predict_f0(self, mel: Tensor) -> Tensor:
        """mel (B, M, T) -> F0 in Hz (B, T) float32, through voiceless sounds too."""
        stop = self.config.num_frames(mel.shape[-1])
        padded = self.frames(mel, 0, 0, stop + self.config.f0_lookahead_frames)
        f0 = hz_of(self.pitch(padded, FullContext(), is_start=True))
        per_mel = self.config.samples_per_frame
        middles = torch.arange(mel.shape[-1], device=mel.device) * per_mel + per_mel // 2
        return f0[:, (middles / self.config.hop_samples).round().long().clamp(max=stop - 1)]


def cosines(pitch: Tensor) -> Tensor:
    """pitch (B, T) within 0 to 1 -> (B, T, NUM_COSINES)."""
    return torch.cos(pitch[..., None] * (math.pi * torch.arange(1, NUM_COSINES + 1, device=pitch.device)))


def hz_of(pitch: Tensor) -> Tensor:
    """Return F0 in Hz of a pitch within 0 to 1."""
    return LOWEST_HZ * torch.exp(OCTAVES * pitch)


def pitch_of(f0_hz: Tensor) -> Tensor:
    """The inverse of `hz_of`; what lies outside is moved to its edge."""
    return torch.log(f0_hz.clamp(LOWEST_HZ, HIGHEST_HZ) / LOWEST_HZ) / OCTAVES


def pulses(cycles: Tensor, f0_hz: Tensor) -> Tensor:
    """The cosines of all harmonics below TOP_HZ, of amplitude 1 each: cycles, f0_hz (B, N) -> (B, N).

    cycles: the phase of the fundamental; only its fraction counts. By Dirichlet's kernel. One harmonic more
    fades in as F0 falls: the sum does not jump.
    """
    turn = 2 * math.pi * (cycles - cycles.round())
    number = TOP_HZ / f0_hz
    whole = number.floor()
    sine = torch.sin(turn / 2)
    is_peak = sine.abs() < 1e-6
    ratio = torch.sin((whole + 0.5) * turn) / sine.masked_fill(is_peak, 1.0)
    below = torch.where(is_peak, whole, 0.5 * ratio - 0.5)
    return below + (number - whole) * torch.cos((whole + 1) * turn)


class SpectrumTransform:
    """Analysis and synthesis of the frames, by FFT in float32, and what is heard of the filters."""

    def __init__(self, config: HarmonicVocosConfig):
        self._n_fft, self._hop = config.n_fft, config.hop_samples
        self._windows: dict[torch.device, Tensor] = {}

    def analyze(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, (N - n_fft) / hop + 1, bins) complex; a cosine of amplitude 1 gives 1."""
        window = self._window(samples.device) / (self._n_fft / 4)
        return torch.fft.rfft(samples.unfold(1, self._n_fft, self._hop) * window)

    def mixed(self, filters: Tensor, pulses: Tensor, noise: Tensor) -> Tensor:
        """filters (B, T, 5 bins), pulses (B, T, bins) complex, noise (B, T, 2 bins) -> (B, T, bins)."""
        a, b, c, d, e = filters.float().chunk(NUM_PARTS, dim=-1)
        harmonic, hiss, free = (part.clamp(max=MAX_LOG).exp() for part in (a, c, d))
        normal = torch.complex(*(hiss.repeat(1, 1, 2) * noise).chunk(2, dim=-1))
        return torch.polar(harmonic, b) * pulses + normal + torch.polar(free, e)

    def overlap_add(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """spectrum (B, T, bins) -> samples (B, hop (T - 1) + n_fft) not yet normalized, their envelope.

        As `firstword.models.hift.hift.ShortTimeFourier.overlap_add`.
        """
        window = self._window(spectrum.device)
        frames = torch.fft.irfft(spectrum, self._n_fft) * window
        envelope = (window * window).expand(1, frames.shape[1], -1)
        sums = added_up(torch.cat([frames, envelope]), self._hop)
        return sums[:-1], sums[-1]

    def _window(self, device: torch.device) -> Tensor:
        """Hann's."""
        if device not in self._windows:
            self._windows[device] = torch.hann_window(self._n_fft, device=device)
        return self._windows[device]


def added_up(frames: Tensor, hop: int) -> Tensor:
    """Frames (B, T, n) that begin `hop` samples apart, n a multiple of it -> (B, hop (T - 1) + n)."""
    hops = frames.unflatten(-1, (-1, hop))
    length, overlap = hops.shape[1:3]
    total = frames.new_zeros(len(frames), length + overlap - 1, hop)
    for index in range(overlap):
        total[:, index : index + length] += hops[:, :, index]
    return total.flatten(1)
