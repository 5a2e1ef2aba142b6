"""Events of one stream: each is told once, and goes to everybody who subscribed to the stream."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

StageName = Literal[
    "speaker", "queue", "text", "prefill", "first_hop", "decode", "lm", "flow", "vocoder", "encode", "send"
]
"""In the order in which a stream passes them. prefill: the language model's first token; first_hop: those of
the first chunk; decode: all. lm: one utterance's share of the language model, told at its end."""

Anomaly = Literal["token_loop", "empty", "max_tokens", "silence"]


@dataclass(frozen=True, slots=True)
class Stage:
    """A stream has passed a stage, maybe one of many times. Times are seconds of the stream's clock.

    compute_s: this stream's share of the computation; None: the stage does not compute. counts: how much
    passed, and what else is worth telling.
    """

    name: StageName
    start_s: float
    end_s: float
    compute_s: float | None = None
    counts: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class WentWrong:
    """An utterance came out wrong, though it may have been spoken."""

    kind: Anomaly


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stream that was cancelled has freed everything."""

    after_s: float


Event = Stage | WentWrong | Stopped
Subscriber = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The subscriber of who wants to know nothing."""


class StreamEvents:
    """The events of one stream. Subscribers are called at once, in order, in the stream's event loop."""

    def __init__(self, clock: Callable[[], float], *subscribers: Subscriber) -> None:
        self.clock = clock
        self._subscribers = [*subscribers]

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        for subscriber in self._subscribers:
            subscriber(event)

    def passed(self, name: StageName, start_s: float, /, **counts: int | str) -> float:
        """Tell that a stage which began at `start_s` ends now; return the time."""
        end_s = self.clock()
        self.emit(Stage(name, start_s, end_s, counts=counts))
        return end_s
