"""Writes HiFT's generator into an ONNX graph.

By hand, in 0.1 s at start: `torch.onnx.export` would need onnxscript on the user's machine, and a cache on
disk with its invalidation, to save these seventy lines.
"""

from collections.abc import Callable

import numpy as np
import torch
from onnx import TensorProto
from torch import Tensor, nn

from firstword.models.hift.hift import (
    MAX_MAGNITUDE,
    POST_SLOPE,
    SNAKE_EPS,
    Conv,
    Generator,
    ResBlock,
    Snake,
    SourceDown,
    Upsample,
)
from firstword.models.onnx_graphs.graph import GraphWriter
from firstword.models.onnx_graphs.session import each

Extend = Callable[[int, str, int, int], str]
"""A convolution's index, x (B, C, T), frames, C -> (B, C, frames + T), with what came before x in front."""


class GeneratorWriter:
    """extend: of a causal generator's convolutions. is_start: it makes the first piece of a stream."""

    def __init__(
        self, generator: Generator, writer: GraphWriter, extend: Extend | None = None, is_start: bool = True
    ):
        self._generator, self._writer, self._extend, self._is_start = generator, writer, extend, is_start

    def spectrum(self, mel: str, source: str) -> str:
        """As `Generator.forward`; the result is float32."""
        generator, writer, config = self._generator, self._writer, self._generator.config
        x = self._conv(generator.conv_pre, mel)
        per_stage = len(config.resblock_kernel_sizes)
        ups, downs = each(Upsample, generator.ups), each(SourceDown, generator.source_downs)
        source_resblocks, resblocks = (
            each(ResBlock, part) for part in (generator.source_resblocks, generator.resblocks)
        )
        for index, (up, down, resblock) in enumerate(zip(ups, downs, source_resblocks, strict=True)):
            x = self._upsample(
                up, config.upsample_rates[index], writer.node("LeakyRelu", x, alpha=config.leaky_relu_slope)
            )
            if index == len(ups) - 1 and self._is_start:
                x = writer.node("Pad", x, writer.integers(0, 0, 1, 0, 0, 0), mode="reflect")
            blocks = resblocks[index * per_stage : (index + 1) * per_stage]
            x = self._stage(x, self._down(down, source), resblock, blocks)
        x = self._conv(generator.conv_post, writer.node("LeakyRelu", x, alpha=POST_SLOPE))
        log_magnitude, phase = writer.nodes("Split", 2, writer.cast(x, TensorProto.FLOAT), axis=1)
        limit = writer.constant(np.array(MAX_MAGNITUDE, np.float32), TensorProto.FLOAT)
        magnitude = writer.node("Min", writer.node("Exp", log_magnitude), limit)
        angle = writer.node("Sin", phase)
        parts = (writer.node("Mul", magnitude, writer.node(wave, angle)) for wave in ("Cos", "Sin"))
        return writer.node("Concat", *parts, axis=1)

    def _upsample(self, up: Upsample, rate: int, x: str) -> str:
        """Causal: each frame `rate` times, then a convolution."""
        if self._extend is not None:
            writer = self._writer
            frames = writer.node("Unsqueeze", x, writer.integers(3))
            repeated = writer.node("Concat", *[frames] * rate, axis=3)
            x = writer.node("Reshape", repeated, writer.integers(0, up.conv.in_channels, -1))
        return self._conv(up.conv, x)

    def _down(self, down: SourceDown, source: str) -> str:
        stride = down.stride[0]
        if self._extend is not None and stride > 1:
            source = self._extend(down.index, source, stride, down.in_channels)
            if self._is_start:
                source = self._writer.sliced(source, 1, None, axis=2)
        return self._conv(down, source)

    def _stage(self, x: str, source: str, source_block: ResBlock, blocks: list[ResBlock]) -> str:
        """x, source (B, C, T) -> (B, C, T)."""
        x = self._writer.node("Add", x, self._resblock(source_block, source))
        return self._writer.node("Mean", *(self._resblock(block, x) for block in blocks))

    def _resblock(self, block: ResBlock, x: str) -> str:
        snakes = zip(each(Snake, block.snakes1), each(Snake, block.snakes2), strict=True)
        convs = zip(each(Conv, block.convs1), each(Conv, block.convs2), strict=True)
        for (snake1, snake2), (conv1, conv2) in zip(snakes, convs, strict=True):
            y = self._inner_conv(conv1, self._snake(snake1, x))
            x = self._writer.node("Add", x, self._inner_conv(conv2, self._snake(snake2, y)))
        return x

    def _inner_conv(self, conv: Conv, x: str) -> str:
        """Of a residual block."""
        return self._conv(conv, x)

    def _snake(self, snake: Snake, x: str) -> str:
        writer, alpha = self._writer, self._by_channel(snake.alpha.float())
        sine = writer.node("Sin", writer.node("Mul", x, writer.constant(alpha)))
        scale = (alpha + SNAKE_EPS).reciprocal()
        if writer.element == TensorProto.FLOAT16:
            scale = scale.clamp(max=torch.finfo(torch.float16).max)
        scaled = writer.node("Mul", writer.node("Mul", sine, sine), writer.constant(scale))
        return writer.node("Add", x, scaled)

    def _by_channel(self, values: Tensor) -> Tensor:
        """values (C,), as they multiply a residual block's x."""
        return values[:, None]

    def _conv(self, conv: nn.Conv1d | nn.ConvTranspose1d, x: str) -> str:
        assert conv.bias is not None
        writer, padding = self._writer, conv.padding[0]
        if isinstance(conv, Conv):
            reach = conv.dilation[0] * (conv.kernel_size[0] - 1)
            padding = reach // 2
            if self._extend is not None:
                x, padding = self._extend(conv.index, x, reach, conv.in_channels), 0
        return writer.node(
            "ConvTranspose" if isinstance(conv, nn.ConvTranspose1d) else "Conv",
            x,
            writer.constant(conv.weight),
            writer.constant(conv.bias),
            kernel_shape=[*conv.kernel_size],
            strides=[*conv.stride],
            dilations=[*conv.dilation],
            pads=[padding, padding],
        )
