"""Wrap a checkpoint's loaded networks so that they run as CUDA graphs, with the same weights."""

from firstword.models.config import FRAMES_PER_TOKEN, NUM_MELS
from firstword.models.flow.flow import Flow
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.runtimes.torch.cuda_graphs.estimator import GraphedEstimator
from firstword.models.runtimes.torch.cuda_graphs.lm import GraphedLM
from firstword.models.runtimes.torch.cuda_graphs.vocoder import GraphedGenerator


def graphed_lm(lm: Qwen2LM | TransformerLM) -> SpeechLM:
    """Return `lm` itself for CosyVoice 1, whose attention has relative positions."""
    return GraphedLM(lm) if isinstance(lm, Qwen2LM) else lm


def graphed_estimator(flow: Flow) -> GraphedEstimator:
    rows = flow.config.cfm.rows_per_stream
    return GraphedEstimator(flow.estimator, NUM_MELS, FRAMES_PER_TOKEN * flow.chunk_tokens, rows)


def graphed_generator(hift: HiFT) -> GraphedGenerator | None:
    """None for CosyVoice 3, whose vocoder carries the state of its convolutions from piece to piece."""
    return None if hift.config.is_causal else GraphedGenerator(hift.generator)
