"""HiFT's generator as an ONNX graph, where its convolutions look to both sides (CosyVoice 1 and 2).

Inputs: mel (B, M, T), source (B, n_fft + 2, U T + 1), the source's spectrum. Output: spectrum, like that.

Written by hand, in 0.1 s at start: `torch.onnx.export` would need onnxscript on the user's machine, and a
cache on disk with its invalidation, to save these seventy lines.
"""

import numpy as np
import torch
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
from firstword.models.onnx.graph import GraphWriter, Shape, float32
from firstword.models.onnx.session import OrtSession, each


def generator_graph(generator: Generator) -> bytes:
    config, writer = generator.config, GraphWriter("generator", float32)
    assert not config.is_causal, "a causal generator keeps what is left of each convolution"
    shape: Shape = ["rows", config.istft_n_fft + 2, "spectra"]
    x = _conv(writer, generator.conv_pre, writer.input("mel", ["rows", config.num_mels, "frames"]))
    source = writer.input("source", shape)
    per_stage = len(config.resblock_kernel_sizes)
    ups, downs = each(Upsample, generator.ups), each(SourceDown, generator.source_downs)
    source_resblocks, resblocks = (
        each(ResBlock, part) for part in (generator.source_resblocks, generator.resblocks)
    )
    for index, (up, down, resblock) in enumerate(zip(ups, downs, source_resblocks, strict=True)):
        x = _conv(writer, up.conv, writer.node("LeakyRelu", x, alpha=config.leaky_relu_slope))
        if index == len(ups) - 1:
            x = writer.node("Pad", x, writer.integers(0, 0, 1, 0, 0, 0), mode="reflect")
        x = writer.node("Add", x, _resblock(writer, resblock, _conv(writer, down, source)))
        blocks = resblocks[index * per_stage : (index + 1) * per_stage]
        x = writer.node("Mean", *(_resblock(writer, block, x) for block in blocks))
    x = _conv(writer, generator.conv_post, writer.node("LeakyRelu", x, alpha=POST_SLOPE))
    writer.output("spectrum", _spectrum(writer, x), shape)
    return writer.model()


def _spectrum(writer: GraphWriter, x: str) -> str:
    log_magnitude, phase = writer.nodes("Split", 2, x, axis=1)
    limit = writer.constant(np.array(MAX_MAGNITUDE, np.float32))
    magnitude, angle = writer.node("Min", writer.node("Exp", log_magnitude), limit), writer.node("Sin", phase)
    parts = (writer.node("Mul", magnitude, writer.node(wave, angle)) for wave in ("Cos", "Sin"))
    return writer.node("Concat", *parts, axis=1)


def _resblock(writer: GraphWriter, block: ResBlock, x: str) -> str:
    snakes = zip(each(Snake, block.snakes1), each(Snake, block.snakes2), strict=True)
    convs = zip(each(Conv, block.convs1), each(Conv, block.convs2), strict=True)
    for (snake1, snake2), (conv1, conv2) in zip(snakes, convs, strict=True):
        y = _conv(writer, conv1, _snake(writer, snake1, x))
        x = writer.node("Add", x, _conv(writer, conv2, _snake(writer, snake2, y)))
    return x


def _snake(writer: GraphWriter, snake: Snake, x: str) -> str:
    alpha = snake.alpha.float()[:, None]
    sine = writer.node("Sin", writer.node("Mul", x, writer.constant(alpha)))
    scale = writer.constant((alpha + SNAKE_EPS).reciprocal())
    return writer.node("Add", x, writer.node("Mul", writer.node("Mul", sine, sine), scale))


def _conv(writer: GraphWriter, conv: nn.Conv1d | nn.ConvTranspose1d, x: str) -> str:
    assert conv.bias is not None
    padding = conv.dilation[0] * (conv.kernel_size[0] - 1) // 2 if isinstance(conv, Conv) else conv.padding[0]
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


class OnnxGenerator:
    """Runs the generator's graph, as a `firstword.models.hift.hift.Generate`."""

    def __init__(self, generator: Generator, num_threads: int):
        self._session = OrtSession(generator_graph(generator), num_threads)

    def __call__(self, mel: Tensor, source_spectrum: Tensor) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum of the same shape."""
        spectrum = torch.empty(source_spectrum.shape)
        inputs = {"mel": mel.contiguous(), "source": source_spectrum.contiguous()}
        self._session.run(inputs, {"spectrum": spectrum})
        return spectrum
