"""What a step of speech tokens to samples takes, what it tells, and how it refuses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeVar

State = TypeVar("State")


@dataclass(frozen=True, slots=True, eq=False)
class StepInput(Generic[State]):
    """New speech tokens of one stream, any number of them; is_last: there are no more.

    More than `tokens_wanted` are solved as far as they fill whole chunks, and the rest waits in the state;
    fewer wait without audio. A stream sounds the same however its tokens are cut into steps.
    """

    state: State
    tokens: Sequence[int]
    is_last: bool


class RefusedStep(ValueError):
    """A step was given tokens or states that it cannot take; nothing has changed."""


@dataclass(slots=True)
class StepTimes:
    """Seconds that a step took in each network, by the clock.

    On a GPU the ordinary clock sees when work was submitted; one that waits for the device measures it.
    """

    flow_s: float = 0.0
    vocoder_s: float = 0.0
    clock: Callable[[], float] = perf_counter
