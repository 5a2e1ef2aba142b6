"""HiFT: fundamental frequency, harmonic source, short-time Fourier transform and generator of one checkpoint.

The generator makes a spectrum of mel and source, by upsampling and Snake residual blocks (after HiFi-GAN,
arXiv 2010.05646). `HiFT` runs all over a whole utterance; `firstword.models.hift.streaming` runs the same
parts piece by piece.
"""

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import NOISE_FRAMES, NUM_MELS, DiTFlowConfig, HiFTConfig, ModelConfig
from firstword.models.layers import ConvContext, FullContext

POST_SLOPE = 0.01  # published: the last activation takes the default slope, not the configured one
MAX_MAGNITUDE = 100.0
SNAKE_EPS = 1e-9


class Conv(nn.Conv1d):
    """Keeps the length: padded on both sides, or all on the left."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, is_causal: bool, index: int, dilation: int = 1
    ):
        """index: of its left context; a convolution that is not causal has none, but is counted too."""
        super().__init__(in_channels, out_channels, kernel, dilation=dilation)
        self.index = index
        self._is_causal = is_causal

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:  # type: ignore[override]
        """x (B, C_in, T) -> (B, C_out, T)."""
        reach = self.dilation[0] * (self.kernel_size[0] - 1)
        if self._is_causal:
            return super().forward(context.extend(self.index, x, reach))
        return super().forward(F.pad(x, (reach // 2, reach // 2)))


class Snake(nn.Module):
    """x + sin^2(alpha x) / alpha (arXiv 2006.08195), alpha per channel."""

    def __init__(self, channels: int):
        super().__init__()
        self.alpha = nn.Parameter(torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, T) -> (B, C, T)."""
        alpha = self.alpha[:, None]
        scale = (alpha.float() + SNAKE_EPS).reciprocal().clamp(max=torch.finfo(x.dtype).max).to(x.dtype)
        return x + torch.sin(x * alpha).square() * scale


class ResBlock(nn.Module):
    def __init__(
        self, channels: int, kernel: int, dilations: tuple[int, ...], is_causal: bool, indices: Iterator[int]
    ):
        super().__init__()
        self.convs1 = nn.ModuleList(
            Conv(channels, channels, kernel, is_causal, next(indices), dilation) for dilation in dilations
        )
        self.convs2 = nn.ModuleList(
            Conv(channels, channels, kernel, is_causal, next(indices)) for _ in dilations
        )
        self.snakes1 = nn.ModuleList(Snake(channels) for _ in dilations)
        self.snakes2 = nn.ModuleList(Snake(channels) for _ in dilations)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, C, T) -> (B, C, T)."""
        layers = zip(self.snakes1, self.convs1, self.snakes2, self.convs2, strict=True)
        for snake1, conv1, snake2, conv2 in layers:
            x = x + conv2(snake2(conv1(snake1(x), context)), context)
        return x


class Upsample(nn.Module):
    """Times `rate` in time: a transposed convolution, or repetition and a causal convolution."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel: int, rate: int, is_causal: bool, index: int
    ):
        super().__init__()
        self._rate = rate
        self.conv: nn.ConvTranspose1d | Conv
        if is_causal:
            self.conv = Conv(in_channels, out_channels, kernel, True, index)
        else:
            padding = (kernel - rate) // 2
            self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel, stride=rate, padding=padding)

    def forward(self, x: Tensor, context: ConvContext) -> Tensor:
        """x (B, C_in, T) -> (B, C_out, rate T)."""
        if isinstance(self.conv, Conv):
            return self.conv(x.repeat_interleave(self._rate, dim=-1), context)
        return self.conv(x)


class SourceDown(nn.Conv1d):
    """Brings the source's spectrum to the rate of a stage: `stride` frames become one."""

    def __init__(self, in_channels: int, out_channels: int, stride: int, is_causal: bool, index: int):
        kernel = 1 if stride == 1 else 2 * stride
        padding = 0 if is_causal or stride == 1 else stride // 2
        super().__init__(in_channels, out_channels, kernel, stride=stride, padding=padding)
        self.index = index
        self._is_causal = is_causal

    def forward(self, x: Tensor, context: ConvContext, is_start: bool) -> Tensor:  # type: ignore[override]
        """x (B, C_in, stride T + 1) -> (B, C_out, T); later pieces of a stream bring stride T frames."""
        stride = self.stride[0]
        if self._is_causal and stride > 1:
            x = context.extend(self.index, x, stride)[:, :, int(is_start) :]
        return super().forward(x)


