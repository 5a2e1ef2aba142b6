"""What a vLLM request says about its draws, from the service to the engine's process."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from models.lm.plan import Stretch

KEY = "firstword"  # of a request's extra arguments
NUM_NO_DRAW_CLASSES = 1
"""The sampler's answers have one class more than the model: drawn where nothing could be."""


@dataclass(frozen=True, slots=True)
class Draws:
    """The draws of one request: a stretch of an utterance between two of its plan's turns.

    num_drawn: how many draws of the utterance came before. history: the last ids before it, fills
    included, at most as many as the repetition window holds.
    """

    seed: int
    num_drawn: int
    history: tuple[int, ...]
    first_rule: int  # a `Forbidden`
    num_first: int
    later_rule: int
    is_greedy: bool = False

    @classmethod
    def of(
        cls, stretch: Stretch, seed: int, num_drawn: int, history: tuple[int, ...], is_greedy: bool
    ) -> "Draws":
        rules = int(stretch.first), stretch.num_first, int(stretch.later)
        return cls(seed, num_drawn, history, *rules, is_greedy)

    @classmethod
    def read(cls, extra_args: Mapping[str, Any] | None) -> "Draws":
        """Raises ValueError for a request that does not say it."""
        given = (extra_args or {}).get(KEY)
        if not isinstance(given, Mapping):
            raise ValueError(f"a request came without {KEY!r} in its extra_args; only Firstword can ask this")
        return cls(**{**given, "history": tuple(given["history"])})

    def written(self) -> dict[str, Any]:
        """The extra arguments of a request, which `read` reads back."""
        return {KEY: asdict(self)}
