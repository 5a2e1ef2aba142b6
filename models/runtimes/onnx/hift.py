"""HiFT's generator of CosyVoice 1 and 2 in ONNX Runtime; their convolutions look to both sides.

Inputs: mel (B, M, T), source (B, n_fft + 2, U T + 1), the source's spectrum. Output: spectrum, like that.
"""

import numpy as np
import torch
from torch import Tensor

from firstword.models.config import HiFTConfig
from firstword.models.hift.hift import Conv, Generator, ResBlock
from firstword.models.layers import ConvContext
from firstword.models.onnx_graphs.generator import GeneratorWriter
from firstword.models.onnx_graphs.graph import GraphWriter, Shape, float32
from firstword.models.onnx_graphs.session import OrtSession


def generator_graph(generator: Generator, has_int8: bool = False) -> bytes:
    config, writer = generator.config, GraphWriter("generator", float32)
    assert not config.is_causal, "a causal generator keeps what is left of each convolution"
    shape: Shape = ["rows", config.istft_n_fft + 2, "spectra"]
    mel = writer.input("mel", ["rows", config.num_mels, "frames"])
    kind = Int8GeneratorWriter if has_int8 else GeneratorWriter
    spectrum = kind(generator, writer).spectrum(mel, writer.input("source", shape))
    writer.output("spectrum", spectrum, shape)
    return writer.model()


MIN_INT8_CHANNELS = 256


def is_wide(config: HiFTConfig) -> bool:
    """Whether 8 bits save time: else the time is in what stands around the products."""
    return config.base_channels >= MIN_INT8_CHANNELS


class Int8GeneratorWriter(GeneratorWriter):
    """The residual blocks' convolutions in 8 bits, channels last: x (B, T, C).

    Of a generator that is not causal.
    """

    def _stage(self, x: str, source: str, source_block: ResBlock, blocks: list[ResBlock]) -> str:
        x, source = self._swapped(x), self._swapped(source)
        self._frames = self._writer.counted(x)
        self._taps: dict[range, str] = {}  # by what a convolution reaches
        return self._swapped(super()._stage(x, source, source_block, blocks))

    def _inner_conv(self, conv: Conv, x: str) -> str:
        reached = range(0, conv.dilation[0] * conv.kernel_size[0], conv.dilation[0])
        if reached not in self._taps:
            offsets = self._writer.constant(np.array(reached, np.int32))
            self._taps[reached] = self._writer.node("Add", self._frames, offsets)
        return self._writer.int8_conv(conv, x, self._taps[reached])

    def _by_channel(self, values: Tensor) -> Tensor:
        return values

    def _swapped(self, x: str) -> str:
        return self._writer.node("Transpose", x, perm=[0, 2, 1])


class OnnxGenerator:
    """Runs the generator's graph, as a `firstword.models.hift.hift.Generate`."""

    def __init__(self, generator: Generator, has_int8: bool, num_threads: int):
        self._session = OrtSession(generator_graph(generator, has_int8), num_threads)
        self._rows = 1 if has_int8 else None  # in a run: 8 bits have one scale for all

    def __call__(
        self,
        mel: Tensor,
        source_spectrum: Tensor,
        context: ConvContext | None = None,
        is_start: bool = True,
    ) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum of the same shape."""
        spectrum = torch.empty(source_spectrum.shape)
        rows = self._rows or len(mel)
        parts = (part.contiguous().split(rows) for part in (mel, source_spectrum, spectrum))
        for mel_rows, source_rows, spectrum_rows in zip(*parts, strict=True):
            self._session.run({"mel": mel_rows, "source": source_rows}, {"spectrum": spectrum_rows})
        return spectrum
