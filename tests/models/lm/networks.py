"""Small language models with random weights, one a family."""

import torch

from firstword.models.config import ConformerConfig, LMConfig, Qwen2Config, Qwen2LMConfig, TransformerLMConfig
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM

NUM_SPEECH_IDS = 60
NUM_TEXT_IDS = 40
QWEN2 = Qwen2Config(
    vocab_size=NUM_TEXT_IDS,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
)
COSYVOICE2 = Qwen2LMConfig(NUM_SPEECH_IDS, QWEN2, has_cosyvoice3_vocabulary=False)
COSYVOICE3 = Qwen2LMConfig(NUM_SPEECH_IDS, QWEN2, has_cosyvoice3_vocabulary=True)
COSYVOICE1 = TransformerLMConfig(
    text_token_size=NUM_TEXT_IDS,
    speech_token_size=NUM_SPEECH_IDS,
    text_encoder=ConformerConfig(24, 24, 4, 48, 2, chunk=1),
    decoder=ConformerConfig(24, 24, 4, 48, 2, chunk=1, activation="relu", has_input_relu=True),
)
FAMILIES: dict[str, LMConfig] = {"cosyvoice1": COSYVOICE1, "cosyvoice2": COSYVOICE2, "cosyvoice3": COSYVOICE3}


def make_model(
    family: str, seed: int = 0, sharpness: float = 1.0, config: LMConfig | None = None
) -> Qwen2LM | TransformerLM:
    """sharpness: how far the logits are from each other. config: None takes the family's."""
    config = config or FAMILIES[family]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = TransformerLM(config) if isinstance(config, TransformerLMConfig) else Qwen2LM(config)
        for name, parameter in model.named_parameters():
            if "bias" in name:
                parameter.data.normal_(std=0.2)
    model.head.weight.data.mul_(sharpness)
    return model.requires_grad_(False).eval()
