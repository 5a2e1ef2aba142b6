"""Write the networks' weights under their published names, the two ONNX graphs and the speaker table."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
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
from firstword.models.checkpoint.speaker_table import write_speaker_table
from firstword.models.checkpoint.weights import published_tensors
from firstword.models.config import (
    COSYVOICE1_FRAME_RATE_HZ,
    COSYVOICE1_TOKEN_RATE_HZ,
    FRAMES_PER_TOKEN,
    NUM_MELS,
    SPEAKER_EMBEDDING_SIZE,
    TOKEN_RATE_HZ,
    CosyVoice1FlowConfig,
    DiTFlowConfig,
    Family,
    ModelConfig,
    TransformerLMConfig,
)
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.flow.dit import ROTARY_BASE
from firstword.models.flow.flow import Flow
from firstword.models.frontend.features import NUM_FBANK_BINS, WHISPER_NUM_MELS
from firstword.models.frontend.speaker import SpeakerFeatures
from firstword.models.hift.hift import HiFT
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.tokenizer import load_text_tokenizer

if TYPE_CHECKING:
    import onnx

WeightsFormat = Literal["pt", "safetensors"]
Tensors = dict[str, Tensor]

MEAN_F0_HZ = 150.0  # so that the vocoder is voiced
LOG_GAIN = 1.5  # of its magnitudes, so that it is audible: -15 to -30 dBFS
STOP_ROW_SCALE = 0.8  # of CosyVoice 3's 200 special classes, which have no bias
TIED_HEAD = "llm.model.lm_head.weight"
G_SUFFIX, V_SUFFIX = ".parametrizations.weight.original0", ".parametrizations.weight.original1"


def write_networks(
    directory: Path, config: ModelConfig, seed: int, weights_format: WeightsFormat, device: str = "cpu"
) -> None:
    """Write weights as torch initializes each layer. Holds one network in memory at a time."""
    parts: list[tuple[str, Callable[[ModelConfig], Tensors]]] = [
        ("llm", lm_tensors),
        ("flow", flow_tensors),
        ("hift", hift_tensors),
    ]
    for index, (stem, make) in enumerate(parts):
        with torch.random.fork_rng(devices=[]), torch.device(device):
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


Array = npt.NDArray[Any]
Value = tuple[str, int, list[int | str]]  # name, element type, shape

OPSET = 17
IR_VERSION = 8
ID_SPREAD = 10_000  # ids by which a token moves as a frame's weighted sum moves by one


def write_speech_tokenizer(path: Path, vocab_size: int, frames_per_token: int, seed: int) -> None:
    """Token = a weighted sum of every `frames_per_token`-th frame's bins, folded into the vocabulary."""
    onnx = _import_onnx()
    node, types = onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Transpose", ["feats"], ["frames"], perm=[0, 2, 1]),  # (1, T, 128)
        node("Slice", ["frames", "start", "feats_length", "axis", "step"], ["picked"]),  # (1, L, 128)
        node("MatMul", ["picked", "weights"], ["sums"]),  # (1, L)
        node("Floor", ["sums"], ["floored"]),
        node("Cast", ["floored"], ["unbounded"], to=types.INT64),
        node("Mod", ["unbounded", "vocab_size"], ["ids"]),  # never negative
        node("Cast", ["ids"], ["indices"], to=types.INT32),
    ]
    weights = np.random.default_rng(seed).standard_normal(WHISPER_NUM_MELS) * ID_SPREAD
    constants: dict[str, Array] = {
        "start": np.array([0], np.int32),
        "axis": np.array([1], np.int32),
        "step": np.array([frames_per_token], np.int32),
        "weights": weights.astype(np.float32),
        "vocab_size": np.array(vocab_size),
    }
    inputs: list[Value] = [
        ("feats", types.FLOAT, [1, WHISPER_NUM_MELS, "T"]),
        ("feats_length", types.INT32, [1]),
    ]
    _write_graph(path, nodes, inputs, ("indices", types.INT32, [1, "L"]), constants)


def write_speaker_encoder(path: Path, seed: int) -> None:
    """Embedding = random sums of each bin's mean distance from its mean, which is 0 in the input."""
    onnx = _import_onnx()
    node, types = onnx.helper.make_node, onnx.TensorProto
    nodes = [
        node("Abs", ["input"], ["distances"]),
        node("ReduceMean", ["distances"], ["means"], axes=[1], keepdims=0),  # (1, 80)
        node("MatMul", ["means", "weights"], ["output"]),
    ]
    weights = np.random.default_rng(seed).standard_normal((NUM_FBANK_BINS, SPEAKER_EMBEDDING_SIZE))
    inputs: list[Value] = [("input", types.FLOAT, [1, "T", NUM_FBANK_BINS])]
    output: Value = ("output", types.FLOAT, [1, SPEAKER_EMBEDDING_SIZE])
    _write_graph(path, nodes, inputs, output, {"weights": weights.astype(np.float32)})


def _write_graph(
    path: Path, nodes: "list[onnx.NodeProto]", inputs: list[Value], output: Value, constants: dict[str, Array]
) -> None:
    onnx = _import_onnx()
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [onnx.helper.make_tensor_value_info(*value) for value in inputs],
        [onnx.helper.make_tensor_value_info(*output)],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [onnx.helper.make_opsetid("", OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _import_onnx() -> Any:
    """Serving does not need it, so it may be missing."""
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "writing a random checkpoint needs the package `onnx`: install firstword with its extra `dev`"
        ) from error
    return onnx


EMBEDDING_SPEAKER = "random-embedding"
PROMPT_SPEAKER = "random-prompt"

PROMPT_S = 3
PROMPT_TEXT = "hello world, this is my voice."
SYSTEM_TEXT = "You are a helpful assistant.<|endofprompt|>"  # in front of every prompt text of CosyVoice 3


def write_speakers(path: Path, family: Family, vocab_size: int, seed: int) -> None:
    """Write `spk2info.pt` with a speaker of each published kind; the tokenizer's files stand beside it."""
    generator = torch.Generator().manual_seed(seed)
    text = SYSTEM_TEXT + PROMPT_TEXT if family == "cosyvoice3" else PROMPT_TEXT
    text_ids = load_text_tokenizer(family, path.parent).encode(text)
    if family == "cosyvoice1":
        num_tokens = PROMPT_S * COSYVOICE1_TOKEN_RATE_HZ
        num_frames = int(PROMPT_S * COSYVOICE1_FRAME_RATE_HZ)
    else:
        num_tokens = PROMPT_S * TOKEN_RATE_HZ
        num_frames = num_tokens * FRAMES_PER_TOKEN
    tokens = torch.randint(0, vocab_size, (num_tokens,), generator=generator, dtype=torch.int32)
    mel = torch.randn(num_frames, NUM_MELS, generator=generator) * 2 - 6  # like natural log-mel
    embedding = torch.randn(SPEAKER_EMBEDDING_SIZE, generator=generator)
    prompted = SpeakerFeatures("", tokens, mel, embedding, tuple(text_ids))
    alone = SpeakerFeatures.without_prompt(torch.randn(SPEAKER_EMBEDDING_SIZE, generator=generator))
    write_speaker_table(path, {EMBEDDING_SPEAKER: alone, PROMPT_SPEAKER: prompted})
