"""What disguised rows are given, and what holds the flow to what it said before."""

from copy import deepcopy

import numpy as np
import pytest
import torch

from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw
from tests.models.networks import random_ids, small_flow
from training.flow_enrolment import disguise, distance, joined

ROWS, LENGTH = 200, 20
EMBEDDINGS = {name: torch.full((3, 192), value) for name, value in (("own", 0.0), ("a", 1.0), ("b", 2.0))}


def batch_of(rows: int) -> FlowBatch:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.tensor([random_ids(row, LENGTH) for row in range(rows)])
    mel = torch.randn(rows, 2 * LENGTH, 80, generator=generator) - 4
    return FlowBatch(tokens, torch.full((rows,), LENGTH), mel, torch.full((rows, 192), 0.0))


@pytest.fixture(scope="module")
def disguised() -> tuple[FlowBatch, FlowBatch, FlowDraws]:
    """A batch before and after, and the draws."""
    batch = batch_of(ROWS)
    before, draws = deepcopy(batch), draw(small_flow("unet"), batch, torch.Generator().manual_seed(1))
    disguise(batch, draws, ROWS, EMBEDDINGS, np.random.default_rng(0))
    return before, batch, draws


def test_half_of_the_rows_have_another_voice(disguised: tuple[FlowBatch, FlowBatch, FlowDraws]) -> None:
    before, after, _ = disguised
    moved = (before.mel != after.mel).any(dim=2)  # (B, F)
    assert torch.equal(moved.any(1), moved.all(1))  # whole rows
    assert 0.4 < moved.all(1).float().mean() < 0.6
    assert torch.equal(before.tokens, after.tokens)


def test_a_disguised_row_is_given_a_prompt_that_tells_who_speaks(
    disguised: tuple[FlowBatch, FlowBatch, FlowDraws],
) -> None:
    before, after, draws = disguised
    moved = (before.mel != after.mel).any(dim=(1, 2))
    prompts = draws.prompt_frames[moved]
    assert 0.15 * 2 * LENGTH - 1 <= int(prompts.min()) < 0.2 * 2 * LENGTH
    assert 0.5 * 2 * LENGTH < int(prompts.max()) <= 0.6 * 2 * LENGTH
    assert (draws.prompt_frames[~moved] == 0).any()  # as the published recipe draws them


def test_half_of_the_disguised_have_an_embedding_of_somebody(
    disguised: tuple[FlowBatch, FlowBatch, FlowDraws],
) -> None:
    before, after, _ = disguised
    moved = (before.mel != after.mel).any(dim=(1, 2))
    assert torch.equal(after.embedding[~moved], before.embedding[~moved])
    values = after.embedding[moved, 0]
    assert {0.0, 1.0, 2.0} == set(values.tolist())
    assert 0.2 < (values != 0).float().mean() < 0.5  # a third of those that are drawn are its own


def test_rows_behind_those_of_others_stay_as_they_are() -> None:
    batch, teachers = batch_of(ROWS), batch_of(3)
    both = joined(batch, teachers)
    draws = draw(small_flow("unet"), both, torch.Generator().manual_seed(1))
    before, prompts = deepcopy(both), draws.prompt_frames.clone()
    disguise(both, draws, ROWS, EMBEDDINGS, np.random.default_rng(0))
    assert torch.equal(both.tokens[ROWS:], teachers.tokens)
    assert torch.equal(both.mel[ROWS:], teachers.mel)
    assert torch.equal(both.embedding[ROWS:], teachers.embedding)
    assert torch.equal(draws.prompt_frames[ROWS:], prompts[ROWS:])
    assert not torch.equal(both.mel[:ROWS], before.mel[:ROWS])


def test_a_flow_is_held_to_what_it_said_before() -> None:
    model, batch = deepcopy(small_flow("unet")).requires_grad_(), batch_of(2)
    before = deepcopy(model).requires_grad_(False)
    draws = draw(model, batch, torch.Generator().manual_seed(1))
    assert float(distance(model, before, batch, draws).detach()) < 1e-9
    with torch.no_grad():
        model.speaker_projection.bias.add_(0.5)
    moved = distance(model, before, batch, draws)
    assert float(moved.detach()) > 1e-6
    torch.autograd.backward(moved)
    assert all(one.grad is None for one in before.parameters())
    assert model.speaker_projection.bias.grad is not None
    assert model.speaker_projection.bias.grad.abs().max() > 0
