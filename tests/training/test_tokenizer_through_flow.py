"""The table of codes that a tokenizer is trained through."""

import torch

from training.networks.speech_tokenizer import NUM_CODES, NUM_DIGITS, NUM_LEVELS
from training.tokenizer_through_flow import ChosenCodes

_DIGITS = torch.arange(NUM_CODES)[:, None] // NUM_LEVELS ** torch.arange(NUM_DIGITS) % NUM_LEVELS - 1.0


def test_codes_have_their_own_values() -> None:
    table = torch.randn(NUM_CODES, 3, generator=torch.Generator().manual_seed(0))
    chosen, codes = ChosenCodes(table), torch.tensor([[0, 6560, 4000, 17, 1, 2]])
    chosen.digits = _DIGITS[codes[:, :4]] * 0.9  # those behind are lookahead
    assert torch.equal(chosen(codes), table[codes])


def test_a_table_that_is_linear_in_its_digits_has_their_weights_as_slopes() -> None:
    weights = torch.randn(NUM_DIGITS, 3, generator=torch.Generator().manual_seed(0))
    chosen = ChosenCodes(_DIGITS @ weights)
    codes = torch.tensor([[0, 6560, 4000, 17]])  # with digits at either end and in the middle
    chosen.digits = (_DIGITS[codes] * 0.9).requires_grad_()
    (gradient,) = torch.autograd.grad(chosen(codes)[..., 1].sum(), chosen.digits)
    torch.testing.assert_close(gradient, weights[:, 1].expand(1, 4, -1))
