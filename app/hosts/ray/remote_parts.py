"""Speakers and stages of engines in other processes, for a server in front of them. Free of torch."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from firstword.app.audio.dsp import Samples
from firstword.app.clients import STRANGER, Access, Client
from firstword.app.core.interface import SpeechPrompt
from firstword.app.errors import Restarting
from firstword.app.hosts.ray.deadline import deadline
from firstword.app.hosts.ray.messages import Failed, Link, Opened, StagesInfo
from firstword.app.hosts.ray.remote import (
    ANSWERS_WITHIN_S,
    CONNECTS_WITHIN_S,
    OPENS_WITHIN_S,
    SOUND_WITHIN_S,
    UNANSWERED,
    ask,
    told_as_restarting,
    within,
)
from firstword.app.speakers.interface import KnownSpeaker, SentRecording
from firstword.app.speakers.listing import SpeakerListing
from firstword.app.speakers.shared_store import SharedSpeakerStore


class RemoteSpeakers(SpeakerListing):
    """`Speakers`: the list is the database's, and an engine reads recordings."""

    def __init__(
        self,
        link: Link,
        store: SharedSpeakerStore,
        builtin: Mapping[str, KnownSpeaker],
        builtin_names: Mapping[str, str],
        default_speaker: str | None,
    ) -> None:
        super().__init__(store, builtin, builtin_names, default_speaker)
        self._link = link
        self._infos_of_builtin = builtin
        self._shared = store

    async def enrol(
        self,
        name: str,
        recording: bytes,
        transcript: str = "",
        language: str | None = None,
        *,
        client: Client = STRANGER,
        access: Access | None = None,
        lexicon: Mapping[str, str] | None = None,
    ) -> KnownSpeaker:
        named = {"client": client, "access": access, "lexicon": lexicon}
        return await self._registered("enrol", name, recording, transcript, language, **named)

    async def import_bundle(
        self,
        bundle: bytes,
        name: str | None = None,
        *,
        client: Client = STRANGER,
        access: Access | None = None,
    ) -> KnownSpeaker:
        return await self._registered("import_bundle", bundle, name, client=client, access=access)

    async def _registered(self, method: str, *given: Any, **named: Any) -> KnownSpeaker:
        key = self._request.get()
        info: KnownSpeaker = await ask(self._link, "", "speakers", method, *given, **named, request_key=key)
        await asyncio.to_thread(self._shared.refresh)  # who registered it finds it at once
        return info

    async def export(self, name: str, *, client: Client = STRANGER) -> bytes:
        bundle: bytes = await ask(self._link, "", "speakers", "export", name, client=client)
        return bundle

    async def source_tokens(self, recording: SentRecording, client: Client = STRANGER) -> tuple[int, ...]:
        tokens: tuple[int, ...] = await ask(self._link, "", "speakers", "source_tokens", recording, client)
        return tokens

    def _builtin_info(self, name: str) -> KnownSpeaker:
        return self._infos_of_builtin[name]

    def _is_ready(self, id: int) -> bool:
        return False  # which engine would say

    def _deleted(self, id: int) -> None:
        """The engines hear of it from the database."""


class RemoteStages:
    """The `Stages` of whichever engine Ray chooses."""

    def __init__(self, link: Link, info: StagesInfo) -> None:
        self._link = link
        self._info = info

    @property
    def family(self) -> str:
        return self._info.family

    @property
    def gives_mel(self) -> bool:
        return self._info.gives_mel

    @property
    def lookahead_tokens(self) -> int:
        return self._info.lookahead_tokens

    @property
    def chunk_tokens(self) -> int:
        return self._info.chunk_tokens

    async def speech_tokens(self, samples: Samples, sample_rate_hz: int, client: Client) -> list[int]:
        tokens: list[int] = await ask(
            self._link, "", "stages", "speech_tokens", samples, sample_rate_hz, client
        )
        return tokens

    async def embedding(self, samples: Samples, sample_rate_hz: int, client: Client) -> NDArray[np.float32]:
        found: NDArray[np.float32] = await ask(
            self._link, "", "stages", "embedding", samples, sample_rate_hz, client
        )
        return found

    async def open_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None, client: Client
    ) -> "RemoteTokenSession":
        session = RemoteTokenSession(
            self._link.stream("", 0, "speak_tokens", prompt, first_hop_tokens, client)
        )
        await session.open()
        return session

    async def vocode(self, mel: NDArray[np.float32], is_last: bool, deadline_s: float) -> Samples:
        in_s = deadline_s - time.perf_counter()  # clocks of two machines differ
        more_s = SOUND_WITHIN_S * mel.shape[1]
        samples: Samples = await ask(self._link, "", "stages", "vocode", mel, is_last, in_s, more_s=more_s)
        return samples


class RemoteTokenSession:
    """A `TokenSession` at one engine."""

    def __init__(self, items: AsyncGenerator[list[Any], None]) -> None:
        self._items = items
        self._input: asyncio.StreamWriter | None = None  # None: not open, or closed
        self._closing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect, then wait for a slot. Raises what the engine raises, and Restarting."""
        try:
            opened = await self._next(OPENS_WITHIN_S)
            assert isinstance(opened, Opened), opened
            async with deadline(CONNECTS_WITHIN_S):
                _, self._input = await asyncio.open_connection(opened.host, opened.port)
            self._input.write(f"{opened.token}\n".encode())
            await self._next(ANSWERS_WITHIN_S)
        except (OSError, TimeoutError):
            self.close()
            raise Restarting(UNANSWERED, 1) from None
        except BaseException:
            self.close()
            raise

    async def step(self, tokens: Sequence[int], is_last: bool, deadline_s: float) -> NDArray[np.float32]:
        assert self._input is not None, "open"
        in_s = deadline_s - time.perf_counter()
        self._input.write(json.dumps(("step", list(tokens), is_last, in_s)).encode() + b"\n")
        found: NDArray[np.float32] = await self._next(ANSWERS_WITHIN_S + SOUND_WITHIN_S * len(tokens))
        return found

    def close(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None
        self._closing = asyncio.create_task(self._items.aclose())

    async def _next(self, limit_s: float) -> Any:
        """Raises what the engine raises, and Restarting."""
        async with told_as_restarting():
            (item,) = await within(limit_s, self._items)
        if isinstance(item, Failed):
            raise item.error
        return item
