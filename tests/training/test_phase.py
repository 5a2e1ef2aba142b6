"""The vocoder's source in step with a teacher, and the loss that needs it."""

import math

import torch

from training.phase import AlignedLoss, aligned_source
from training.settings import read_settings
from training.vocoder import build


def test_with_the_phase_that_f0_gives_the_source_is_its_own() -> None:
    """A steady pitch: both differ by where they begin, and not from sample to sample."""
    torch.manual_seed(0)
    model = build(read_settings())
    f0 = torch.full((1, 20), 150.0)
    noise = torch.zeros(1, 20 * 480)
    with torch.no_grad():
        own, _ = model.source(f0, noise, None, is_last=True)
        first = (240 + 0.5) * 150.0 / 24_000  # its phase is a frame's advance in the middle of the frame
        cycles = first + torch.arange(20 * 8 + 1, dtype=torch.float64)[None] * 60 * 150 / 24_000
        made = aligned_source(model.source, f0, cycles, noise)
    inner = slice(480, 18 * 480)
    assert float((own - made)[0, inner].abs().max()) < 0.01 * float(own.abs().max())


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
