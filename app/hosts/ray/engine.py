"""An engine in a process of its own, for servers elsewhere: its streams, its speakers and its stages."""

import asyncio
import hmac
import json
import logging
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from firstword.app.clients import ANYBODY, Client
from firstword.app.core.interface import Audio, Engine, ListedTokens, SpeechPrompt, Stages, SynthesisStream
from firstword.app.core.request import SynthesisRequest
from firstword.app.core.transcript import UtteranceTranscript
from firstword.app.errors import CancelReason, InvalidRequest, TtsError
from firstword.app.events import Event, StreamEvents
from firstword.app.hosts.ray.deadline import deadline
from firstword.app.hosts.ray.messages import (
    Busy,
    Description,
    Entered,
    Failed,
    Happened,
    Item,
    Noted,
    Opened,
    Operation,
    Said,
    StagesInfo,
)
from firstword.app.speakers.interface import RequestKey, Speakers

MAX_LINE_BYTES = 16 << 20  # of an operation; the server in front has limits of its own
MAX_AHEAD_S = 2.0  # of audio that was sent and that nobody has taken
TOKEN_BYTES = 16

_log = logging.getLogger(__name__)


class EngineSpeakers(Speakers, Protocol):
    """`SpeakerListing`."""

    @property
    def builtin_names(self) -> Mapping[str, str]: ...


class HostedParts(Protocol):
    """What `running_engine` gives."""

    @property
    def engine(self) -> Engine: ...

    @property
    def speakers(self) -> EngineSpeakers: ...

    @property
    def stages(self) -> Stages: ...


Opening = Callable[[], AbstractAsyncContextManager[HostedParts]]
Take = Callable[[Operation], None]


class Inputs:
    """Takes operations on streams over TCP: a line with the token of the stream, then a line of JSON each.

    Who closes the connection has left the stream.
    """

    def __init__(self) -> None:
        self._taking: dict[str, Take] = {}
        self._server: asyncio.Server | None = None
        self._host = ""

    async def open(self, host: str) -> None:
        self._host = host
        self._server = await asyncio.start_server(self._serve, host, 0, limit=MAX_LINE_BYTES)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    @contextmanager
    def taking(self, take: Take, replica: str) -> Iterator[Opened]:
        """Hand what comes for one stream to `take`."""
        assert self._server is not None, "open"
        token = secrets.token_hex(TOKEN_BYTES)
        self._taking[token] = take
        try:
            yield Opened(self._host, self._server.sockets[0].getsockname()[1], token, replica)
        finally:
            del self._taking[token]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        token = None
        # Of a server whose machine is gone nothing ever comes.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            async with deadline(5):
                said = (await reader.readexactly(2 * TOKEN_BYTES + 1)).strip()
            token = next((one for one in self._taking if hmac.compare_digest(one.encode(), said)), None)
            while token is not None and (line := await reader.readline()):
                if token in self._taking:
                    self._taking[token](tuple(json.loads(line)))
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError) as error:
            _log.warning("a connection to a stream failed: %s", error)
        finally:
            if token in self._taking:
                self._taking[token](("cancel", "disconnect"))
            writer.close()


@dataclass(slots=True)
class Ahead:
    """How much was sent that nobody has taken yet."""

    num_samples: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def took(self, num_samples: int) -> None:
        self.num_samples -= num_samples
        self.changed.set()

    async def wait_below(self, max_samples: int) -> None:
        while self.num_samples > max_samples:
            self.changed.clear()
            await self.changed.wait()


