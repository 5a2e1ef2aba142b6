"""Makes inputs of networks for runs in which only their cost counts."""

import torch

from firstword.models.frontend.speaker import SpeakerFeatures

TEXT_TOKENS = 20


def random_speaker(vocab_size: int, num_tokens: int) -> SpeakerFeatures:
    """Return a speaker whose prompt has so many random speech tokens, two mel frames each.

    The same for the same arguments, so that what is computed of it can be compared.
    """
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, vocab_size, (num_tokens,), generator=generator)
    mel, embedding = (torch.randn(shape, generator=generator) for shape in ((2 * num_tokens, 80), (192,)))
    return SpeakerFeatures("", tokens, mel, embedding)
