"""The language models of the reference cases, and their decoding plans."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firstword.models.checkpoint.names import QWEN2_LM, TRANSFORMER_LM, to_published
from firstword.models.checkpoint.weights import load_exactly
from firstword.models.config import ConformerConfig, Qwen2Config, Qwen2LMConfig, TransformerLMConfig
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import BistreamPlan, OfflinePlan, Plan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from tests.parity.reference import Case

END_OF_PROMPT_ID = 151646


def load_lm(case: Case) -> Qwen2LM | TransformerLM:
    if case.config["kind"] == "TransformerLM":
        model: Qwen2LM | TransformerLM = TransformerLM(transformer_config(case.config))
        load_exactly(model, case.weights, TRANSFORMER_LM, Path(case.name))
        return model
    model = Qwen2LM(qwen2_config(case.config))
    weights = dict(case.weights)
    if "embed_rows" in case.io:
        table = torch.zeros(case.config["qwen2"]["vocab_size"], case.config["qwen2"]["hidden_size"])
        table[case.io["embed_rows"]] = case.io["embed_rows_weight"]
        weights[to_published("text_embedding.weight", QWEN2_LM)] = table
    load_exactly(model, weights, QWEN2_LM, Path(case.name))
    return model


def qwen2_config(config: dict[str, Any]) -> Qwen2LMConfig:
    sizes = {name: value for name, value in config["qwen2"].items() if name != "tie_word_embeddings"}
    return Qwen2LMConfig(
        speech_token_size=config["speech_token_size"],
        qwen2=Qwen2Config(**sizes),
        has_cosyvoice3_vocabulary=config["kind"] == "CosyVoice3LM",
        mix_ratio=tuple(config["mix_ratio"]),
        length_normalized_loss=config["length_normalized_loss"],
        label_smoothing=config["lsm_weight"],
    )


def transformer_config(config: dict[str, Any]) -> TransformerLMConfig:
    return TransformerLMConfig(
        text_token_size=config["text_token_size"],
        speech_token_size=config["speech_token_size"],
        text_encoder=conformer_config(config["text_encoder"]),
        decoder=conformer_config(config["llm"], activation="relu"),
    )


def conformer_config(config: dict[str, Any], **changes: Any) -> ConformerConfig:
    return ConformerConfig(
        input_size=config["input_size"],
        width=config["output_size"],
        num_heads=config["attention_heads"],
        feedforward_size=config["linear_units"],
        num_layers=config["num_blocks"],
        chunk=config["static_chunk_size"],
        has_input_relu=config["input_layer"] == "linear_legacy",
        **changes,
    )


def ids(tensor: Tensor) -> list[int]:
    return tensor.flatten().tolist()


def speaker_of(case: Case) -> Tensor | None:
    return case.io["embedding"][0] if "embedding" in case.io else None


def offline_plan(case: Case, model: Qwen2LM | TransformerLM) -> OfflinePlan:
    io = case.io
    return OfflinePlan(
        model.vocabulary, ids(io["text"]), ids(io["prompt_text"]), ids(io["prompt_speech_token"])
    )


def bistream_plan(case: Case, model: Qwen2LM) -> tuple[BistreamPlan, list[int]]:
    """The plan and the instruction it starts with."""
    prompt_text, cut = ids(case.io["prompt_text"]), 0
    if model.config.has_cosyvoice3_vocabulary:
        cut = prompt_text.index(END_OF_PROMPT_ID) + 1
    plan = BistreamPlan(
        model.vocabulary,
        prompt_text[cut:],
        ids(case.io["prompt_speech_token"]),
        prompt_text[:cut],
        mix_ratio=model.config.mix_ratio,
    )
    return plan, prompt_text[:cut]


def decode(decoder: SpeechDecoder, plan: Plan) -> list[int]:
    """Steps until the row stops or waits; -> the speech tokens it emitted."""
    spoken: list[int] = []
    while decoder.rows:
        emitted = [event.speech_id for event in decoder.step() if isinstance(event, Emitted)]
        if not emitted:
            break
        spoken += emitted
    return spoken


def decode_pieces(
    model: Qwen2LM, plan: BistreamPlan, text: Sequence[int], piece_lengths: Sequence[int]
) -> list[int]:
    decoder = SpeechDecoder(model, model.config.sampling)
    decoder.add(RowRequest(plan, seed=0, is_greedy=True))
    spoken, start = decode(decoder, plan), 0
    for length in piece_lengths:
        plan.push_text(text[start : start + length])
        spoken += decode(decoder, plan)
        start += length
    assert start == len(text)
    plan.finish_text()
    return spoken + decode(decoder, plan)
