"""HiFT's generator: mel and source to a spectrum, by upsampling and Snake residual blocks.

After HiFi-GAN, arXiv 2010.05646.
"""

import math
from collections.abc import Iterator
from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from firstword.models.config import HiFTConfig
from firstword.models.layers.attention import ConvContext

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
