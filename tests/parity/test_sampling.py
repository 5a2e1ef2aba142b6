"""Repetition-aware sampling against published numbers, and against its two draws taken literally."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.sampling import are_repeated, draw, nucleus, repetition_aware_probabilities
from tests.parity.reference import assert_close, load_json

WEIGHT_TOLERANCE = 1e-6
NUM_DRAWS = 200_000
NUM_UNIFORMS = 20_000
MIN_P_VALUE = 1e-4  # for all cases together
MIN_EXPECTED_DRAWS = 5.0  # classes expected less often are counted as one


@dataclass(frozen=True, slots=True)
class RasCase:
    logits: Tensor  # (1, V)
    history: Tensor  # (1, win_size)
    sampling: SamplingConfig
    expected: dict[str, Any]

    @property
    def forbidden(self) -> Tensor:
        return torch.zeros_like(self.logits, dtype=torch.bool)

    @property
    def full(self) -> Tensor:
        return self.logits.softmax(1)

    def repeats(self) -> set[int]:
        every_id = torch.arange(self.logits.shape[1])[None]
        repeated = are_repeated(every_id, self.history, self.sampling)[0]
        return set(repeated.nonzero().flatten().tolist())

    def closed_form(self) -> Tensor:
        return repetition_aware_probabilities(self.logits, self.forbidden, self.history, self.sampling)


def ras_cases() -> list[RasCase]:
    return [make_case(case) for case in load_json("ras_sampling")["cases"]]


def make_case(case: dict[str, Any]) -> RasCase:
    sampling = SamplingConfig(case["top_p"], case["top_k"], case["win_size"], case["tau_r"])
    window = case["history"][-sampling.win_size :]
    padded = [-1] * (sampling.win_size - len(window)) + window
    return RasCase(torch.tensor([case["logp"]]), torch.tensor([padded]), sampling, case)


def test_candidates_have_the_published_weights() -> None:
    for case in ras_cases():
        expected = torch.tensor(case.expected["nucleus_weights"])
        ids, weights = nucleus(case.full, case.sampling)
        assert int((weights > 0).sum()) == len(expected)
        assert_close(case.full[0, ids[0, : len(expected)]], expected, WEIGHT_TOLERANCE)
        assert_close(weights[0, : len(expected)], expected / expected.sum(), WEIGHT_TOLERANCE)


def test_draw_of_the_argmax_falls_back_where_the_published_one_does() -> None:
    for case in ras_cases():
        top = int(case.full.argmax())
        is_fallback = top in case.repeats()
        chosen = int(case.full[0].index_fill(0, torch.tensor([top]), 0.0).argmax()) if is_fallback else top
        assert is_fallback == case.expected["fell_back_to_full_distribution"]
        assert chosen == case.expected["chosen_when_argmax_is_drawn"]


def test_closed_form_has_the_frequencies_of_the_two_draws() -> None:
    cases = ras_cases()
    generator = torch.Generator().manual_seed(1)
    for index, case in enumerate(cases):
        drawn = literal_counts(case, generator)
        p_value = chi_square_p_value(drawn, case.closed_form()[0].double())
        assert p_value > MIN_P_VALUE / len(cases), f"case {index}: p {p_value:.3g}"


def test_drawn_ids_have_the_frequencies_of_the_closed_form() -> None:
    """Of evenly spaced uniforms every class gets its share, to a draw at either end of its interval."""
    uniforms = (torch.arange(NUM_UNIFORMS, dtype=torch.float64) + 0.5) / NUM_UNIFORMS
    for case in ras_cases():
        probabilities = case.closed_form()
        drawn = draw(probabilities.expand(NUM_UNIFORMS, -1), uniforms).bincount(
            minlength=probabilities.shape[1]
        )
        expected = probabilities[0].double() / probabilities.sum(dtype=torch.float64) * NUM_UNIFORMS
        assert int(drawn[probabilities[0] == 0].sum()) == 0, "a class of probability 0 was drawn"
        assert float((drawn - expected).abs().max()) <= 1 + 1e-6


def test_chi_square_would_notice_a_wrong_distribution() -> None:
    case = next(case for case in ras_cases() if case.expected["fell_back_to_full_distribution"])
    drawn = literal_counts(case, torch.Generator().manual_seed(3))
    assert chi_square_p_value(drawn, case.full[0].double()) < 1e-12


def literal_counts(case: RasCase, generator: torch.Generator) -> Tensor:
    """The published procedure NUM_DRAWS times: how often each class is chosen, (V,)."""
    num_classes = case.logits.shape[1]
    weights = torch.tensor(case.expected["nucleus_weights"])
    candidates = case.logits[0].argsort(descending=True, stable=True)[: len(weights)]
    first = weights.multinomial(NUM_DRAWS, replacement=True, generator=generator)
    drawn = candidates[first].bincount(minlength=num_classes)
    history = case.expected["history"][-case.sampling.win_size :]
    threshold = case.sampling.win_size * case.sampling.tau_r
    refused = [id for id in candidates.tolist() if history.count(id) >= threshold and drawn[id] > 0]
    chosen = drawn.index_fill(0, torch.tensor(refused, dtype=torch.long), 0)
    for id in refused:
        others = case.logits[0].index_fill(0, torch.tensor([id]), float("-inf")).softmax(0)
        again = others.multinomial(int(drawn[id]), replacement=True, generator=generator)
        chosen += again.bincount(minlength=num_classes)
    return chosen


def chi_square_p_value(drawn: Tensor, probabilities: Tensor) -> float:
    expected = probabilities / probabilities.sum() * drawn.sum()
    assert int(drawn[probabilities == 0].sum()) == 0, "a class of probability 0 was drawn"
    is_common = expected >= MIN_EXPECTED_DRAWS
    observed = torch.cat([drawn[is_common].double(), drawn[~is_common].sum()[None].double()])
    expected = torch.cat([expected[is_common], expected[~is_common].sum()[None]])
    has_any = expected > 0
    statistic = ((observed - expected)[has_any].square() / expected[has_any]).sum()
    freedom = torch.tensor(float(has_any.sum()) - 1)
    if freedom < 1:
        return 1.0
    return float(torch.special.gammaincc(freedom.double() / 2, statistic / 2))


@pytest.mark.parametrize("distance", [3e-7, 3e-8])
def test_closed_form_stays_exact_where_one_id_has_all_the_mass(distance: float) -> None:
    """The loop that repetition-aware sampling breaks: F(r) is 1 up to rounding, r repeats."""
    torch.manual_seed(0)
    logits = torch.randn(1, 6564)
    logits[0, 77] = logits[0].double().logsumexp(0) + torch.tensor((1 - distance) / distance).double().log()
    history = torch.full((1, 10), 77)
    case = RasCase(logits, history, SamplingConfig(), {})
    exact = logits.double().index_fill(1, torch.tensor([77]), float("-inf")).softmax(1)
    error = (case.closed_form().double() - exact).abs() / exact.clamp(min=1e-30)
    assert case.closed_form()[0, 77] == 0
    assert float(error.index_fill(1, torch.tensor([77]), 0.0).max()) < 1e-5
