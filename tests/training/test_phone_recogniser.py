"""What the recogniser of phones holds against a mel."""

import torch
import torch.nn.functional as F

from training.networks.speech_tokenizer import PhoneRecogniser
from training.phone_recogniser import unlike
from training.teachers.spoken import UNTOLD


def test_what_was_said_is_like_itself() -> None:
    recogniser, mel, phones = _case()
    clear, matched = unlike(recogniser, mel, mel, phones)
    assert clear.shape == matched.shape == (2, 12)
    assert not matched.any()
    torch.testing.assert_close(
        clear.mean(), F.cross_entropy(recogniser(mel)[0].flatten(0, 1), phones.flatten())
    )


def test_the_guess_learns_and_the_recogniser_does_not() -> None:
    recogniser, mel, phones = _case()
    guess = (mel + torch.randn_like(mel)).requires_grad_(True)
    optimizer = torch.optim.Adam([guess], lr=0.02)
    losses = []
    for _ in range(30):
        clear, matched = unlike(recogniser, guess, mel, phones)
        loss = clear.mean() + matched.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]
    assert all(parameter.grad is None for parameter in recogniser.parameters())


def test_frames_are_judged_one_by_one() -> None:
    recogniser, mel, phones = _case()
    guess = mel.clone()
    guess[1, -1] += 3.0
    _, matched = unlike(recogniser, guess, mel, phones)
    assert not matched[0].any()
    assert matched[1, -1] > 0


def test_an_untold_phone_holds_nothing_against_a_guess() -> None:
    recogniser, mel, phones = _case()
    told, _ = unlike(recogniser, mel, mel, phones)
    phones[0, 3:] = UNTOLD
    clear, _ = unlike(recogniser, mel, mel, phones)
    assert not clear[0, 3:].any()
    torch.testing.assert_close(clear[0, :3], told[0, :3])
    torch.testing.assert_close(clear[1], told[1])


def _case() -> tuple[PhoneRecogniser, torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    recogniser = PhoneRecogniser(16, 7).requires_grad_(False)
    mel = torch.randn(2, 12, 80)
    recogniser.mel_mean.copy_(mel.mean((0, 1)))
    recogniser.mel_std.copy_(mel.std((0, 1)))
    return recogniser, mel, torch.randint(7, (2, 12))
