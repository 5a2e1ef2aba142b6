"""Withholds long runs of silence from the flow; the language model keeps them."""

from collections.abc import Iterable
from dataclasses import dataclass

from firstword.models.config import Family

COSYVOICE3_SILENT_IDS = frozenset({1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323})
MAX_SILENT_RUN_TOKENS = 5


def silent_ids(family: Family) -> frozenset[int]:
    """The speech tokens of silence that published code knows of; it has a list for CosyVoice 3 only."""
    return COSYVOICE3_SILENT_IDS if family == "cosyvoice3" else frozenset()


@dataclass(slots=True)
class SilentTokenFilter:
    """One per stream. Lets through at most `max_run_tokens` silent tokens in a row."""

    silent_ids: frozenset[int]
    max_run_tokens: int = MAX_SILENT_RUN_TOKENS
    run_tokens: int = 0

    def keep(self, ids: Iterable[int]) -> list[int]:
        """The speech tokens that the flow is given; runs go on from call to call."""
        return [id for id in ids if self._is_kept(id)]

    def _is_kept(self, id: int) -> bool:
        self.run_tokens = self.run_tokens + 1 if id in self.silent_ids else 0
        return self.run_tokens <= self.max_run_tokens
