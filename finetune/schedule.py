"""Learning rates by step, a pure function of it."""

import math

from firstword.finetune.recipe import Schedule

_LEAST = 0.02  # of the rate, at the end of the cosine


def rate_at(step: int, schedule: Schedule, warmup: int, steps: int) -> float:
    """The factor of the rate at a step, from 0.

    constant: 1. warmup: the published WarmupLR, rising for `warmup` steps, then falling with the root of the
    step. cosine: rising for `warmup` steps, then falling to nearly 0 at `steps`.
    """
    if schedule == "constant":
        return 1.0
    if schedule == "warmup":
        count, rising = step + 1, max(1, warmup)
        return float(rising**0.5 * min(count**-0.5, count * rising**-1.5))
    rising = min(warmup, steps // 2)
    if step < rising:
        return (step + 1) / (rising + 1)
    share = (step - rising) / max(1, steps - rising)
    return _LEAST + (1 - _LEAST) * 0.5 * (1 + math.cos(math.pi * min(1.0, share)))
