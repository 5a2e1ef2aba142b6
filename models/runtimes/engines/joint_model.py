"""The language model of CosyVoice 2 and 3 as a Qwen2 over one vocabulary of all ids: tensors and config."""

import json
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from firstword.models.checkpoint.names import QWEN2_LM
from firstword.models.checkpoint.weights import published_tensors
from firstword.models.config import Dtype, Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM

WEIGHTS_FILE: Final = "model.safetensors"
MAX_POSITIONS: Final = 32_768
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_PUBLISHED_DECODER = "llm.model."  # prefix of Qwen2's own layer names


def tensors_of(lm: Qwen2LM) -> dict[str, Tensor]:
    """Return the weights by the names that Hugging Face's Qwen2 has for them."""
    published = published_tensors(lm, QWEN2_LM)
    tensors = {
        name.removeprefix(_PUBLISHED_DECODER): tensor
        for name, tensor in published.items()
        if name.startswith(_PUBLISHED_DECODER)
    }
    tensors["model.embed_tokens.weight"] = joint_table(lm)
    tensors["lm_head.weight"] = lm.head.weight.detach()
    if lm.head.bias is not None:
        tensors["lm_head.bias"] = lm.head.bias.detach()
    return tensors


def joint_table(lm: Qwen2LM) -> Tensor:
    """Return the embedding of every id of the joint vocabulary: (num_ids, C)."""
    tables = [lm.speech_embedding.weight, lm.text_embedding.weight]
    if not lm.config.has_cosyvoice3_vocabulary:
        tables.insert(1, lm.special_embedding.weight)
    table = torch.cat(tables).detach()
    assert len(table) == lm.vocabulary.num_ids, tuple(table.shape)
    return table


def qwen2_config(config: Qwen2LMConfig, dtype: Dtype) -> dict[str, Any]:
    """Return config.json by Qwen2's own names, without its architecture."""
    qwen2 = config.qwen2
    return {
        "model_type": "qwen2",
        "dtype": dtype,
        "vocab_size": Vocabulary.of(config).num_ids,
        "tie_word_embeddings": False,
        "hidden_size": qwen2.hidden_size,
        "intermediate_size": qwen2.intermediate_size,
        "num_hidden_layers": qwen2.num_hidden_layers,
        "num_attention_heads": qwen2.num_attention_heads,
        "num_key_value_heads": qwen2.num_key_value_heads,
        "rms_norm_eps": qwen2.rms_norm_eps,
        "rope_parameters": {"rope_type": "default", "rope_theta": qwen2.rope_theta},
        "hidden_act": "silu",
        "max_position_embeddings": MAX_POSITIONS,
        "use_sliding_window": False,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
