"""Makes inputs of networks for runs in which only their cost counts."""

import torch

from firstword.models.frontend.speaker import SpeakerFeatures

TEXT_TOKENS = 20


def random_speaker(vocab_size: int, num_tokens: int) -> SpeakerFeatures:
    """Return a speaker whose prompt has so many random speech tokens, two mel frames each."""
    tokens = torch.randint(0, vocab_size, (num_tokens,))
    return SpeakerFeatures("", tokens, torch.randn(2 * num_tokens, 80), torch.randn(192))
