"""The sampling state that a vLLM request carries from the service to the engine's process."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import SamplingSpan

MAX_WINDOW = 100  # of repetition, of any request

KEY = "firstword"  # of a request's extra arguments


@dataclass(frozen=True, slots=True)
class SamplingState:
    """Where the draws of an utterance stand when a decode request begins, and the rules of those to come.

    num_drawn: draws of the utterance so far. history: the last ids drawn, fills included, at most as many
    as the repetition window holds. The first `num_first` draws are under `first_rule`.
    """

    seed: int
    num_drawn: int
    history: tuple[int, ...]
    first_rule: int  # a `Forbidden`
    num_first: int
    later_rule: int
    is_greedy: bool = False
    config: SamplingConfig | None = None  # None: that of the checkpoint

    @classmethod
    def of(
        cls,
        span: SamplingSpan,
        seed: int,
        num_drawn: int,
        history: tuple[int, ...],
        is_greedy: bool,
        config: SamplingConfig | None = None,
    ) -> "SamplingState":
        rules = int(span.first_rule), span.num_first, int(span.later_rule)
        return cls(seed, num_drawn, history, *rules, is_greedy, config)

    @classmethod
    def read(cls, extra_args: Mapping[str, Any] | None) -> "SamplingState":
        """Raises ValueError for a request that holds none."""
        given = (extra_args or {}).get(KEY)
        if not isinstance(given, Mapping):
            raise ValueError(f"a request came without {KEY!r} in its extra_args; only Firstword can ask this")
        config = given.get("config")
        return cls(
            **{
                **given,
                "history": tuple(given["history"]),
                "config": None if config is None else SamplingConfig(**config),
            }
        )

    def written(self) -> dict[str, Any]:
        """Return the extra arguments of a vLLM request that `read` reads back."""
        return {KEY: asdict(self)}
