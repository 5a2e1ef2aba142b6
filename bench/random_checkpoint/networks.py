"""Writes the networks' weights under their published names, one network at a time."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import safetensors.torch
import torch
from torch import Tensor

from firstword.models.checkpoint.names import (
    COSYVOICE1_FLOW,
    DIT_FLOW,
    HIFT,
    QWEN2_LM,
    TRANSFORMER_LM,
    UNET_FLOW,
)
from firstword.models.checkpoint.weights import published_tensors
from firstword.models.config import CosyVoice1FlowConfig, DiTFlowConfig, ModelConfig, TransformerLMConfig
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.dit import ROTARY_BASE
from firstword.models.flow.flow import Flow
from firstword.models.hift.hift import HiFT
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM

WeightsFormat = Literal["pt", "safetensors"]
Tensors = dict[str, Tensor]

MEAN_F0_HZ = 150.0  # so that the vocoder is voiced
LOG_GAIN = 1.5  # of its magnitudes, so that it is heard: -15 to -30 dBFS
STOP_ROW_SCALE = 0.8  # of CosyVoice 3's 200 special classes, which have no bias
TIED_HEAD = "llm.model.lm_head.weight"
G_SUFFIX, V_SUFFIX = ".parametrizations.weight.original0", ".parametrizations.weight.original1"


def write_networks(directory: Path, config: ModelConfig, seed: int, weights_format: WeightsFormat) -> None:
    """Weights as torch initialises each layer. Holds one network in memory at a time."""
    parts: list[tuple[str, Callable[[ModelConfig], Tensors]]] = [
        ("llm", lm_tensors),
        ("flow", flow_tensors),
        ("hift", hift_tensors),
    ]
    for index, (stem, make) in enumerate(parts):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(len(parts) * seed + index)
            _save(make(config), directory / f"{stem}.{weights_format}")


def lm_tensors(model: ModelConfig) -> Tensors:
    """A step ends the utterance with a chance far below 1 %, so that most run to their greatest length."""
    config = model.lm
    if isinstance(config, TransformerLMConfig):
        return published_tensors(TransformerLM(config), TRANSFORMER_LM)
    network = Qwen2LM(config)
    tensors = published_tensors(network, QWEN2_LM)
    if config.has_cosyvoice3_vocabulary:
        tensors["llm_decoder.weight"][config.speech_token_size :] *= STOP_ROW_SCALE
    tensors[TIED_HEAD] = tensors["llm.model.model.embed_tokens.weight"]
    return tensors


def flow_tensors(model: ModelConfig) -> Tensors:
    config = model.flow
    if isinstance(config, CosyVoice1FlowConfig):
        return published_tensors(CosyVoice1Flow(config), COSYVOICE1_FLOW)
    network = Flow(config)
    if not isinstance(config, DiTFlowConfig):
        return published_tensors(network, UNET_FLOW)
    tensors = published_tensors(network, DIT_FLOW)
    exponents = torch.arange(0, config.estimator.head_dim, 2) / config.estimator.head_dim
    tensors["decoder.estimator.rotary_embed.inv_freq"] = torch.pow(ROTARY_BASE, -exponents)
    return tensors


def hift_tensors(model: ModelConfig) -> Tensors:
    """Its convolutions as pairs of a magnitude and a direction, but for those of the source."""
    published = published_tensors(HiFT(model.hift), HIFT)
    published["f0_predictor.classifier.bias"] += MEAN_F0_HZ
    published["conv_post.bias"][: model.hift.istft_n_fft // 2 + 1] += LOG_GAIN
    tensors: Tensors = {}
    for name, tensor in published.items():
        if tensor.dim() != 3 or name.startswith("source_downs."):
            tensors[name] = tensor
            continue
        stem = name.removesuffix(".weight")
        tensors[stem + G_SUFFIX] = tensor.flatten(1).norm(dim=1)[:, None, None]  # (rows, 1, 1)
        tensors[stem + V_SUFFIX] = tensor
    return tensors


def _save(tensors: Tensors, path: Path) -> None:
    if path.suffix == ".pt":
        torch.save(tensors, path)
        return
    if TIED_HEAD in tensors:
        tensors[TIED_HEAD] = tensors[TIED_HEAD].clone()  # safetensors refuses shared memory
    safetensors.torch.save_file(tensors, path)
