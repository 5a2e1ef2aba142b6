"""Wrap a checkpoint's loaded networks so that they run as CUDA graphs, with the same weights."""

from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowNetworks
from firstword.models.hift.hift import HiFT
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from firstword.models.networks import Networks
from firstword.models.runtimes.torch.cuda_graphs.causal_vocoder import GraphedCausalVocoder
from firstword.models.runtimes.torch.cuda_graphs.flow import GraphedFlow
from firstword.models.runtimes.torch.cuda_graphs.token_decoder import GraphedLM
from firstword.models.runtimes.torch.cuda_graphs.windowed_vocoder import GraphedWindowedVocoder

PLANNED_STREAMS = 40  # that share the pages; a stream's window is shortened to fit
STREAMS_SHARE = 0.75  # of the pages; the rest is for prompts


def graphed_lm(lm: Qwen2LM | TransformerLM, max_rows: int) -> SpeechLM:
    """Return `lm` itself for CosyVoice 1, whose attention has relative positions. max_rows: see GraphedLM."""
    return GraphedLM(lm, max_rows) if isinstance(lm, Qwen2LM) else lm


def graphed_networks(flow: Flow, max_bytes: int = 0) -> FlowNetworks:
    """max_bytes: of the pages of all streams and prompts together."""
    whole = GraphedFlow(flow, max_bytes)
    of_stream = round(STREAMS_SHARE * whole.num_bytes) // PLANNED_STREAMS
    return FlowNetworks(flow.front, flow.estimator, whole, of_stream)


def graphed_vocoder(hift: HiFT) -> Networks:
    """The whole vocoder of CosyVoice 2 and 3, which carries its state from piece to piece."""
    is_causal = hift.config.is_causal
    return Networks(whole_vocoder=GraphedCausalVocoder(hift) if is_causal else GraphedWindowedVocoder(hift))
