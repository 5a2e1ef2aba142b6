"""The language models against the published implementation: log-probabilities, tokens, losses."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.names import QWEN2_LM, TRANSFORMER_LM, to_published
from firstword.models.checkpoint.weights import load_exactly
from firstword.models.config import ConformerConfig, Qwen2Config, Qwen2LMConfig, TransformerLMConfig
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder
from firstword.models.lm.plan import (
    IGNORED,
    BistreamPlan,
    Layout,
    OfflinePlan,
    Plan,
    bistream_layout,
    offline_layout,
)
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM
from tests.parity.reference import NETWORK_TOLERANCE, Case, assert_close, load_case
from training.losses import LossConfig, teacher_forced, token_loss

END_OF_PROMPT_ID = 151646
QWEN2_CASES = pytest.mark.parametrize("name", ["llm_v2", "llm_v3"])
ALL_CASES = pytest.mark.parametrize("name", ["llm_v1", "llm_v2", "llm_v3"])


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


def allowed_argmax(model: Qwen2LM, layout: Layout) -> list[int]:
    """For every place with a speech token as target: the most probable speech token there."""
    logits, targets = teacher_forced(model, [layout])
    is_speech = (targets != IGNORED) & (targets < model.vocabulary.num_speech_ids)
    return logits[is_speech][:, : model.vocabulary.num_speech_ids].argmax(-1).tolist()


@ALL_CASES
@torch.inference_mode()
def test_first_log_probabilities_are_the_published_ones(name: str) -> None:
    case = load_case(name)
    model = load_lm(case)
    expected = case.io["greedy_logp_first8"]
    prompt, spoken = ids(case.io["prompt_speech_token"]), ids(case.io["greedy_tokens"])
    text = [*ids(case.io["prompt_text"]), *ids(case.io["text"])]
    layout = offline_layout(model.vocabulary, text, [*prompt, *spoken[: len(expected) - 1]])
    logits, _ = teacher_forced(model, [layout], [speaker_of(case)])
    log_p = logits[0, -len(expected) :].log_softmax(-1)
    assert_close(log_p[expected.isfinite()], expected[expected.isfinite()], NETWORK_TOLERANCE)


@ALL_CASES
def test_greedy_decoding_gives_the_published_tokens(name: str) -> None:
    case = load_case(name)
    model = load_lm(case)
    decoder = SpeechDecoder(model, model.config.sampling)
    plan = offline_plan(case, model)
    decoder.add(RowRequest(plan, seed=0, is_greedy=True, speaker=speaker_of(case)))
    assert decode(decoder, plan) == ids(case.io["greedy_tokens"])


@QWEN2_CASES
def test_text_in_pieces_gives_the_published_tokens_up_to_the_end_of_the_text(name: str) -> None:
    case = load_case(name)
    model = load_lm(case)
    assert isinstance(model, Qwen2LM)
    plan, instruct = bistream_plan(case, model)
    spoken = decode_pieces(model, plan, ids(case.io["text"]), ids(case.io["bistream_text_cuts"]))
    published = ids(case.io["bistream_greedy_tokens"])
    num_comparable = int(case.io["bistream_tokens_before_end_of_text"])
    assert spoken[:num_comparable] == published[:num_comparable]
    assert len(spoken) > num_comparable
    prompt_speech = ids(case.io["prompt_speech_token"])
    if len(prompt_speech) % model.config.mix_ratio[1] == 0:
        return  # behind a prompt of whole blocks the published code may go on where training has a fill
    layout = bistream_layout(
        model.vocabulary,
        [*ids(case.io["prompt_text"])[len(instruct) :], *ids(case.io["text"])],
        [*prompt_speech, *spoken],
        instruct,
        model.config.mix_ratio,
    )
    assert allowed_argmax(model, layout)[-len(spoken) :] == spoken


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


def rows(case: Case, name: str) -> list[list[int]]:
    """A padded batch of ids as lists; nothing where the case has no such batch."""
    if name not in case.io:
        return []
    lengths = case.io[f"{name}_len"].tolist()
    return [row[:length].tolist() for row, length in zip(case.io[name], lengths, strict=True)]


def loss_config(model: Qwen2LM) -> LossConfig:
    return LossConfig(model.config.label_smoothing, model.config.length_normalized_loss)


@QWEN2_CASES
@torch.inference_mode()
def test_one_way_training_loss_is_the_published_one(name: str) -> None:
    case = load_case(name)
    model = load_lm(case)
    assert isinstance(model, Qwen2LM)
    texts, speeches = rows(case, "train_text_token"), rows(case, "train_speech_token")
    instructs = rows(case, "train_instruct_token") or [[] for _ in texts]
    layouts = [
        offline_layout(model.vocabulary, text, speech, instruct)
        for text, speech, instruct in zip(texts, speeches, instructs, strict=True)
    ]
    result = token_loss(model, layouts, config=loss_config(model))
    assert_close(result.loss, case.io["train_loss_unistream"], NETWORK_TOLERANCE)
    assert_close(result.accuracy, case.io["train_acc_unistream"], NETWORK_TOLERANCE)


@torch.inference_mode()
def test_interleaved_training_loss_is_the_published_one() -> None:
    case = load_case("llm_v2")
    model = load_lm(case)
    assert isinstance(model, Qwen2LM)
    texts, speeches = rows(case, "train_text_token"), rows(case, "train2_speech_token")
    layouts = [
        bistream_layout(model.vocabulary, text, speech, mix_ratio=model.config.mix_ratio)
        for text, speech in zip(texts, speeches, strict=True)
    ]
    result = token_loss(model, layouts, config=loss_config(model))
    assert_close(result.loss, case.io["train2_loss_bistream"], NETWORK_TOLERANCE)
