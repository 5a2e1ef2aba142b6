"""The loss of a vocoder whose pulses are in step with a teacher."""

import math

import torch

from training.phase import AlignedLoss


def test_the_loss_hears_a_shift_of_phase_that_magnitudes_do_not() -> None:
    time = torch.arange(30 * 480) / 24_000
    wanted = torch.sin(2 * math.pi * 200 * time)[None]
    shifted = torch.sin(2 * math.pi * 200 * time + 1.5)[None]
    loss, f0, known = AlignedLoss(5_000.0), torch.full((1, 30), 200.0), torch.tensor([True])
    assert float(loss(wanted, wanted, f0, known)) == 0.0
    assert float(loss(shifted, wanted, f0, known)) > 0.3


def test_voiceless_frames_and_rows_of_unknown_phase_do_not_count() -> None:
    torch.manual_seed(0)
    made, wanted = torch.randn(2, 14_400), torch.randn(2, 14_400)
    loss, f0 = AlignedLoss(5_000.0), torch.full((2, 30), 200.0)
    assert float(loss(made, wanted, f0, torch.tensor([False, False]))) == 0.0
    assert float(loss(made, wanted, torch.zeros(2, 30), torch.tensor([True, True]))) == 0.0
    one = loss(made, wanted, f0, torch.tensor([True, False]))
    torch.testing.assert_close(one, loss(made[:1], wanted[:1], f0[:1], torch.tensor([True])))
