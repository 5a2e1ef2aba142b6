"""Build ONNX Runtime graphs from a checkpoint's loaded networks.

A graph has its own copy of the weights: the network it is built from gives its weights up and cannot run
any more.
"""

from typing import Final, Literal

from firstword.models.flow.encoder import ConformerFront
from firstword.models.flow.flow import Flow
from firstword.models.flow.solver import time_steps
from firstword.models.flow.unet import CausalUNet
from firstword.models.harmonic_vocos.network import HarmonicVocos
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.onnx_graphs.graph import (
    float32,
    int4_blockwise,
    int8_blockwise,
    int8_per_row,
    int8_per_tensor,
)
from firstword.models.runtimes.onnx.encoder import OnnxFront
from firstword.models.runtimes.onnx.estimator import OnnxEstimator, dit_estimator, unet_estimator
from firstword.models.runtimes.onnx.harmonic_vocos import OnnxHarmonicNetworks
from firstword.models.runtimes.onnx.hift import OnnxGenerator, is_wide
from firstword.models.runtimes.onnx.qwen2 import HEAD_DIM_STEP, OnnxQwen2LM, Products
from firstword.models.runtimes.onnx.state import StatePrecision

LMPrecision = Literal["float32", "int8", "int4"]
_PRODUCTS: Final[dict[LMPrecision, Products]] = {
    "float32": Products(float32, float32),
    "int8": Products(int8_blockwise, int8_blockwise, int8_per_row),
    "int4": Products(int4_blockwise, int8_blockwise, int8_per_row),
}


def onnx_lm(lm: Qwen2LM | TransformerLM, precision: LMPrecision, num_threads: int) -> SpeechLM:
    """Return `lm` itself for CosyVoice 1, and for heads that the graph's attention does not support.

    precision: of the weights of all linear layers; int8 and int4 have activations in 8 bits, and read prompts
    by a second copy of the weights, in 8 bits.
    """
    if isinstance(lm, TransformerLM) or lm.config.qwen2.head_dim % HEAD_DIM_STEP:
        return lm
    graph = OnnxQwen2LM(lm, _PRODUCTS[precision], num_threads)
    lm.decoder.to("meta")
    return graph


MIN_INT8_STATE_WIDTH = 512  # of keys: below, converting costs more than the memory is worth


def onnx_estimator(
    flow: Flow, has_int8: bool, num_threads: int, state_precision: StatePrecision | Literal["auto"] = "auto"
) -> OnnxEstimator:
    """has_int8: for the linear layers of its transformer blocks.

    state_precision: of the keys and values that a stream keeps; auto is int8 beside 8-bit products where they
    are many, else float32.
    """
    product, estimator = int8_per_tensor if has_int8 else float32, flow.estimator
    if state_precision == "auto":
        width = estimator.config.num_heads * estimator.config.head_dim
        state_precision = "int8" if has_int8 and width >= MIN_INT8_STATE_WIDTH else "float32"
    if isinstance(estimator, CausalUNet):
        graph = unet_estimator(estimator, product, state_precision)
    else:
        graph = dit_estimator(estimator, product, state_precision)
    made = OnnxEstimator(graph, [t for t, _ in time_steps(flow.config.cfm.num_steps)], num_threads)
    estimator.to("meta")
    return made


def onnx_front(flow: Flow, num_threads: int) -> OnnxFront | None:
    """None for CosyVoice 3, whose front is two small convolutions."""
    if not isinstance(flow.front, ConformerFront):
        return None
    graph = OnnxFront(flow.front, num_threads)
    flow.front.encoder.to("meta")
    flow.front.projection.to("meta")
    return graph


def onnx_vocoder(
    vocoder: HiFT | HarmonicVocos, has_int8: bool, num_threads: int
) -> OnnxGenerator | OnnxHarmonicNetworks | None:
    """As `onnx_generator`, of either class of vocoder."""
    if isinstance(vocoder, HarmonicVocos):
        return OnnxHarmonicNetworks(vocoder, has_int8, num_threads)
    return onnx_generator(vocoder, has_int8, num_threads)


def onnx_generator(hift: HiFT, has_int8: bool, num_threads: int) -> OnnxGenerator | None:
    """None for CosyVoice 3: there is no graph of the causal generator.

    has_int8: for the convolutions of its residual blocks, where they are wide enough to gain by it.
    """
    if hift.config.is_causal:
        return None
    graph = OnnxGenerator(hift.generator, has_int8 and is_wide(hift.config), num_threads)
    hift.generator.to("meta")
    return graph
