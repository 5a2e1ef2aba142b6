"""The engine: admits streams, measures how many run in real time, drains."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from dataclasses import replace
from functools import partial

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.clients import ANYBODY
from firstword.app.core.admission import Admission, Made
from firstword.app.core.interface import (
    Audio,
    EngineStatus,
    ListedTokens,
    NetworksState,
    ReadPart,
    TextReport,
)
from firstword.app.core.parts import StreamParts
from firstword.app.core.request import Delivery, EngineInfo, SynthesisRequest, VoiceChoice
from firstword.app.core.stream import SpeechStream
from firstword.app.engine.capacity import Capacity, LiveFactors, measured_capacity
from firstword.app.engine.loudness import Loudness
from firstword.app.engine.token_listing import Listing, list_tokens
from firstword.app.engine.unloading import Unloading
from firstword.app.engine.voice_parts import speak_for_nobody, warm_up
from firstword.app.errors import Draining
from firstword.app.events import StreamEvents
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.app.supervisor import Supervisor
from firstword.app.telemetry.metrics import Metrics
from firstword.app.text.marks import Pause, Rate, Voice
from firstword.app.text.segment import Segment

_MEASURED_TEXT = "Good morning. Everything is ready now, and the first may begin."
IDLE_S = 60.0  # without a stream, before the capacity is measured again
MEASURED_EVERY_S = 6 * 3600.0
_log = logging.getLogger(__name__)


class SpeechEngine:
    """The `Engine` of the service. Used within one event loop."""

    def __init__(
        self,
        parts: StreamParts,
        metrics: Metrics,
        loudness: Loudness | None = None,
        unloading: Unloading | None = None,
    ) -> None:
        """parts: with an admission. loudness: measures speakers once the engine is warm. unloading: frees the
        networks while nobody uses them; the admission loads them."""
        assert parts.admission is not None, "an engine admits streams"
        self.info: EngineInfo = parts.info
        self._parts = parts
        self._admission: Admission = parts.admission
        self._loudness = loudness
        self._unloading = unloading
        self._metrics = metrics
        self._streams: set[SpeechStream] = set()  # from their admission until their clients have left them
        self._listings: set[Listing] = set()
        self._is_warm = False
        self._workers = Supervisor(lambda name: metrics.worker_failures.labels(name).inc())
        metrics.ready.set_function(lambda: float(self._can_admit))
        metrics.networks_unloaded.set_function(lambda: float(self._networks_state != "loaded"))
        metrics.max_streams.set_function(lambda: float(self.max_streams))
        metrics.queue_depth.set_function(lambda: float(self._admission.num_queued))
        metrics.file_queue_depth.set_function(lambda: float(self._admission.num_files_queued))

    @property
    def max_streams(self) -> int:
        return self._admission.max_streams

    @property
    def status(self) -> EngineStatus:
        reason = self._unready_reason
        return EngineStatus(
            not reason,
            reason,
            self._workers.failing,
            self.max_streams,
            self._admission.known_from,
            self._networks_state,
        )

    @property
    def _networks_state(self) -> NetworksState:
        return "loaded" if self._unloading is None else self._unloading.state

    @property
    def _failure(self) -> str:
        """Why no stream can run: its language model's, or of networks that could not be loaded again."""
        load_failure = "" if self._unloading is None else self._unloading.failure
        return self._parts.generator.unready_reason or load_failure

    @property
    def _unready_reason(self) -> str:
        if not self._is_warm:
            return "warming up"
        if self._admission.is_draining:
            return "draining: the server is shutting down"
        if self._failure:
            return self._failure
        if self._admission.is_full:
            limit = f"{self.max_streams} streams run at once, by {self._admission.known_from}"
            return f"full: {limit}, and the queue is full"
        return ""

    @property
    def _can_admit(self) -> bool:
        """True while streams are admitted at all, however many run."""
        return self._is_warm and not self._admission.is_draining and not self._failure

    def open(self, request: SynthesisRequest, events: StreamEvents | None = None) -> SpeechStream:
        return SpeechStream(request, self._parts, events, self._streams)

    def list_tokens(self, request: SynthesisRequest) -> AsyncGenerator[ListedTokens]:
        self.info.check(request)
        return list_tokens(
            request, self._parts.resolved(request), self._parts, self._admission, self._listings
        )

    async def wait_for_free_slot(self) -> None:
        await self._admission.wait_for_free_slot()

    async def read_text(self, request: SynthesisRequest) -> TextReport:
        self.info.check(request)
        resolved = self._parts.resolved(request)
        assert request.text is not None, "a whole text"
        text, warnings = self._parts.text, list[str]()
        reading = (resolved.language, resolved.reading, warnings, resolved.work)
        feed = await asyncio.to_thread(text.open, "whole", *reading, refuses=False)
        parts: list[ReadPart] = []
        items = await asyncio.to_thread(feed.read, request.text, True)
        own = self._parts.speaker_of_text(resolved, items)
        for item in items:
            match item:
                case Segment():
                    spoken = text.marks.shown(item.spoken)
                    marks = text.marks.found(item.spoken)
                    parts.append(ReadPart(item.source, spoken, item.language, item.text_ids, marks))
                case Pause():
                    parts.append(ReadPart(item.source, pause_s=item.seconds))
                case Voice():
                    speaker = self._parts.speakers.get(
                        item.name or own, request.client, takes_alias=item.name is not None
                    )
                    parts.append(ReadPart(speaker=speaker.name))
                case Rate():
                    parts.append(ReadPart(rate=item.rate))
        return TextReport(tuple(parts), tuple(warnings))

    async def warm_up(self, capacity: Capacity | None = None) -> None:
        """Speak in every mode, so that every shape has been run once before the first request.

        capacity: is measured where it is not known yet, and again while nobody speaks. It is how many streams
        are admitted.
        """
        is_unknown = capacity is not None and capacity.max_streams is None
        await warm_up(self._unadmitted, at_once=is_unknown or self.max_streams > 1)
        if capacity is not None:
            if is_unknown:
                self._admission.resize(capacity.add(await self._measure()))
                _log.info("%d streams run at once, as measured", self.max_streams)
            self._correct_from_now_on()
            if self._unloading is None:  # else live streams alone correct it: measuring takes the networks
                self._workers.start("capacity", partial(self._measure_when_idle, capacity))
        if self._unloading is not None:
            self._workers.start("unloading", partial(self._unloading.run, self._admission))
        self._is_warm = True
        if self._loudness is not None:
            clear = self._parts.phrases.clear
            self._workers.start("loudness", partial(self._loudness.run, self._speak_sentence, clear))

    @property
    def _unadmitted(self) -> StreamParts:
        return replace(self._parts, admission=None)

    async def _measure(self) -> int:
        speak = partial(speak_for_nobody, self._unadmitted, _MEASURED_TEXT)
        return await measured_capacity(speak, self._parts.clock, self._parts.pool.num_at_once)

    def _correct_from_now_on(self) -> None:
        """Let live streams correct the measurement that is in force."""
        admission = self._admission
        admission.known_from = "measurement"
        self._metrics.measured_streams.set(admission.max_streams)
        factors = LiveFactors(admission.max_streams)

        def correct(made: Made) -> None:
            before, now = admission.max_streams, factors.corrected(made, admission.max_streams)
            if now == before:
                return
            admission.known_from = "live streams"
            admission.resize(now)
            factor = made.took_s / made.audio_s
            _log.info(
                "%d streams run at once, as live streams show: %d at once, the last made in %.2f of its "
                "length; %d before, %d as measured",
                *(now, round(made.num_at_once), factor, before, factors.measured),
            )

        admission.on_made = correct

    async def _measure_when_idle(self, capacity: Capacity) -> None:
        """Measure again and again, each time when nobody has spoken for a while; who comes ends it."""
        while True:
            await self._admission.wait_until_quiet(IDLE_S)
            async with asyncio.TaskGroup() as tasks:
                measuring = tasks.create_task(self._measure())
                somebody = tasks.create_task(self._admission.wait_for_stream())
                await asyncio.wait((measuring, somebody), return_when=asyncio.FIRST_COMPLETED)
                measuring.cancel()
                somebody.cancel()
            if measuring.cancelled():
                continue
            before, now = self.max_streams, capacity.add(measuring.result())
            self._admission.resize(now)
            self._correct_from_now_on()
            if now != before:
                _log.info("%d streams run at once, as measured while nobody spoke; %d before", now, before)
            await asyncio.sleep(MEASURED_EVERY_S)

    async def drain(self, timeout_s: float) -> None:
        await self._workers.stop()
        self._admission.drain()
        try:
            async with asyncio.timeout(timeout_s):
                await self._admission.wait_until_idle()
                for stream in list(self._streams):
                    await stream.has_left.wait()
        except TimeoutError:
            num_running = len(self._streams) + len(self._listings)
            _log.warning("%d streams did not finish within %g s and are ended", num_running, timeout_s)
        running: list[SpeechStream | Listing] = [*self._streams, *self._listings]
        for one in running:
            one.cancel(Draining("the server had to shut down before the speech was finished", 1))

    async def aclose(self) -> None:
        await self.drain(0)
        await self._parts.aclose()

    async def _speak_sentence(self, text: str, seed: int, speaker: PreparedSpeaker) -> tuple[Samples, int]:
        """Return its samples without any gain, and their rate; as a file, which gives way to listeners."""
        request = SynthesisRequest(
            "loudness",
            "cli",
            text=text,
            voice=VoiceChoice(reference=speaker),
            seed=seed,
            delivery=Delivery(cache=False, is_played=False),
            client=ANYBODY,
        )
        async with self.open(request) as stream:
            pieces = [event.samples async for event in stream if isinstance(event, Audio)]
        return np.concatenate(pieces), stream.sample_rate_hz
