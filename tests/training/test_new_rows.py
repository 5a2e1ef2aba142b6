"""A table that is given new rows: which of it learns, and that folding it changes nothing."""

import pytest
import torch
from torch import nn

from training.networks.new_rows import NewRows, fold, narrowed, widened, with_new_rows

ROWS = range(3, 7)


@pytest.mark.parametrize("keeps_rest", [True, False])
def test_new_rows_learn_and_the_others_where_they_shall(keeps_rest: bool) -> None:
    torch.manual_seed(0)
    table = nn.Embedding(9, 5)
    before = table.weight.detach().clone()
    components = torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 1]])
    with_new_rows(table, "weight", NewRows(ROWS, components, 5, keeps_rest), scale=0.1)
    assert torch.equal(narrowed(table.weight, ROWS), narrowed(before, ROWS))
    sums = table.weight[3:7] - before[3:7]
    torch.testing.assert_close(sums[0], sums[1])
    torch.testing.assert_close(sums[0] + sums[2], sums[3])
    optimizer = torch.optim.Adam(table.parameters(), 0.1)
    table(torch.arange(9)).square().sum().backward()
    optimizer.step()
    moved = (table.weight - before).abs().amax(1) > 0
    assert moved[3:7].all()
    assert narrowed(moved, ROWS).any() != keeps_rest
    now = table.weight.detach().clone()
    fold(table, "weight")
    assert torch.equal(table.weight, now)
    assert dict(table.named_parameters()).keys() == {"weight"}


def test_rows_are_put_in_and_taken_out() -> None:
    table = torch.arange(12.0).reshape(6, 2)
    wide = widened(table, 3, torch.zeros(4, 2))
    assert wide[ROWS.start : ROWS.stop].count_nonzero() == 0
    assert torch.equal(narrowed(wide, ROWS), table)
