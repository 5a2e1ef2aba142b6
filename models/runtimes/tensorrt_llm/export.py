"""Write a checkpoint's language model as an ordinary Qwen2 of Hugging Face, which TensorRT-LLM converts.

One vocabulary holds everything, in the published deployment's order: the tokenizer's ids, then the speech
tokens `<|s_0|>` ..., then the special ids. A Qwen2 has no bias at its head: the head's bias, and what keeps
text from being drawn, is a bias on the logits that each request carries (`embedding_bias`).
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file
from torch import Tensor

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import CheckpointError, Dtype, Qwen2LMConfig
from firstword.models.lm.plan import Vocabulary
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.engines.joint_model import (
    DTYPES,
    WEIGHTS_FILE,
    joint_table,
    qwen2_config,
    tensors_of,
    write_json,
)
from firstword.models.tokenizer import load_text_tokenizer
from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer

BIAS_FILE: Final = "embedding_bias.safetensors"
IDS_FILE: Final = "ids.json"
SAMPLING_FILE: Final = "sampling.json"
NEVER: Final = -1e4  # added to a logit; float16 holds it
PADDED_TO: Final = 64  # rows of the vocabulary, so that it can be split over GPUs


@dataclass(frozen=True, slots=True)
class MergedIds:
    """Where everything is in the merged vocabulary."""

    speech: int  # the first speech token
    num_speech: int
    sos: int
    task: int
    eos: int
    fill: int | None
    num_ids: int  # with padding

    @classmethod
    def of(cls, vocabulary: Vocabulary, num_text: int) -> "MergedIds":
        """num_text: ids of the tokenizer; our own ids but those of text stand behind them in their order."""
        num_used = num_text + vocabulary.first_text
        return cls(
            speech=num_text,
            num_speech=vocabulary.num_speech_ids,
            sos=num_text + vocabulary.sos,
            task=num_text + vocabulary.task,
            eos=num_text + vocabulary.eos,
            fill=None if vocabulary.fill is None else num_text + vocabulary.fill,
            num_ids=-(-num_used // PADDED_TO) * PADDED_TO,
        )

    def merged(self, id: int, vocabulary: Vocabulary) -> int:
        """Ours -> that of the merged vocabulary."""
        return self.speech + id if id < vocabulary.first_text else id - vocabulary.first_text

    def ours(self, id: int, vocabulary: Vocabulary) -> int:
        """That of the merged vocabulary -> ours."""
        return vocabulary.first_text + id if id < self.speech else id - self.speech


def export(directory: Path, out: Path, dtype: Dtype) -> MergedIds:
    """Write weights, config, tokenizer, the bias, the ids and the rules of drawing.

    Raises CheckpointError and OSError.
    """
    checkpoint = open_checkpoint(directory)
    if not isinstance(checkpoint.config.lm, Qwen2LMConfig):
        raise CheckpointError(
            f"{checkpoint.directory}: a checkpoint of {checkpoint.config.family}, whose language model is no "
            "Qwen2; TensorRT-LLM takes those of CosyVoice 2 and 3"
        )
    lm = checkpoint.load_lm(DTYPES[dtype])
    tokenizer = load_text_tokenizer(checkpoint.config.family, checkpoint.directory)
    assert isinstance(lm, Qwen2LM), lm
    assert isinstance(tokenizer, Qwen2Tokenizer), tokenizer
    vocabulary = lm.vocabulary
    ids = MergedIds.of(vocabulary, tokenizer.vocab_size)
    out.mkdir(parents=True, exist_ok=True)
    save_file(merged_tensors(lm, ids), out / WEIGHTS_FILE, metadata={"format": "pt"})
    save_file({"embedding_bias": embedding_bias(lm, ids)}, out / BIAS_FILE)
    write_json(out / "config.json", hugging_face_config(lm.config, ids, dtype))
    write_json(out / IDS_FILE, asdict(ids))
    rules = {"vocabulary": asdict(vocabulary), "sampling": asdict(checkpoint.config.lm.sampling)}
    write_json(out / SAMPLING_FILE, rules)
    (out / "tokenizer.json").write_text(tokenizer.with_tokens(token_names(vocabulary)), encoding="utf-8")
    write_json(out / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast"})
    return ids


def merged_tensors(lm: Qwen2LM, ids: MergedIds) -> dict[str, Tensor]:
    """By the names of a Qwen2ForCausalLM."""
    tensors = tensors_of(lm)
    tensors.pop("lm_head.bias", None)
    table, head = joint_table(lm), lm.head.weight.detach()
    first_text, num_classes = lm.vocabulary.first_text, lm.vocabulary.num_classes
    merged = table.new_zeros(ids.num_ids, table.shape[1])
    merged[: ids.speech] = table[first_text : first_text + ids.speech]
    merged[ids.speech : ids.speech + first_text] = table[:first_text]
    outputs = torch.zeros_like(merged)
    outputs[ids.speech : ids.speech + num_classes] = head
    return {**tensors, "model.embed_tokens.weight": merged, "lm_head.weight": outputs}


def embedding_bias(lm: Qwen2LM, ids: MergedIds) -> Tensor:
    """(num_ids,) float32."""
    bias = torch.full((ids.num_ids,), NEVER)
    head = lm.head.bias
    classes = slice(ids.speech, ids.speech + lm.vocabulary.num_classes)
    bias[classes] = 0.0 if head is None else head.detach().float()
    return bias


def hugging_face_config(config: Qwen2LMConfig, ids: MergedIds, dtype: Dtype) -> dict[str, Any]:
    theta = config.qwen2.rope_theta
    return {
        **qwen2_config(config, dtype),
        "architectures": ["Qwen2ForCausalLM"],
        "torch_dtype": dtype,
        "rope_theta": theta,  # where older readers look for it
        "vocab_size": ids.num_ids,
        "eos_token_id": ids.eos,
    }


def token_names(vocabulary: Vocabulary) -> list[str]:
    """Of the ids behind the tokenizer's, in their order."""
    named = {vocabulary.sos: "<|sos|>", vocabulary.task: "<|task_id|>", vocabulary.eos: "<|eos1|>"}
    num_eos, names = 1, []
    for id in range(vocabulary.first_text):
        if id < vocabulary.num_speech_ids:
            names.append(f"<|s_{id}|>")
        elif id in named:
            names.append(named[id])
        elif id in vocabulary.stop_ids:
            num_eos += 1
            names.append(f"<|eos{num_eos}|>")
        else:
            names.append(f"<|unused_{id}|>")
    return names
