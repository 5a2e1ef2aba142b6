"""The language models against the published implementation: log-probabilities, tokens, losses."""

import pytest
import torch

from firstword.finetune.losses import LossConfig, teacher_forced, token_loss
from firstword.models.lm.decoder import RowRequest, SpeechDecoder
from firstword.models.lm.plan import IGNORED, Layout, bistream_layout, offline_layout
from firstword.models.lm.qwen2 import Qwen2LM
from tests.parity.reference import NETWORK_TOLERANCE, Case, assert_close, load_case
from tests.support.reference_lm import (
    bistream_plan,
    decode,
    decode_pieces,
    ids,
    load_lm,
    offline_plan,
    speaker_of,
)

QWEN2_CASES = pytest.mark.parametrize("name", ["llm_v2", "llm_v3"])
ALL_CASES = pytest.mark.parametrize("name", ["llm_v1", "llm_v2", "llm_v3"])


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
def test_offline_training_loss_is_the_published_one(name: str) -> None:
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
def test_bistream_training_loss_is_the_published_one() -> None:
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
