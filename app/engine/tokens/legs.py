"""An utterance in pieces that an engine in another process can run by itself."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from models.vllm.draws import Draws


class EngineDied(Exception):
    """The engine's process is gone, and all that ran in it."""


@dataclass(frozen=True, slots=True)
class Leg:
    """Run `prompt_ids`, then draw up to `max_ids` ids, running each, up to the first of the stop set.

    What an earlier leg of the utterance has run is a prefix of these, which the engine's cache still has.
    """

    prompt_ids: tuple[int, ...]
    draws: Draws
    max_ids: int


class LegEngine(Protocol):
    """Used within one event loop."""

    def run(self, leg: Leg) -> AsyncGenerator[Sequence[int], None]:
        """The ids as they are drawn, one or several at a time; closed early, it stops and frees its memory.

        Raises EngineDied.
        """
        ...

    async def wait_until_dead(self) -> None:
        """Returns when its process is gone, however it went."""
        ...

    async def aclose(self) -> None: ...
