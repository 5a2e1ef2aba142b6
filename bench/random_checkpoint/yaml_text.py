"""The hyper-parameter file of a random checkpoint, in the form in which the published ones come.

It holds more than a reader of the networks needs: seeds, GAN and data pipeline of the training.
"""

import json
from dataclasses import asdict
from string import Template
from typing import Any

from firstword.bench.random_checkpoint import network_yaml, training_yaml
from firstword.bench.random_checkpoint.sizes import Sizes
from firstword.models.config import Family, Qwen2Config

SEEDS = """# random initialisation can be repeated
__set_seed1: !apply:random.seed [1986]
__set_seed2: !apply:numpy.random.seed [1986]
__set_seed3: !apply:torch.manual_seed [1986]
__set_seed4: !apply:torch.cuda.manual_seed_all [1986]
"""

TRANSFORMER_HEAD = """
# fixed parameters
sample_rate: 22050
text_encoder_input_size: $text_width
llm_input_size: $decoder_width
llm_output_size: $decoder_width
spk_embed_dim: 192
"""

QWEN2_HEAD = """
# fixed parameters
sample_rate: 24000
llm_input_size: $qwen2_hidden_size
llm_output_size: $qwen2_hidden_size
spk_embed_dim: 192
qwen_pretrain_path: ''
token_frame_rate: 25
token_mel_ratio: 2

# of streaming
chunk_size: 25 # speech tokens
num_decoding_left_chunks: -1 # all
"""

NETWORKS: dict[Family, tuple[str, ...]] = {
    "cosyvoice1": (network_yaml.TRANSFORMER_LM, network_yaml.COSYVOICE1_FLOW, network_yaml.TWO_STAGE_HIFT),
    "cosyvoice2": (network_yaml.QWEN2_LM, network_yaml.UNET_FLOW, network_yaml.THREE_STAGE_HIFT),
    "cosyvoice3": (network_yaml.SPECIAL_ROWS_LM, network_yaml.DIT_FLOW, network_yaml.CAUSAL_HIFT),
}

MEL: dict[Family, dict[str, Any]] = {
    "cosyvoice1": {"mel_n_fft": 1024, "mel_hop_samples": 256, "mel_fmax_hz": 8000},
    "cosyvoice2": {"mel_n_fft": 1920, "mel_hop_samples": 480, "mel_fmax_hz": 8000},
    "cosyvoice3": {"mel_n_fft": 1920, "mel_hop_samples": 480, "mel_fmax_hz": "null"},
}


def yaml_text(family: Family, sizes: Sizes) -> str:
    is_first = family == "cosyvoice1"
    head = TRANSFORMER_HEAD if is_first else QWEN2_HEAD
    tokenizer = training_yaml.WHISPER_TOKENIZER if is_first else training_yaml.QWEN2_TOKENIZER
    data = (
        training_yaml.MEL,
        training_yaml.GAN,
        tokenizer,
        training_yaml.PROCESSORS,
        training_yaml.OPTIMIZER,
    )
    template = Template("".join([SEEDS, head, *NETWORKS[family], *data]))
    return template.substitute(
        _flat(asdict(sizes)), **MEL[family], family=family, text_token_size=sizes.text_token_size
    )


def qwen2_json(config: Qwen2Config) -> str:
    values = {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_dropout": 0.0,
        "bos_token_id": 151643,
        "eos_token_id": 151643,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "max_position_embeddings": 32768,
        "max_window_layers": config.num_hidden_layers,
        "model_type": "qwen2",
        "sliding_window": 32768,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "use_sliding_window": False,
    }
    return json.dumps(values | asdict(config), indent=2)


def _flat(values: dict[str, Any]) -> dict[str, Any]:
    """Nested names joined by `_`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = _flat(value) if isinstance(value, dict) else {"": value}
        flat |= {f"{name}_{key}".rstrip("_"): entry for key, entry in inner.items()}
    return flat
