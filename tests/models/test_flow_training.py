"""The flow-matching loss."""

from copy import deepcopy

import pytest
import torch
from torch import Tensor

from firstword.finetune.flow_matching import FlowBatch, FlowDraws, draw, flow_losses
from tests.models.networks import FLOWS, random_ids, small_flow

FLOW = pytest.mark.parametrize("kind", FLOWS)


def batch_of(lengths: list[int], padded: int) -> FlowBatch:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.full((len(lengths), padded), -1)
    mel = torch.full((len(lengths), 2 * padded, 80), 7.0)  # padding that would be seen if it were used
    for row, length in enumerate(lengths):
        tokens[row, :length] = torch.tensor(random_ids(row, length))
        mel[row, : 2 * length] = torch.randn(2 * length, 80, generator=generator)
    embedding = torch.randn(len(lengths), 192, generator=generator)
    return FlowBatch(tokens, torch.tensor(lengths), mel, embedding)


def draws_of(rows: int, padded: int, is_streaming: bool) -> FlowDraws:
    generator = torch.Generator().manual_seed(4)
    return FlowDraws(
        is_streaming,
        torch.tensor([6, 0, 3][:rows]),
        torch.tensor([False, True, False][:rows]),
        torch.rand(rows, generator=generator),
        torch.randn(rows, 80, 2 * padded, generator=generator),
    )


@FLOW
@pytest.mark.parametrize("is_streaming", [False, True])
def test_padding_and_neighbours_do_not_change_the_loss(kind: str, is_streaming: bool) -> None:
    flow = small_flow(kind)
    lengths, padded = [40, 31, 60], 60
    batch, draws = batch_of(lengths, padded), draws_of(3, padded, is_streaming)
    together = flow_losses(flow, batch, draws).matching
    singles = []
    for row, length in enumerate(lengths):
        one = slice(row, row + 1)
        alone = FlowBatch(
            batch.tokens[one, :length],
            batch.num_tokens[one],
            batch.mel[one, : 2 * length],
            batch.embedding[one],
        )
        own = FlowDraws(
            is_streaming,
            draws.prompt_frames[one],
            draws.is_unconditional[one],
            draws.t[one],
            draws.noise[one, :, : 2 * length],
        )
        singles.append(float(flow_losses(flow, alone, own).matching) * length)
    assert float(together) == pytest.approx(sum(singles) / sum(lengths), rel=1e-5)


@FLOW
def test_loss_is_the_mean_squared_error_of_the_velocity(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, batch, draws = small_flow(kind), batch_of([20], 20), draws_of(1, 20, is_streaming=False)
    seen: list[Tensor] = []

    def zero_velocity(
        x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: object
    ) -> Tensor:
        seen.extend([x, cond, t])
        return torch.zeros_like(x)

    monkeypatch.setattr(flow.estimator, "forward", zero_velocity)
    loss = flow_losses(flow, batch, draws).matching
    mel, noise = batch.mel.mT, draws.noise
    assert float(loss) == pytest.approx(float((mel - (1 - 1e-6) * noise).square().mean()), rel=1e-6)
    x, cond, t = seen
    torch.testing.assert_close(x, (1 - (1 - 1e-6) * t[:, None, None]) * noise + t[:, None, None] * mel)
    assert torch.equal(cond[:, :, :6], mel[:, :, :6])
    assert not cond[:, :, 6:].any()


@FLOW
def test_the_guess_is_the_mel_where_the_velocity_is_right(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, batch, draws = small_flow(kind), batch_of([20], 20), draws_of(1, 20, is_streaming=False)
    velocity = batch.mel.mT - (1 - flow.config.cfm.sigma_min) * draws.noise
    monkeypatch.setattr(flow.estimator, "forward", lambda *_: velocity)
    losses = flow_losses(flow, batch, draws)
    torch.testing.assert_close(losses.guess, batch.mel, atol=1e-5, rtol=1e-5)
    assert losses.mu.shape == batch.mel.shape
    assert float(losses.prior) == pytest.approx(float((losses.mu - batch.mel).abs().mean()), rel=1e-5)


@FLOW
def test_dropped_conditions_leave_only_the_noised_mel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    flow, batch = small_flow(kind), batch_of([20, 20], 20)
    draws = draws_of(2, 20, is_streaming=True)
    seen: list[Tensor] = []

    def keep(x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor, context: object) -> Tensor:
        seen.extend([mu, spks, cond])
        return torch.zeros_like(x)

    monkeypatch.setattr(flow.estimator, "forward", keep)
    flow_losses(flow, batch, draws)
    for given in seen:
        assert given[0].any()
        assert not given[1].any()


@FLOW
def test_training_lowers_the_loss(kind: str) -> None:
    flow = deepcopy(small_flow(kind)).requires_grad_(True).train()
    batch = batch_of([30, 25], 30)
    optimizer = torch.optim.Adam(flow.parameters(), lr=2e-3)
    losses = []
    for step in range(40):
        loss = flow_losses(flow, batch, draw(flow, batch, torch.Generator().manual_seed(step % 3))).matching
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])


def test_draws_have_the_published_rates() -> None:
    flow, batch = small_flow("dit"), batch_of([40] * 500, 40)
    drawn = [draw(flow, batch, torch.Generator().manual_seed(seed)) for seed in range(8)]
    prompts = torch.cat([d.prompt_frames for d in drawn])
    assert 0.45 < float((prompts == 0).float().mean()) < 0.58
    assert int(prompts.max()) <= 0.3 * 80
    assert 0.17 < float(torch.cat([d.is_unconditional for d in drawn]).float().mean()) < 0.23
    assert {d.is_streaming for d in drawn} == {False, True}
