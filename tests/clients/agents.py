"""What the plug-ins for frameworks of voice agents do against a server; their own environment runs it.

`python agents.py FRAMEWORK URL STORY`; the last line says "done".
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

PIECES = ("Hello, ", "you", ".")
TEXT = "".join(PIECES)
SAMPLES = len(TEXT) * 1200
FRAME_SAMPLES = 480  # of LiveKit, which fills the last one with silence
PATIENCE_S = 200  # on a machine that does something else too

url = sys.argv[2]


def is_all(num_samples: int) -> bool:
    return 0 <= num_samples - SAMPLES < FRAME_SAMPLES


async def livekit_speaks() -> None:
    from firstword_client.livekit import TTS
    from livekit.agents.types import USERDATA_TIMED_TRANSCRIPT

    voice = TTS(url, speaker="anna")
    frame = await voice.synthesize(TEXT).collect()
    assert is_all(frame.samples_per_channel)
    for _ in range(2):
        stream = voice.stream()
        for piece in PIECES:
            stream.push_text(piece)
        stream.end_input()
        frames = [event async for event in stream]
        await stream.aclose()
        assert is_all(sum(event.frame.samples_per_channel for event in frames))
        timed = [word for event in frames for word in event.frame.userdata.get(USERDATA_TIMED_TRANSCRIPT, [])]
        assert "".join(timed) == TEXT, timed
        assert (timed[0].start_time, timed[0].end_time) == (0, 0.3), timed
    await voice.aclose()


async def livekit_is_interrupted() -> None:
    from firstword_client.livekit import TTS

    async with TTS(url) as voice:
        async with voice.stream() as stream:
            stream.push_text(TEXT)
            await anext(stream)
        await freed()


async def livekit_is_refused() -> None:
    from firstword_client.livekit import TTS
    from livekit.agents import APIError

    refusal: APIError | None = None
    async with TTS(url, speaker="nobody") as voice:
        try:
            await voice.synthesize(TEXT).collect()
        except APIError as error:
            refusal = error
    assert refusal is not None
    assert "nobody" in str(refusal), refusal
    assert not refusal.retryable


async def pipeline_of(**options: Any) -> tuple[Any, Any, list[Any]]:
    """Return a running pipeline with the voice in it, the task that runs it, and the frames that come out."""
    from firstword_client.pipecat import FirstwordTTSService
    from pipecat.frames.frames import Frame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.runner import PipelineRunner
    from pipecat.pipeline.task import PipelineTask
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor

    came: list[Frame] = []

    class Listener(FrameProcessor):
        async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            came.append(frame)
            await self.push_frame(frame, direction)

    task = PipelineTask(Pipeline([FirstwordTTSService(url, **options), Listener()]))
    running = asyncio.create_task(PipelineRunner(handle_sigint=False).run(task))
    return task, running, came


def said() -> list[Any]:
    from pipecat.frames.frames import LLMFullResponseEndFrame, LLMFullResponseStartFrame, LLMTextFrame

    return [LLMFullResponseStartFrame(), *map(LLMTextFrame, PIECES), LLMFullResponseEndFrame()]


async def freed() -> None:
    """Wait until whoever runs this has seen that the server stopped."""
    say("interrupted")
    await asyncio.to_thread(sys.stdin.readline)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  of frames that are no events
        await asyncio.sleep(0.01)


async def pipecat_speaks() -> None:
    from pipecat.frames.frames import EndFrame, TTSAudioRawFrame, TTSStoppedFrame, TTSTextFrame

    task, running, came = await pipeline_of(speaker="anna", sample_rate=24_000)
    for num_turns in (1, 2):
        await task.queue_frames(said())
        await until(lambda: sum(isinstance(frame, TTSStoppedFrame) for frame in came) == num_turns)  # noqa: B023
    audio = b"".join(frame.audio for frame in came if isinstance(frame, TTSAudioRawFrame))
    assert len(audio) == 2 * 2 * SAMPLES, len(audio)
    words = [frame for frame in came if isinstance(frame, TTSTextFrame)]
    assert "".join("".join(frame.text for frame in words).split()) == 2 * "".join(TEXT.split()), words
    assert [frame.pts for frame in words] == sorted(frame.pts for frame in words)
    await task.queue_frame(EndFrame())
    await running


async def pipecat_is_interrupted() -> None:
    from pipecat.frames.frames import InterruptionFrame, TTSAudioRawFrame

    task, running, came = await pipeline_of(sample_rate=24_000)
    await task.queue_frames(said())
    await until(lambda: any(isinstance(frame, TTSAudioRawFrame) for frame in came))
    await task.queue_frame(InterruptionFrame())
    await until(lambda: any(isinstance(frame, InterruptionFrame) for frame in came))
    await freed()
    await task.cancel()
    await running


async def pipecat_is_refused() -> None:
    task, running, _ = await pipeline_of(speaker="nobody")
    errors: list[str] = []

    async def note(_: Any, frame: Any) -> None:
        errors.append(frame.error)

    task.add_event_handler("on_pipeline_error", note)
    await task.queue_frames(said())
    await until(lambda: any("nobody" in error for error in errors))
    await task.cancel()
    await running


STORIES: dict[str, Callable[[], Awaitable[None]]] = {
    f"{framework} {story}": globals()[f"{framework}_{story}"]
    for framework in ("livekit", "pipecat")
    for story in ("speaks", "is_interrupted", "is_refused")
}

if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(STORIES[f"{sys.argv[1]} {sys.argv[3]}"](), PATIENCE_S))
    say("done")
