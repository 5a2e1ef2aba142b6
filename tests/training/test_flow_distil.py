"""The rows that the flow is distilled with."""

import torch

from firstword.finetune.flow_matching import FlowBatch, FlowDraws
from training.flow_distil import follow


def batch_of(token: int, rows: int) -> FlowBatch:
    return FlowBatch(
        torch.full((rows, 6), token),
        torch.full((rows,), 6),
        torch.zeros(rows, 12, 80),
        torch.zeros(rows, 192),
    )


def test_what_the_first_voice_says_follows_the_prompt() -> None:
    batch = batch_of(1, 3)
    draws = FlowDraws(
        False,
        torch.tensor([4, 0, 4]),
        torch.zeros(3, dtype=torch.bool),
        torch.zeros(3),
        torch.zeros(3, 80, 12),
    )
    follow(batch, draws, batch_of(2, 2))
    assert batch.tokens.tolist() == [[1, 1, 2, 2, 2, 2], [2] * 6, [1] * 6]