class Generator(nn.Module):
    def __init__(self, config: HiFTConfig):
        super().__init__()
        self.config = config
        causal, base = config.is_causal, config.base_channels
        rates, stages = config.upsample_rates, range(len(config.upsample_rates))
        widths = [base >> index for index in range(len(rates) + 1)]
        indices = count()
        self.conv_pre = nn.Conv1d(
            config.num_mels, base, config.lookahead_frames + 1 if causal else 7, padding=0 if causal else 3
        )
        kernels = config.upsample_kernel_sizes
        self.ups = nn.ModuleList(
            Upsample(widths[i], widths[i + 1], kernels[i], rates[i], causal, next(indices)) for i in stages
        )
        spectrum_size = config.istft_n_fft + 2
        strides = [math.prod(rates[i + 1 :]) for i in stages]
        self.source_downs = nn.ModuleList(
            SourceDown(spectrum_size, widths[i + 1], strides[i], causal, next(indices)) for i in stages
        )
        self.source_resblocks = nn.ModuleList(
            ResBlock(widths[i + 1], kernel, dilations, causal, indices)
            for i, kernel, dilations in zip(
                stages,
                config.source_resblock_kernel_sizes,
                config.source_resblock_dilation_sizes,
                strict=True,
            )
        )
        self.resblocks = nn.ModuleList(
            ResBlock(widths[i + 1], kernel, dilations, causal, indices)
            for i in stages
            for kernel, dilations in zip(
                config.resblock_kernel_sizes, config.resblock_dilation_sizes, strict=True
            )
        )
        self.conv_post = Conv(widths[-1], spectrum_size, 7, causal, next(indices))

    def forward(
        self, mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
    ) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum of the same shape, float32.

        U frames of the spectrum a mel frame. Causal: mel has `lookahead_frames` more behind the T; the
        first piece of a stream (is_start) has U T + 1 spectrum frames, a later one U T.
        """
        return self.spectrum(self.features(mel, source_spectrum, context, is_start), context)

    def features(
        self, mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
    ) -> Tensor:
        """As forward, up to the last convolution -> (B, C, U T + 1)."""
        x = self.conv_pre(mel)
        per_stage = len(self.config.resblock_kernel_sizes)
        for index, (up, down, resblock) in enumerate(
            zip(self.ups, self.source_downs, self.source_resblocks, strict=True)
        ):
            x = up(F.leaky_relu(x, self.config.leaky_relu_slope), context)
            if index == len(self.ups) - 1 and is_start:
                x = torch.cat([x[:, :, 1:2], x], dim=-1)
            x = x + resblock(down(source_spectrum, context, is_start), context)
            blocks = self.resblocks[index * per_stage : (index + 1) * per_stage]
            x = torch.stack([block(x, context) for block in blocks]).mean(0)
        return x

    def spectrum(self, x: Tensor, context: ConvContext) -> Tensor:
        """features (B, C, U T + 1) -> spectrum (B, n_fft + 2, U T + 1) float32."""
        x = self.conv_post(F.leaky_relu(x, POST_SLOPE), context).float()
        log_magnitude, phase = x.chunk(2, dim=1)
        magnitude, angle = log_magnitude.exp().clamp(max=MAX_MAGNITUDE), phase.sin()
        return torch.cat([magnitude * angle.cos(), magnitude * angle.sin()], dim=1)


TABLE_S = 300


def causal_noise_table(config: ModelConfig) -> Tensor:
    """The noise of CosyVoice 3's source: (300 s of samples, tones), uniform in [0, 1), float32 on the CPU.

    In the published code it is whatever torch's global generator gives after the flow has been initialized,
    which starts it from seed 0. The same draws are repeated here on a generator of their own.
    Follows the initialization of torch's own layers: the values hold for the published sizes with any
    torch whose default initialization is that of 2.x.
    """
    assert isinstance(config.flow, DiTFlowConfig), "only CosyVoice 3 has a noise table"
    generator = torch.Generator().manual_seed(0)
    _skip_normal(generator, NUM_MELS * NOISE_FRAMES)
    _skip_normal(generator, config.flow.vocab_size * NUM_MELS)  # token embedding
    _skip_layer(generator, (NUM_MELS, config.flow.speaker_embedding_size))
    channels = config.hift.f0_channels
    _skip_layer(generator, (channels, config.hift.num_mels, LOOKAHEAD_FRAMES + 1))
    for _ in range(NUM_CONVS - 1):
        _skip_layer(generator, (channels, channels, 3))
    _skip_layer(generator, (1, channels))
    tones = config.hift.num_harmonics + 1
    torch.rand(1, tones, generator=generator, device="cpu")  # initial phases, which have no effect
    samples = TABLE_S * config.hift.sample_rate_hz
    return torch.rand(samples, tones, generator=generator, device="cpu")


def _skip_normal(generator: torch.Generator, count: int) -> None:
    torch.empty(count, device="cpu").normal_(generator=generator)


def _skip_layer(generator: torch.Generator, shape: tuple[int, ...]) -> None:
    """Weight, then bias, of a linear layer or convolution: uniform, one draw an element."""
    torch.empty(shape, device="cpu").uniform_(generator=generator)
    torch.empty(shape[0], device="cpu").uniform_(generator=generator)


class ShortTimeFourier:
    """Analysis and synthesis with `n_fft` points and a hop of a quarter of it, all float32.

    A spectrum has n_fft / 2 + 1 real parts, then as many imaginary parts. Holds constants only. Written as
    matrix products, which stay float32 on every device; convolutions on a GPU may not.
    """

    def __init__(self, n_fft: int, device: torch.device | str = "cpu"):
        self.n_fft, self.hop = n_fft, n_fft // 4
        time = torch.arange(n_fft, dtype=torch.float64, device="cpu")
        window = 0.5 - 0.5 * torch.cos(2 * math.pi * time / n_fft)
        bins = torch.arange(n_fft // 2 + 1, dtype=torch.float64, device="cpu")[:, None]
        angles = 2 * math.pi * bins * time / n_fft  # (bins, n_fft)
        weight = torch.full_like(bins, 2.0)  # both halves of the spectrum, but for the two real bins
        weight[0], weight[-1] = 1.0, 1.0
        self._analysis = _bank(torch.cat([angles.cos(), -angles.sin()]) * window, device)
        self._synthesis = _bank(
            torch.cat([weight * angles.cos(), -weight * angles.sin()]) / n_fft * window, device
        )
        self._envelope = _bank((window * window)[None], device)

    def to(self, device: torch.device | str) -> "ShortTimeFourier":
        return ShortTimeFourier(self.n_fft, device)

    def analyze(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, n_fft + 2, (N - n_fft) / hop + 1)."""
        frames = samples.float().unfold(1, self.n_fft, self.hop)  # (B, J, n_fft)
        return (frames @ self._analysis.mT).mT

    def overlap_add(self, spectrum: Tensor) -> tuple[Tensor, Tensor]:
        """spectrum (B, n_fft + 2, J) -> samples (B, hop (J - 1) + n_fft) not yet normalized, their envelope.

        Samples divided by the envelope (as many,) are the signal; both add up across neighboring pieces.
        """
        envelope = self._envelope.expand(1, spectrum.shape[-1], -1)
        frames = torch.cat([spectrum.float().mT @ self._synthesis, envelope])  # (B + 1, J, n_fft)
        hops = frames.unflatten(-1, (-1, self.hop))  # (B + 1, J, n_fft / hop, hop)
        count, overlap = hops.shape[1:3]
        total = frames.new_zeros(len(frames), count + overlap - 1, self.hop)
        for index in range(overlap):
            total[:, index : index + count] += hops[:, :, index]
        sums = total.flatten(1)
        return sums[:-1], sums[-1]

    def centered(self, samples: Tensor) -> Tensor:
        """samples (B, N) -> (B, N + n_fft), reflected at both ends."""
        return F.pad(samples[:, None], (self.n_fft // 2, self.n_fft // 2), mode="reflect")[:, 0]


def _bank(rows: Tensor, device: torch.device | str) -> Tensor:
    return rows.to(device, torch.float32)  # (rows, n_fft)


NUM_CONVS = 5
LOOKAHEAD_FRAMES = 3  # of the causal predictor


class F0Predictor(nn.Module):
    """Five convolutions and a linear layer; -> Hz, one value a frame.

    The causal one looks `LOOKAHEAD_FRAMES` ahead in its first convolution and back in the others. The
    result is integrated, so a loaded HiFT keeps the weights in float64.
    """

    def __init__(self, num_mels: int, channels: int, is_causal: bool):
        super().__init__()
        self._is_causal = is_causal
        layers: list[nn.Module] = []
        for index in range(NUM_CONVS):
            kernel = LOOKAHEAD_FRAMES + 1 if is_causal and index == 0 else 3
            padding = 0 if is_causal else 1
            layers += [
                nn.Conv1d(channels if index else num_mels, channels, kernel, padding=padding),
                nn.ELU(),
            ]
        self.layers = nn.Sequential(*layers)
        self.classifier = nn.Linear(channels, 1)

    def forward(self, mel: Tensor, context: ConvContext) -> Tensor:
        """mel (B, M, T) -> F0 (B, T); the causal one takes (B, M, T + lookahead). In the weights' dtype."""
        x = mel.to(self.classifier.weight.dtype)
        for index, layer in enumerate(self.layers):
            if self._is_causal and isinstance(layer, nn.Conv1d) and index:
                x = context.extend(index, x, 2)
            x = layer(x)
        return self.classifier(x.mT)[..., 0].abs()


class LinearPhase(NamedTuple):
    """Phases in cycles, float64, of pieces of equal length; within a piece each of them is linear."""

    starts: Tensor  # (B, P, tones), at each piece's first sample
    slopes: Tensor  # (B, P, tones), cycles a sample
    length: int  # samples of a piece


class HarmonicSource(nn.Module):
    """Sines of F0 and its overtones where voiced, noise everywhere.

    Phases are kept in cycles, in float64, and carried from call to call: a stream's phase never jumps,
    and does not lose precision with time as the published float32 sum does.
    """

    def __init__(self, config: HiFTConfig):
        super().__init__()
        self._config = config
        self.num_tones = config.num_harmonics + 1
        self.linear = nn.Linear(self.num_tones, 1)
        # The published code tells its two generators apart by the sample rate.
        self._is_cosyvoice1 = not config.is_causal and config.sample_rate_hz == 22_050

    def initial_phases(self, generator: torch.Generator) -> Tensor | None:
        """Where an utterance begins, in cycles: random overtones for CosyVoice 1; None: nowhere special."""
        if not self._is_cosyvoice1:
            return None
        phases = torch.rand(self.num_tones, generator=generator, dtype=torch.float64) - 0.5
        phases[0] = 0.0
        return phases

    def forward(
        self, f0: Tensor, noise: Tensor, carry: Tensor | None, is_last: bool
    ) -> tuple[Tensor, Tensor]:
        """f0 (B, T) Hz, noise (B, T L), carry (B, tones) -> source (B, T L), carries (B, T, tones).

        L samples a frame; the source is float32. noise: of all tones, as `sum_noise` or `drawn_noise` gives
        it. `carries[:, i]`: the phases, in cycles, at the end of frame i, to go on from. carry None: the
        utterance starts here. is_last: nothing follows frame T - 1.
        """
        tones = torch.arange(1, self.num_tones + 1, device=f0.device, dtype=torch.float64)
        advance = (
            f0.double()[..., None] * tones / self._config.sample_rate_hz
        ) % 1.0  # (B, T, tones), cycles a sample
        phase, carries = self._phase(advance, carry, is_last)
        return self.mix(phase, f0, noise), carries

    def mix(self, phase: LinearPhase, f0: Tensor, noise: Tensor) -> Tensor:
        """The source of phases that are given: f0 (B, T) Hz, noise (B, T L) -> (B, T L) float32."""
        config = self._config
        voiced = (f0 > config.voiced_threshold_hz).float().repeat_interleave(config.samples_per_frame, dim=1)
        noise_amplitude = torch.where(voiced > 0, config.noise_amplitude, config.sine_amplitude / 3)
        sines = _weighted_sines(phase, self.linear.weight[0]) * (config.sine_amplitude * voiced)
        return torch.tanh(sines + noise_amplitude * noise + self.linear.bias)

    def sum_noise(self, noise: Tensor) -> Tensor:
        """What is heard of the noise of each tone: (..., tones) -> (...)."""
        return noise @ self.linear.weight[0]

    def drawn_noise(self, drawn: Tensor) -> Tensor:
        """As `sum_noise` of normal draws, a tone each, from one draw a sample: (...) -> (...).

        A weighted sum of independent normal draws is one normal draw times the length of the weights.
        """
        return drawn * self.linear.weight[0].norm()

    def _phase(self, advance: Tensor, carry: Tensor | None, is_last: bool) -> tuple[LinearPhase, Tensor]:
        """advance (B, T, tones) cycles a sample -> phase of all samples, carries (B, T, tones)."""
        length = self._config.samples_per_frame
        if not self._config.is_causal and not self._is_cosyvoice1:
            return self._interpolated(advance, carry, is_last)
        carries = _offset((advance * length).cumsum(1), carry)
        if self._config.is_causal:  # CosyVoice 3: it stands still within a frame, at the frame's end
            return LinearPhase(carries, torch.zeros_like(advance), length), carries
        # CosyVoice 1: each sample adds its own advance
        return LinearPhase(carries - (length - 1) * advance, advance, length), carries

    def _interpolated(
        self, advance: Tensor, carry: Tensor | None, is_last: bool
    ) -> tuple[LinearPhase, Tensor]:
        """CosyVoice 2: linear between the frames' centers, still before the first and after the last.

        Half a frame before a center and half a frame after the one before have the later frame's
        advance. Where the next frame is not known yet, this frame's own is used.
        """
        half = self._config.samples_per_frame // 2
        after = torch.zeros_like(advance[:, -1:]) if is_last else advance[:, -1:]
        slopes = torch.stack([advance, torch.cat([advance[:, 1:], after], dim=1)], dim=2).flatten(1, 2)
        if carry is None:  # published: the phase of the first center, which is a whole frame's advance
            carry = advance[:, 0] * self._config.samples_per_frame
            slopes[:, 0] = 0.0
        ends = _offset((slopes * half).cumsum(1), carry)  # (B, 2 T, tones)
        return LinearPhase(ends - (half - 0.5) * slopes, slopes, half), ends[:, 1::2]


def _weighted_sines(phase: LinearPhase, weight: Tensor) -> Tensor:
    """The sum of all tones, weight (tones,) of each -> (B, P length) float32.

    By sin(a + b) = sin a cos b + cos a sin b, where a steps from row to row of a piece and b within a
    row: of n samples it takes the sines of 2 sqrt(n), and a product of matrices.
    """
    row = next(n for n in range(math.isqrt(phase.length), 0, -1) if phase.length % n == 0)
    step = torch.arange(phase.length, device=weight.device, dtype=torch.float64)
    within = phase.slopes[..., None] * step[:row]  # (B, P, tones, row)
    begins = phase.starts[..., None] + phase.slopes[..., None] * step[::row]  # (B, P, tones, rows)
    a, b = (2 * math.pi * cycles.frac().float() for cycles in (begins, within))
    left = torch.cat([a.sin(), a.cos()], dim=2) * weight.repeat(2)[:, None]
    right = torch.cat([b.cos(), b.sin()], dim=2)
    return (left.mT @ right).flatten(1)


def _offset(cycles: Tensor, carry: Tensor | None) -> Tensor:
    return cycles if carry is None else cycles + carry[:, None]


class Generate(Protocol):
    """A HiFT's generator, or what runs in its place."""

    def __call__(
        self, mel: Tensor, source_spectrum: Tensor, context: ConvContext, is_start: bool = True
    ) -> Tensor:
        """As `Generator.forward`. context: of a causal generator; another one sees whole pieces."""
        ...


class HiFT(nn.Module):
    """Weights and constants only. `noise` (N,): the fixed noise of a causal HiFT, set at load."""

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
        return self.f0(padded, FullContext()).float()

    def fixed_noise(self, start: int, stop: int) -> Tensor:
        """Samples [start, stop) of the noise table, which starts again at its end: (stop - start,)."""
        assert self.noise is not None, "a causal HiFT has no noise table before it is loaded"
        if stop <= len(self.noise):
            return self.noise[start:stop]
        return self.noise[torch.arange(start, stop, device=self.noise.device) % len(self.noise)]

    def decode(self, mel: Tensor, source: Tensor, generate: Generate | None = None) -> Tensor:
        """mel (B, M, T), source (B, T L) -> samples (B, T L) float32. generate: not the own generator."""
        config = self.config
        spectrum = self.stft.analyze(self.stft.centered(source))
        padded = F.pad(mel, (0, config.lookahead_frames))
        dtype = self.generator.conv_pre.weight.dtype
        made = (generate or self.generator)(padded.to(dtype), spectrum.to(dtype), FullContext())
        samples = self.waveform(made, source.shape[-1])
        return samples.clamp(-config.audio_limit, config.audio_limit)

    def waveform(self, spectrum: Tensor, num_samples: int) -> Tensor:
        """spectrum (B, n_fft + 2, U T + 1) of a whole utterance -> (B, num_samples), not yet limited."""
        samples, envelope = self.stft.overlap_add(spectrum)
        edge = self.config.istft_n_fft // 2
        inner = slice(edge, edge + num_samples)
        return samples[:, inner] / envelope[inner]