class RemoteSide:
    """One engine as `Link` calls it. Used within one event loop."""

    def __init__(self, parts: HostedParts, replica: str) -> None:
        self._parts = parts
        self._replica = replica
        self._inputs = Inputs()
        self.num_streams = 0

    async def open(self, host: str) -> None:
        """host: the address of this machine at which servers reach it."""
        await self._inputs.open(host)

    def close(self) -> None:
        self._inputs.close()

    async def describe(self) -> Description:
        engine, stages = self._parts.engine, self._parts.stages
        builtin = {one.name: one for one in self._parts.speakers.list(ANYBODY) if one.kind == "builtin"}
        return Description(
            self._replica,
            engine.info,
            engine.status,
            engine.max_streams,
            self.num_streams,
            builtin,
            dict(self._parts.speakers.builtin_names),
            StagesInfo(stages.family, stages.gives_mel, stages.lookahead_tokens, stages.chunk_tokens),
        )

    async def ask(
        self, part: str, method: str, key: RequestKey | None, given: Any, named: Any
    ) -> AsyncGenerator[list[Any], None]:
        """Give the result of an asynchronous method of the engine, its speakers or its stages, or Failed.

        key: of a request that makes a speaker, and must not make it twice.
        """
        yield [Entered()]
        target = {
            "engine": self._parts.engine,
            "speakers": self._parts.speakers,
            "stages": self._parts.stages,
        }[part]
        if (part, method) == ("stages", "vocode"):
            mel, is_last, in_s = given
            given = mel, is_last, time.perf_counter() + in_s
        work = partial(getattr(target, method), *given, **named)
        try:
            if key is not None:
                yield [await self._parts.speakers.once(key, named["client"], work)]
            else:
                yield [await work()]
        except TtsError as error:
            yield [Failed(error)]

    async def speak(
        self, request: SynthesisRequest, operations: Sequence[Operation], may_wait: bool
    ) -> AsyncGenerator[list[Item], None]:
        """Speak a request. operations: what was done to the stream so far. may_wait: for a free slot."""
        if not may_wait and not await _has_room(self._parts.engine):
            yield [Busy()]
            return
        told = Told()
        try:
            stream = self._parts.engine.open(request, StreamEvents(time.perf_counter, told.on_event))
        except TtsError as error:
            yield [Failed(error)]
            return
        ahead = Ahead()
        take = partial(_operate, stream, ahead)
        self.num_streams += 1
        try:
            with self._inputs.taking(take, self._replica) as opened:
                yield [opened]
                for operation in operations:
                    take(operation)
                async with stream:
                    yield [*told.news(stream), Entered()]
                    async for event in stream:
                        if isinstance(event, Audio):
                            ahead.num_samples += len(event.samples)
                        yield [*told.news(stream), Said(event)]
                        await ahead.wait_below(round(MAX_AHEAD_S * stream.sample_rate_hz))
                yield told.news(stream)
        except TtsError as error:
            yield [*told.news(stream), Failed(error)]
        finally:
            self.num_streams -= 1

    async def list_tokens(
        self, request: SynthesisRequest
    ) -> AsyncGenerator[list[ListedTokens | Entered | Failed], None]:
        yield [Entered()]
        try:
            async for listed in self._parts.engine.list_tokens(request):
                yield [listed]
        except TtsError as error:
            yield [Failed(error)]

    async def speak_tokens(
        self, prompt: SpeechPrompt | None, first_hop_tokens: int | None, client: Client
    ) -> AsyncGenerator[list[Any], None]:
        """Run a TokenSession: each operation `step` gives its result, until `close`."""
        steps: asyncio.Queue[Operation] = asyncio.Queue()
        with self._inputs.taking(steps.put_nowait, self._replica) as opened:
            yield [opened]
            try:
                session = await self._parts.stages.open_tokens(prompt, first_hop_tokens, client)
            except TtsError as error:
                yield [Failed(error)]
                return
            try:
                yield [Entered()]
                while (step := await steps.get())[0] == "step":
                    _, tokens, is_last, in_s = step
                    try:
                        yield [await session.step(tokens, is_last, time.perf_counter() + in_s)]
                    except TtsError as error:
                        yield [Failed(error)]
            finally:
                session.close()


class Told:
    """What happened in a stream and was not told yet."""

    def __init__(self) -> None:
        self._news: list[Item] = []
        self._noted: Noted | None = None
        self._transcripts: list[UtteranceTranscript] = []

    def on_event(self, event: Event) -> None:
        self._news.append(Happened(event, time.perf_counter()))

    def news(self, stream: SynthesisStream) -> list[Item]:
        news, self._news = self._news, []
        stats = stream.stats
        now = Noted(
            stats.first.is_speaker_ready,
            stats.speech_tokens,
            tuple(stats.pauses),
            stats.word_times,
            tuple(stats.warnings),
        )
        changed = tuple(
            (number, replace(one, words=[*one.words]))
            for number, one in enumerate(stream.transcripts)
            if number >= len(self._transcripts) or one != self._transcripts[number]
        )
        for number, one in changed:
            self._transcripts[number:] = [one, *self._transcripts[number + 1 :]]
        if changed or now != self._noted:
            self._noted = now
            news.append(replace(now, transcripts=changed))
        return news


async def _has_room(engine: Engine) -> bool:
    try:
        async with asyncio.timeout(0):
            await engine.wait_for_free_slot()
    except TimeoutError:
        return False
    return True


def _operate(stream: SynthesisStream, ahead: Ahead, operation: Operation) -> None:
    match operation:
        case ("text", str(text)):
            with suppress(InvalidRequest):  # the server in front has refused it
                stream.push_text(text)
        case ("flush",):
            stream.flush()
        case ("end",):
            stream.finish_text()
        case ("took", int(num_samples)):
            ahead.took(num_samples)
        case ("cancel", reason):
            cancel: CancelReason = reason
            stream.cancel(cancel)
            ahead.took(ahead.num_samples)
        case _:
            _log.warning("an unknown operation on a stream: %s", operation[:1])
