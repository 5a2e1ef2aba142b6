"""CosyVoice 3's rule for silence: long runs of silent tokens are withheld from the flow.

The language model keeps them in its context and history.
"""

from dataclasses import dataclass

from firstword.models.config import LMConfig, Qwen2LMConfig

COSYVOICE3_SILENT_IDS = frozenset({1, 2, 28, 29, 55, 248, 494, 2241, 2242, 2322, 2323})
MAX_SILENT_RUN_TOKENS = 5


def silent_ids(config: LMConfig) -> frozenset[int]:
    """The speech tokens of silence that the published code names; it has a list for CosyVoice 3 only."""
    is_cosyvoice3 = isinstance(config, Qwen2LMConfig) and config.has_cosyvoice3_vocabulary
    return COSYVOICE3_SILENT_IDS if is_cosyvoice3 else frozenset()


@dataclass(slots=True)
class SilentTokenFilter:
    """One per utterance. Lets through at most `max_run_tokens` silent tokens in a row."""

    silent_ids: frozenset[int]
    max_run_tokens: int = MAX_SILENT_RUN_TOKENS
    run_tokens: int = 0

    def lets_through(self, id: int) -> bool:
        self.run_tokens = self.run_tokens + 1 if id in self.silent_ids else 0
        return self.run_tokens <= self.max_run_tokens
