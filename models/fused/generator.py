"""HiFT's generator as one call, on a CPU, for CosyVoice 1 and 2."""

import torch
from torch import Tensor

from models.fused.generator_graph import generator_graph
from models.fused.session import FusedGraph
from models.hift.generator import Generator


class FusedGenerator:
    """A `models.hift.hift.Generate`."""

    def __init__(self, generator: Generator, num_threads: int):
        self._graph = FusedGraph(generator_graph(generator), num_threads)

    def __call__(self, mel: Tensor, source_spectrum: Tensor) -> Tensor:
        """mel (B, M, T), source_spectrum (B, n_fft + 2, U T + 1) -> spectrum of the same shape."""
        spectrum = torch.empty(source_spectrum.shape)
        inputs = {"mel": mel.contiguous(), "source": source_spectrum.contiguous()}
        self._graph.run(inputs, {"spectrum": spectrum})
        return spectrum
