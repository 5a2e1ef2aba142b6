"""The stages of a checkpoint without networks: what comes out tells what went in."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.clients import Client
from firstword.app.core.interface import SpeechPrompt
from firstword.app.errors import InvalidRequest, Overloaded

SAMPLES_PER_TOKEN = 960


@dataclass(eq=False)
class FakeStages:
    """A prepared speaker's features are the number of its samples. A token becomes samples of its value."""

    family: str = "cosyvoice2"
    gives_mel: bool = False
    lookahead_tokens: int = 3
    chunk_tokens: int = 25
    max_sessions: int = 4
    pause: asyncio.Event | None = None  # each step waits for it
    open_sessions: list["FakeTokenSession"] = field(default_factory=list)
    opened: list[tuple[SpeechPrompt | None, int | None]] = field(default_factory=list)

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int, client: Client) -> list[int]:
        return [len(samples) % 6561, 7]

    async def embedding(self, samples: Samples, sample_rate_hz: int, client: Client) -> NDArray[np.float32]:
        return np.full(192, len(samples) / 1000, np.float32)

    async def open_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None, client: Client
    ) -> "FakeTokenSession":
        if len(self.open_sessions) >= self.max_sessions:
            raise Overloaded("full", 1)
        self.opened.append((prompt, first_hop_tokens))
        session = FakeTokenSession(self)
        self.open_sessions.append(session)
        return session

    async def vocode(self, mel: NDArray[np.float32], is_last: bool, deadline_s: float) -> Samples:
        return np.repeat(mel.mean(axis=0), 480)[: None if is_last else -480]


class FakeTokenSession:
    def __init__(self, stages: FakeStages) -> None:
        self._stages = stages
        self._held: list[int] = []
        self.deadlines_s: list[float] = []

    async def step(self, tokens: Sequence[int], is_last: bool, deadline_s: float) -> NDArray[Any]:
        assert self in self._stages.open_sessions, "a step of a session that is closed"
        self.deadlines_s.append(deadline_s)
        if self._stages.pause is not None:
            await self._stages.pause.wait()
        if any(token >= 6561 for token in tokens):
            raise InvalidRequest("no such token", "target_speech_tokens")
        self._held.extend(tokens)
        count = len(self._held) if is_last else max(0, len(self._held) - self._stages.lookahead_tokens)
        given, self._held = self._held[:count], self._held[count:]
        values = np.array(given, np.float32)
        if self._stages.gives_mel:
            return np.repeat(values[None], 80, axis=0).repeat(2, axis=1)
        return values.repeat(SAMPLES_PER_TOKEN)

    def close(self) -> None:
        self._stages.open_sessions.remove(self)
