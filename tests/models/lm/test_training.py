import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from firstword.finetune.losses import (
    LossConfig,
    preference_loss,
    sequence_scores,
    smoothed_divergence,
    teacher_forced,
    token_accuracy,
    token_loss,
)
from firstword.models.config import LMConfig
from firstword.models.layers import FullContext, chunk_mask
from firstword.models.lm.plan import IGNORED, Layout, bistream_layout, offline_layout
from firstword.models.lm.transformer_lm import TransformerLM
from tests.models.lm.networks import COSYVOICE1, COSYVOICE2, FAMILIES, make_model

TARGETS = torch.tensor([[IGNORED, 2, 0, IGNORED], [1, 1, IGNORED, IGNORED]])


def test_without_smoothing_the_loss_is_the_cross_entropy() -> None:
    logits = torch.randn(2, 4, 5)
    expected = F.cross_entropy(logits.flatten(0, 1), TARGETS.flatten(), ignore_index=IGNORED)
    torch.testing.assert_close(smoothed_divergence(logits, TARGETS, LossConfig()), expected)
    by_batch = smoothed_divergence(logits, TARGETS, LossConfig(is_length_normalized=False))
    torch.testing.assert_close(by_batch, expected * 4 / 2)


def test_with_smoothing_it_is_the_full_divergence() -> None:
    logits = torch.randn(2, 4, 5)
    counts = TARGETS != IGNORED
    q = torch.full((4, 5), 0.1 / 4).scatter(1, TARGETS[counts][:, None], 0.9)
    expected = F.kl_div(logits[counts].log_softmax(-1), q, reduction="sum") / 4
    torch.testing.assert_close(smoothed_divergence(logits, TARGETS, LossConfig(0.1)), expected)


@pytest.mark.parametrize("config", [COSYVOICE1, COSYVOICE2])
def test_a_loss_is_the_one_of_the_models_config(config: LMConfig) -> None:
    config = replace(config, label_smoothing=0.1, length_normalized_loss=False)
    assert LossConfig.of(config) == LossConfig(label_smoothing=0.1, is_length_normalized=False)


def test_accuracy_counts_the_places_that_count() -> None:
    logits = F.one_hot(torch.tensor([[0, 2, 1, 0], [1, 1, 1, 1]]), 5).float()
    assert float(token_accuracy(logits, TARGETS)) == 0.75


@pytest.mark.parametrize("family", FAMILIES)
@torch.inference_mode()
def test_padding_changes_no_row(family: str) -> None:
    model = make_model(family)
    layouts = [offline_layout(model.vocabulary, range(n), range(3 * n)) for n in (2, 7, 4)]
    speakers = [torch.randn(192) if family == "cosyvoice1" else None for _ in layouts]
    logits, targets = teacher_forced(model, layouts, speakers)
    for row, (layout, speaker) in enumerate(zip(layouts, speakers, strict=True)):
        alone, own = teacher_forced(model, [layout], [speaker])
        length = own.shape[1]
        torch.testing.assert_close(logits[row, :length], alone[0], rtol=1e-4, atol=1e-4)
        assert targets[row, :length].tolist() == own[0].tolist()
        assert (targets[row, length:] == IGNORED).all()


def test_cosyvoice1_learns_speech_and_eos_behind_speaker_and_text() -> None:
    model = make_model("cosyvoice1").requires_grad_(True)
    assert isinstance(model, TransformerLM)
    text, speech, speaker = [3, 4, 5], [10, 11], torch.randn(192)
    layout = offline_layout(model.vocabulary, text, speech)
    result = token_loss(model, [layout], [speaker], config=LossConfig.of(model.config))
    special = model.special_embedding.weight
    x = torch.cat(
        [
            special[:1],
            model.speaker_projection(F.normalize(speaker, dim=0))[None],
            model.encode_text(torch.tensor([text]))[0],
            special[1:],
            model.speech_embedding(torch.tensor(speech)),
        ]
    )[None]  # (1, 2 + text + 1 + speech, C)
    logits = model.logits(model(x, FullContext(chunk_mask(x.shape[1], 1))))
    targets = torch.tensor([*[IGNORED] * (2 + len(text)), *speech, model.vocabulary.eos])
    torch.testing.assert_close(result.loss, F.cross_entropy(logits[0], targets, ignore_index=IGNORED))
    result.loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_every_parameter_learns_from_an_interleaved_utterance(family: str) -> None:
    model = make_model(family).requires_grad_(True)
    layout = bistream_layout(model.vocabulary, range(7), range(25))
    token_loss(model, [layout], config=LossConfig.of(model.config)).loss.backward()
    assert all(bool(parameter.grad is not None and parameter.grad.any()) for parameter in model.parameters())


def test_a_sequence_is_scored_by_the_places_that_count() -> None:
    probabilities = torch.tensor([[[0.5, 0.25, 0.25], [0.1, 0.2, 0.7], [0.25, 0.5, 0.25]]])
    targets = torch.tensor([[IGNORED, 2, 1]])
    expected = (math.log(0.7) + math.log(0.5)) / 2
    torch.testing.assert_close(sequence_scores(probabilities.log(), targets), torch.tensor([expected]))


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_preference_loss_is_the_one_computed_by_hand(family: str) -> None:
    model = make_model(family, sharpness=4.0)
    names = model.vocabulary
    chosen = [offline_layout(names, [1, 2], [3, 4, 5]), offline_layout(names, [6], [7])]
    rejected = [offline_layout(names, [1, 2], [9]), offline_layout(names, [6], [8, 8, 8, 8])]
    reference_chosen, reference_rejected = torch.tensor([-3.0, -1.0]), torch.tensor([-2.0, -6.0])

    def score(layout: Layout) -> float:
        logits, _ = teacher_forced(model, [layout])
        log_p = logits[0].double().log_softmax(-1)
        said = [float(log_p[i, id]) for i, id in enumerate(layout.targets) if id != IGNORED]
        return sum(said) / len(said)

    margins = [
        score(a) - score(b) - float(c - d)
        for a, b, c, d in zip(chosen, rejected, reference_chosen, reference_rejected, strict=True)
    ]
    by_hand = sum(-math.log(1 / (1 + math.exp(-0.5 * margin))) for margin in margins) / 2
    config = LossConfig.of(model.config)
    result = preference_loss(
        model, chosen, rejected, reference_chosen, reference_rejected, beta=0.5, config=config
    )
    assert float(result.preference) == pytest.approx(by_hand, rel=1e-4)
    supervised = token_loss(model, chosen, config=config)
    torch.testing.assert_close(result.chosen.loss, supervised.loss, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(result.loss, result.preference + result.chosen.loss)
    assert float(result.accuracy) == sum(margin > 0 for margin in margins) / 2
