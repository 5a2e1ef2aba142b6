"""Seeds by which no draw of a language model lies near another one.

Two ways to compute the same logits differ in their last bits, on each machine in other ones. Where a uniform
number lies next to the border of two ids, or two candidates are as probable, that is another id, and another
utterance from there on.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch import Tensor

from firstword.models.lm import sampling

DIFFERENCE = 3e-5  # of a logit; that of two orders of sums is a tenth of it
TRIES, SEEDS = 2, range(0, 1000, 100)

Spoken = TypeVar("Spoken")


@contextmanager
def _near_draws() -> Iterator[list[Tensor]]:
    """Note the draws that are another id with logits that differ so much."""
    generator, found = torch.Generator().manual_seed(0), list[Tensor]()
    sample = sampling.sample_scores

    def sample_and_look(scores: Tensor, *how: Any) -> Tensor:
        drawn = sample(scores, *how)
        for _ in range(TRIES):
            moved = scores + DIFFERENCE * (2 * torch.rand(scores.shape, generator=generator) - 1)
            if not torch.equal(sample(moved, *how), drawn):
                found.append(drawn)
        return drawn

    with patch.object(sampling, "sample_scores", sample_and_look):
        yield found


def clear(speak: Callable[[int], Spoken]) -> tuple[int, Spoken]:
    """Return a number to begin seeds with, and what `speak` says by it: there no draw is near another."""
    for first_seed in SEEDS:
        with _near_draws() as near:
            spoken = speak(first_seed)
        if not near:
            return first_seed, spoken
    raise AssertionError("by every seed some draw is near another one")
