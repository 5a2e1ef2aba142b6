"""CosyVoice 2's and 3's language model as a vLLM model: joint vocabulary in, speech classes out."""

import torch
from torch import Tensor, nn
from vllm.config import VllmConfig
from vllm.model_executor.layers.logits_processor import LogitsProcessor
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.model_executor.models.qwen2 import Qwen2ForCausalLM, Qwen2Model
from vllm.model_executor.models.utils import maybe_prefix

from firstword.models.runtimes.vllm.export import EXTRA_KEY


class JointSpeechLM(Qwen2ForCausalLM):
    """Qwen2 over a table of all ids, with a head over the speech table's classes alone.

    The head of CosyVoice 2 has a bias. It is never quantized: it is small, and all sampling depends on it.
    """

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        nn.Module.__init__(self)  # Qwen2's own would build a head as large as the table
        config = vllm_config.model_config.hf_config
        extra = getattr(config, EXTRA_KEY)
        num_classes = extra["vocabulary"]["num_classes"]
        self.config, self.quant_config = config, vllm_config.quant_config
        self.model = Qwen2Model(vllm_config=vllm_config, prefix=maybe_prefix(prefix, "model"))
        self.lm_head = ParallelLMHead(
            num_classes,
            config.hidden_size,
            bias=extra["has_head_bias"],
            prefix=maybe_prefix(prefix, "lm_head"),
        )
        self.logits_processor = LogitsProcessor(num_classes)
        self.make_empty_intermediate_tensors = self.model.make_empty_intermediate_tensors

    def compute_logits(self, hidden_states: torch.Tensor) -> Tensor | None:
        """hidden_states (R, C) -> (R, V)."""
        return self.logits_processor(self.lm_head, hidden_states, self.lm_head.bias)
