"""Convert a checkpoint's language model for vLLM: one table of all ids, the head, Qwen2's layers.

`python -m firstword.models.runtimes.vllm.export CHECKPOINT OUT` does it; the service does so when needed.
"""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from firstword.models.checkpoint.names import QWEN2_LM
from firstword.models.checkpoint.open import lm_fingerprint, open_checkpoint
from firstword.models.checkpoint.weights import published_tensors
from firstword.models.config import CheckpointError, Dtype, Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.vllm.plugin import ARCHITECTURE

EXTRA_KEY: Final = "firstword"  # key of config.json for what Qwen2's own config lacks
WEIGHTS_FILE: Final = "model.safetensors"
ORIGIN_FILE: Final = "origin.json"
FORMAT: Final = 1  # of the files; an export of another format is replaced
MAX_POSITIONS: Final = 32_768
DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


_PUBLISHED_DECODER = "llm.model."  # prefix of Qwen2's own layer names


def export(directory: Path, out: Path, dtype: Dtype = "float32") -> bool:
    """Write the export. -> whether it was needed: one of the same weights and dtype is left as it is.

    `out` is replaced by the whole new one or not at all.

    Raises:
        CheckpointError: no checkpoint of CosyVoice 2 or 3, or `out` is something else than an export.
    """
    checkpoint = open_checkpoint(directory)
    origin = {"format": FORMAT, "lm_fingerprint": lm_fingerprint(directory), "dtype": dtype}
    if _origin_of(out) == origin:
        return False
    if out.exists() and _origin_of(out) is None and not (out.is_dir() and not any(out.iterdir())):
        raise CheckpointError(f"{out}: exists and was not written by this program; name another directory")
    if not isinstance(checkpoint.config.lm, Qwen2LMConfig):
        raise CheckpointError(
            f"{checkpoint.directory}: a checkpoint of {checkpoint.config.family}, whose language model is no "
            "Qwen2; vLLM runs those of CosyVoice 2 and 3"
        )
    lm = checkpoint.load_lm(DTYPES[dtype])
    assert isinstance(lm, Qwen2LM), lm
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.parent / f".{out.name}.{os.getpid()}.unfinished"
    unfinished.mkdir()
    try:
        write_model(lm, unfinished, dtype)
        _write_json(unfinished / ORIGIN_FILE, origin)
        if out.exists():
            old = out.parent / f".{out.name}.{os.getpid()}.old"
            out.rename(old)
            unfinished.rename(out)
            shutil.rmtree(old)
        else:
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def write_model(lm: Qwen2LM, directory: Path, dtype: Dtype) -> None:
    """Write what vLLM reads. dtype: that of `lm`, whose numbers are written as they are."""
    save_file(tensors_of(lm), directory / WEIGHTS_FILE, metadata={"format": "pt"})
    _write_json(directory / "config.json", config_of(lm.config, dtype))


def tensors_of(lm: Qwen2LM) -> dict[str, Tensor]:
    """By the names that vLLM's Qwen2 has for them."""
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


def config_of(config: Qwen2LMConfig, dtype: Dtype) -> dict[str, Any]:
    """Return config.json: Qwen2's own names, and ours under EXTRA_KEY."""
    qwen2, vocabulary = config.qwen2, Vocabulary.of(config)
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "qwen2",
        "dtype": dtype,
        "vocab_size": vocabulary.num_ids,
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
        EXTRA_KEY: {
            "vocabulary": asdict(vocabulary),
            "sampling": asdict(config.sampling),
            "has_head_bias": not config.has_cosyvoice3_vocabulary,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m firstword.models.runtimes.vllm.export", description=__doc__
    )
    parser.add_argument("checkpoint", type=Path, help="model directory of CosyVoice 2 or 3")
    parser.add_argument("out", type=Path, help="directory to write, or to reuse if it is of this checkpoint")
    parser.add_argument("--dtype", choices=list(DTYPES), default="float32")
    arguments = parser.parse_args()
    try:
        is_new = export(arguments.checkpoint, arguments.out, arguments.dtype)
    except CheckpointError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{arguments.out} {'written' if is_new else 'is up to date'}\n")


def _origin_of(out: Path) -> dict[str, Any] | None:
    """Return what an export was made of; None where `out` is not a finished export."""
    try:
        origin = json.loads((out / ORIGIN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return origin if isinstance(origin, dict) else None


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
