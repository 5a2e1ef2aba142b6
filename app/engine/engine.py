"""The engine: admits streams, measures capacity, drains.

How many streams the machine speaks in real time: measured before the first listener comes.

The engine: admits requests, gives each its stream, drains and stops.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from firstword.app.engine.admission import Admission, Slot
from firstword.app.engine.interface import EngineInfo, EngineStatus, Mode, SynthesisRequest
from firstword.app.engine.stream import EngineParts, SpeechStream
from firstword.app.errors import Draining, InvalidRequest, Restarting
from firstword.app.speakers.interface import PreparedSpeaker

_FIRST = 4  # streams spoken at once; twice as many while the machine could carry them twice over
MOST_STREAMS = 256
_SHARE = 0.8  # of what it speaks; the rest keeps chunks that come at the same time from being late


async def measured_capacity(
    speak: Callable[[], Coroutine[Any, Any, float]], clock: Callable[[], float]
) -> int:
    """speak: one stream from its start to its end, as fast as it goes; tells its seconds of audio."""
    count = _FIRST
    while True:
        began_s = clock()
        async with asyncio.TaskGroup() as tasks:
            streams = [tasks.create_task(speak()) for _ in range(count)]
        speed = sum(stream.result() for stream in streams) / (clock() - began_s)
        if speed < 2 * count or count >= MOST_STREAMS:
            return max(1, round(_SHARE * speed))
        count *= 2


_WARM_UP_TEXT = "Good morning. Everything is ready now, and the first listener will not have to wait."
_log = logging.getLogger(__name__)


class SpeechEngine:
    """Used within one event loop.

    prepared: a speaker by its name, None for the default one; raises SpeakerNotFound.
    """

    def __init__(
        self,
        resources: EngineParts,
        admission: Admission,
        prepared: Callable[[str | None], Awaitable[PreparedSpeaker]],
    ) -> None:
        self._shared, self._admission, self._prepared = resources, admission, prepared
        self._streams: set[SpeechStream] = set()  # until their listeners have left them
        self._all_heard = asyncio.Event()
        self._all_heard.set()
        self._is_warm = False
        resources.metrics.ready.set_function(lambda: float(self._can_admit))
        resources.metrics.max_streams.set_function(lambda: float(self.max_streams))

    @property
    def info(self) -> EngineInfo:
        return self._shared.info

    @property
    def max_streams(self) -> int:
        return self._admission.max_streams

    @property
    def status(self) -> EngineStatus:
        if not self._is_warm:
            return EngineStatus(False, "warming up")
        if self._admission.is_draining:
            return EngineStatus(False, "draining: the server is shutting down")
        if self._shared.generator.unready_reason:
            return EngineStatus(False, self._shared.generator.unready_reason)
        if self._admission.is_full:
            return EngineStatus(False, f"full: {self.max_streams} streams run and the queue is full")
        return EngineStatus(True)

    @property
    def _can_admit(self) -> bool:
        """However many streams run."""
        return self._is_warm and not self._admission.is_draining and not self._shared.generator.unready_reason

    async def open(self, request: SynthesisRequest, prepared: PreparedSpeaker | None = None) -> SpeechStream:
        """prepared: a speaker that is not registered, instead of the one that the request names."""
        self._check(request)
        metrics, clock = self._shared.metrics, self._shared.clock
        began = clock()
        speaker = prepared or await self._prepared(request.speaker)
        came = clock()
        metrics.stage_seconds.labels(stage="speaker").observe(came - began)
        metrics.queue_depth.inc()
        try:
            place = await self._admission.acquire()
        finally:
            metrics.queue_depth.dec()
        waited = clock() - came
        metrics.queue_wait_seconds.observe(waited)
        stream = self._stream(request, speaker, place)
        stream.stats.queue_wait_s = waited
        return stream

    async def warm_up(self, measures: bool = False) -> None:
        """Speaks in every mode, so that every shape has been run once before the first listener comes.

        measures: how many streams are spoken in real time, which is how many are admitted from then on.
        """
        modes: list[Mode] = ["whole"]
        if self.info.can_continue_text:
            modes.append("continuous")
        for mode in modes:
            await self._speak_to_nobody(mode)
        if measures:
            self._admission.max_streams = MOST_STREAMS
            self._admission.max_streams = await measured_capacity(self._speak_to_nobody, self._shared.clock)
            _log.info("%d streams are spoken at once, as measured", self.max_streams)
        self._is_warm = True

    async def drain(self, timeout_s: float) -> None:
        """Admits nobody more, lets the streams finish, then ends the rest with an error they can see."""
        self._admission.drain()
        try:
            async with asyncio.timeout(timeout_s):
                await self._admission.wait_until_idle()
                await self._all_heard.wait()
        except TimeoutError:
            _log.warning("%d streams did not finish within %g s and are ended", len(self._streams), timeout_s)
        for stream in list(self._streams):
            stream.fail(Draining("the server had to shut down before the speech was finished", 1))

    async def aclose(self) -> None:
        await self.drain(0)
        await self._shared.generator.aclose()
        await self._shared.pool.aclose()

    async def _speak_to_nobody(self, mode: Mode = "whole") -> float:
        """-> seconds of audio."""
        async with await self.open(SynthesisRequest("warm-up", "cli", mode, seed=0)) as stream:
            stream.push_text(_WARM_UP_TEXT)
            stream.finish_text()
            async for _ in stream:
                pass
        return stream.stats.audio_samples / stream.sample_rate_hz

    def _stream(self, request: SynthesisRequest, speaker: PreparedSpeaker, place: Slot) -> SpeechStream:
        name = request.speaker or self.info.default_speaker
        stream = SpeechStream(request, name, speaker, self._shared, place, self._forget)
        self._streams.add(stream)
        self._all_heard.clear()
        return stream

    def _forget(self, stream: SpeechStream) -> None:
        self._streams.discard(stream)
        if not self._streams:
            self._all_heard.set()

    def _check(self, request: SynthesisRequest) -> None:
        if request.mode == "continuous" and not self.info.can_continue_text:
            raise InvalidRequest(
                f"{self.info.checkpoint} cannot speak while its text comes; use mode segments", "mode"
            )
        if request.instruct is not None and not self.info.takes_instruct:
            raise InvalidRequest(
                f"{self.info.checkpoint} takes no instructions; leave instruct out", "instruct"
            )
        if self._shared.generator.unready_reason:
            raise Restarting(self._shared.generator.unready_reason)
