"""Build the ONNX graphs of a checkpoint's networks.

The networks for which there are graphs, made from loaded ones.

A graph has weights of its own, so the network it is made from gives its up and cannot run any more.
"""

from firstword.models.flow.encoder import ConformerFront
from firstword.models.flow.flow import Flow, time_steps
from firstword.models.flow.incremental import Estimator, Front
from firstword.models.flow.unet import CausalUNet
from firstword.models.hift.hift import Generate, HiFT
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.onnx.encoder import FusedFront
from firstword.models.onnx.estimator import FusedEstimator, dit_estimator, unet_estimator
from firstword.models.onnx.hift import FusedGenerator
from firstword.models.onnx.quantization import float32, int8_by_blocks, int8_whole
from firstword.models.onnx.qwen2 import HEAD_DIM_STEP, OnnxQwen2LM


def fused_lm(lm: Qwen2LM | TransformerLM, has_int8: bool, num_threads: int) -> SpeechLM:
    """Given back as it is: CosyVoice 1's, and one whose heads the graph's attention does not take.

    has_int8: the weights, and what they are multiplied with.
    """
    if isinstance(lm, TransformerLM) or lm.config.qwen2.head_dim % HEAD_DIM_STEP:
        return lm
    fused = OnnxQwen2LM(lm, int8_by_blocks if has_int8 else float32, num_threads)
    lm.decoder.to("meta")
    return fused


def fused_estimator(flow: Flow, has_int8: bool, num_threads: int) -> Estimator:
    """has_int8: the products of its transformer blocks."""
    product, estimator = int8_whole if has_int8 else float32, flow.estimator
    if isinstance(estimator, CausalUNet):
        graph = unet_estimator(estimator, product)
    else:
        graph = dit_estimator(estimator, product)
    fused = FusedEstimator(graph, [t for t, _ in time_steps(flow.config.cfm.num_steps)], num_threads)
    estimator.to("meta")
    return fused


def fused_front(flow: Flow, num_threads: int) -> Front | None:
    """None: CosyVoice 3's is two small convolutions."""
    if not isinstance(flow.front, ConformerFront):
        return None
    fused = FusedFront(flow.front, num_threads)
    flow.front.encoder.to("meta")
    flow.front.projection.to("meta")
    return fused


def fused_generator(hift: HiFT, num_threads: int) -> Generate | None:
    """None: there is no graph for CosyVoice 3's."""
    if hift.config.is_causal:
        return None
    fused = FusedGenerator(hift.generator, num_threads)
    hift.generator.to("meta")
    return fused
