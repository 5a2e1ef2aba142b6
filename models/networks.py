"""What runs a checkpoint's networks: torch itself, or a runtime in its place."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from firstword.models.flow.incremental import FlowNetworks
from firstword.models.harmonic_vocos.streaming import HarmonicNetworks
from firstword.models.hift.hift import Generate
from firstword.models.hift.streaming import Vocoder
from firstword.models.lm.decoder import SpeechLM
from firstword.models.lm.tokens import TokenGenerator


@dataclass(frozen=True, slots=True)
class TokenEvents:
    """What a token generator tells the service, and how much it has to expect.

    on_step: called with the rows that a step advanced and the seconds it took, from any thread. on_restart:
    called when an engine runs in place of one that died. max_streams: utterances at once; 0 is unknown.
    """

    on_step: Callable[[int, float], None] = lambda num_rows, seconds: None
    on_restart: Callable[[], None] = lambda: None
    max_streams: int = 0


StartTokens = Callable[[TokenEvents], Awaitable[TokenGenerator]]
"""Starts a generator of speech tokens; raises BackendError and CheckpointError."""


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """What a runtime provides of a checkpoint; None: torch's own network runs, or another runtime's.

    lm: the language model in this process. start_tokens: the language model in a process of its own.
    vocoder: HiFT's generator, or the networks of Harmonic Vocos, as the checkpoint has one or the other.
    whole_vocoder: from mel to samples, with the states that it needs.
    """

    lm: SpeechLM | None = None
    start_tokens: StartTokens | None = None
    flow: FlowNetworks | None = None
    vocoder: Generate | HarmonicNetworks | None = None
    whole_vocoder: Vocoder[Any] | None = None

    def __or__(self, other: "Networks") -> "Networks":
        """Return both; where both have a part, the other's."""
        return Networks(
            lm=other.lm or self.lm,
            start_tokens=other.start_tokens or self.start_tokens,
            flow=other.flow or self.flow,
            vocoder=other.vocoder or self.vocoder,
            whole_vocoder=other.whole_vocoder or self.whole_vocoder,
        )
