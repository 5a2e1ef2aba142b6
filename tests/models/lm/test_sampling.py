import math

import pytest
import torch
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.sampling import (
    are_repeated,
    draw,
    nucleus,
    repetition_aware_probabilities,
    sample,
)

CONFIG = SamplingConfig()
INF = float("inf")


def no_mask(logits: Tensor) -> Tensor:
    return torch.zeros_like(logits, dtype=torch.bool)


def window(*ids: int, size: int = 10) -> Tensor:
    return torch.tensor([[-1] * (size - len(ids)) + [*ids]])


def published_nucleus(probabilities: Tensor, config: SamplingConfig) -> list[int]:
    """The walk as it is described, on one row."""
    order = probabilities.argsort(descending=True, stable=True).tolist()
    taken: list[int] = []
    total = torch.tensor(0.0)
    for id in order:
        if float(total) >= config.top_p or len(taken) >= config.top_k:
            break
        taken.append(id)
        total = total + probabilities[id]
    return taken


def two_draws(scores: Tensor, repeated: set[int], config: SamplingConfig) -> Tensor:
    """The distribution of the two draws on one row of float64 scores, summed up case by case."""
    full = scores.softmax(0)
    taken = published_nucleus(full.float(), config)
    weights = full[taken] / full[taken].sum()
    result = torch.zeros_like(full)
    for id, weight in zip(taken, weights, strict=True):
        if id not in repeated:
            result[id] += weight
        else:
            result += weight * scores.index_fill(0, torch.tensor([id]), -INF).softmax(0)
    return result


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("spread", [0.1, 2.0, 12.0])
def test_closed_form_is_the_sum_over_both_draws(seed: int, spread: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    config = SamplingConfig(top_p=0.9, top_k=8, win_size=10, tau_r=0.1 if seed % 2 else 0.2)
    logits = spread * torch.randn(6, 50, generator=generator)
    history = torch.randint(-1, 50, (6, 10), generator=generator)
    history[:, :4] = logits.topk(4).indices[:, [0, 1, 1, 0]]
    forbidden = torch.rand(6, 50, generator=generator) < 0.2
    result = repetition_aware_probabilities(logits, forbidden, history, config)
    for row in range(6):
        counts = history[row][history[row] >= 0].bincount(minlength=50)
        repeated = set((counts >= config.win_size * config.tau_r).nonzero().flatten().tolist())
        scores = logits[row].double().masked_fill(forbidden[row], -INF)
        torch.testing.assert_close(
            result[row].double(), two_draws(scores, repeated, config), rtol=2e-5, atol=1e-12
        )


def test_several_repeating_ids_leave_no_rounding_of_each_other() -> None:
    """Two ids share nearly all mass and both repeat, the second far less likely than the first."""
    logits = torch.full((1, 40), -40.0)
    logits[0, 3], logits[0, 4], logits[0, 5] = 0.0, -1.0, -17.0
    config = SamplingConfig(top_p=1.0, top_k=25)
    result = repetition_aware_probabilities(logits, no_mask(logits), window(3, 4, 5), config)
    expected = two_draws(logits[0].double(), {3, 4, 5}, config)
    torch.testing.assert_close(result[0].double(), expected, rtol=1e-5, atol=0)
    assert (result >= 0).all()


def test_nucleus_is_the_published_walk_also_where_probabilities_are_equal() -> None:
    generator = torch.Generator().manual_seed(0)
    for config in (CONFIG, SamplingConfig(top_p=0.5, top_k=3), SamplingConfig(top_p=1.0, top_k=100)):
        logits = torch.randn(20, 60, generator=generator).bfloat16().float().round(decimals=1)
        probabilities = logits.softmax(1)
        ids, weights = nucleus(probabilities, config)
        for row in range(20):
            taken = published_nucleus(probabilities[row], config)
            assert ids[row, : len(taken)].tolist() == taken
            assert int((weights[row] > 0).sum()) == len(taken)
        torch.testing.assert_close(weights.sum(1), torch.ones(20))


def test_an_id_repeats_from_win_size_times_tau_on() -> None:
    history = torch.tensor([[-1, 4, 4, 2], [2, 2, 2, 5]])
    ids = torch.arange(6).expand(2, -1)
    once = are_repeated(ids, history, SamplingConfig(win_size=10, tau_r=0.1))
    thrice = are_repeated(ids, history, SamplingConfig(win_size=10, tau_r=0.3))
    assert once.int().tolist() == [[0, 0, 1, 0, 1, 0], [0, 0, 1, 0, 0, 1]]
    assert thrice.int().tolist() == [[0] * 6, [0, 0, 1, 0, 0, 0]]


def test_the_repetition_threshold_is_compared_in_float64_as_published() -> None:
    assert 50 * 0.14 > 7
    seven = torch.full((1, 50), -1)
    seven[0, :7] = 3
    assert not are_repeated(torch.arange(6)[None], seven, SamplingConfig(win_size=50, tau_r=0.14)).any()


def test_a_forbidden_class_has_no_probability() -> None:
    logits = torch.zeros(1, 8)
    logits[0, 5] = 30.0
    forbidden = no_mask(logits)
    forbidden[0, 5] = True
    result = repetition_aware_probabilities(logits, forbidden, window(), CONFIG)
    assert result[0, 5] == 0
    torch.testing.assert_close(result.sum(), torch.tensor(1.0))


@pytest.mark.parametrize("scale", [0.0, 1.0, 50.0, 1e4])
def test_minus_infinity_anywhere_gives_no_nan(scale: float) -> None:
    generator = torch.Generator().manual_seed(3)
    logits = scale * torch.randn(30, 20, generator=generator)
    logits[torch.rand(30, 20, generator=generator) < 0.8] = -INF
    logits[:, 7] = 0.0
    history = torch.randint(-1, 20, (30, 10), generator=generator)
    result = repetition_aware_probabilities(logits, no_mask(logits), history, CONFIG)
    assert result.isfinite().all()
    assert (result >= 0).all()
    torch.testing.assert_close(result.sum(1), torch.ones(30))


def test_the_only_possible_id_is_kept_though_it_repeats() -> None:
    logits = torch.full((1, 9), -INF)
    logits[0, 6] = 2.0
    result = repetition_aware_probabilities(logits, no_mask(logits), window(6, 6), CONFIG)
    assert result.tolist() == [[0.0] * 6 + [1.0] + [0.0] * 2]


def test_rows_without_numbers_give_minus_one_and_harm_no_other() -> None:
    logits = torch.zeros(4, 5)
    logits[0], logits[1], logits[2] = math.nan, -INF, INF
    logits[3, 2] = 9.0
    history, uniforms = window().expand(4, -1), torch.full((4,), 0.5, dtype=torch.float64)
    for greedy in (False, True):
        is_greedy = torch.full((4,), greedy)
        ids = sample(logits, no_mask(logits), history, uniforms, is_greedy, CONFIG)
        assert ids.tolist() == [-1, -1, -1, 2]


def test_greedy_takes_the_most_probable_allowed_id_though_it_repeats() -> None:
    logits = torch.tensor([[0.0, 5.0, 4.0, 1.0]])
    forbidden = torch.tensor([[False, True, False, False]])
    uniforms = torch.tensor([0.3], dtype=torch.float64)
    assert sample(logits, forbidden, window(2), uniforms, torch.tensor([True]), CONFIG).tolist() == [2]
    assert sample(logits, forbidden, window(2), uniforms, torch.tensor([False]), CONFIG).tolist() != [2]


def test_draw_inverts_the_distribution_function() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.25, 0.0]])
    below_one = math.nextafter(1.0, 0.0)
    for uniform, id in ((0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (below_one, 4)):
        assert draw(probabilities, torch.tensor([uniform], dtype=torch.float64)).tolist() == [id]


def test_an_id_of_probability_zero_is_never_drawn() -> None:
    generator = torch.Generator().manual_seed(4)
    probabilities = torch.rand(2000, 30, generator=generator) * (
        torch.rand(2000, 30, generator=generator) < 0.2
    )
    probabilities[:, 11] += 1e-30
    edges = torch.tensor([0.0, math.nextafter(1.0, 0.0)], dtype=torch.float64)
    for edge in edges:
        ids = draw(probabilities, edge.expand(2000))
        assert (probabilities.gather(1, ids[:, None]) > 0).all()


def test_half_precision_logits_are_sampled_in_float32() -> None:
    logits = (4 * torch.randn(3, 100)).bfloat16()
    history = torch.tensor([[1] * 10] * 3)
    low = repetition_aware_probabilities(logits, no_mask(logits), history, CONFIG)
    high = repetition_aware_probabilities(logits.float(), no_mask(logits), history, CONFIG)
    torch.testing.assert_close(low, high, rtol=0, atol=0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("top_p", [0.4, 1.0])
def test_a_row_is_drawn_from_the_distribution_whether_or_not_ids_repeat(seed: int, top_p: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    config = SamplingConfig(top_p, top_k=6, win_size=4, tau_r=0.5, temperature=0.8)
    logits = (2 * torch.randn(40, 30, generator=generator)).half().float()  # some are equal
    forbidden = torch.rand(40, 30, generator=generator) < 0.2
    history = torch.randint(-1, 3, (40, 4), generator=generator)
    uniforms = torch.rand(40, dtype=torch.float64, generator=generator)
    expected = draw(repetition_aware_probabilities(logits, forbidden, history, config), uniforms)
    drawn = sample(logits, forbidden, history, uniforms, torch.zeros(40, dtype=torch.bool), config)
    assert drawn.tolist() == expected.tolist()
