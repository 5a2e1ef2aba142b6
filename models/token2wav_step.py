"""What a step of speech tokens to samples takes, what it tells, and how it refuses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Generic, TypeVar

import torch

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
    """Seconds that a step took in each network: by the clock, on a GPU by its own.

    There they are known once the step's samples are on the CPU, and `settle` was called.
    """

    flow_s: float = 0.0
    vocoder_s: float = 0.0
    clock: Callable[[], float] = perf_counter
    _marks: list[float | torch.cuda.Event] = field(default_factory=list)

    def mark(self, device: torch.device) -> None:
        """Note the begin of the flow, of the vocoder, and its end."""
        if device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._marks.append(event)
        else:
            self._marks.append(self.clock())

    def settle(self) -> None:
        """Read what was marked, if anything was; the device has done the step's work."""
        if not self._marks:
            return
        began, solved, ended = self._marks
        self.flow_s, self.vocoder_s = _seconds(began, solved), _seconds(solved, ended)


def _seconds(began: float | torch.cuda.Event, ended: float | torch.cuda.Event) -> float:
    if isinstance(began, float) and isinstance(ended, float):
        return ended - began
    assert isinstance(began, torch.cuda.Event), "marks of two devices"
    assert isinstance(ended, torch.cuda.Event), "marks of two devices"
    return began.elapsed_time(ended) / 1000
