"""Measure the loudness of each speaker in the background, and correct it by a constant gain."""

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.loudness import integrated_lufs
from firstword.app.errors import TtsError
from firstword.app.speakers.interface import PreparedSpeaker
from firstword.files import write_whole

MAX_WAITING = 256  # speakers to be measured; more are when they speak again
MAX_SPEAKERS = 10_000
ENGLISH = (
    *(
        "The morning was bright and cold.",
        "He left the door open.",
        "Seven boats came home.",
        "Why not ask her?",
    ),
    *("The road goes over the hill.", "Please close the window.", "They had soup and bread."),
    *("A small bird sang outside.", "The price is much too high.", "I will be there at noon."),
    *("What a beautiful garden!", "Turn left behind the church.", "The old man told a story."),
    *("It rained for three days.", "Her brother plays the violin.", "Could you say that again?"),
    *(
        "The train was late as ever.",
        "We bought fish at the market.",
        "Nobody knew the answer.",
        "Good night.",
    ),
)
CHINESE = (
    *("今天天气很好。", "他把门打开了。", "我们明天再来。", "你为什么不问她?", "这条路很长。"),
    *("请关上窗户。", "他们吃了面条。", "外面有一只小鸟。", "价格太高了。", "我中午就到。"),
    *("多漂亮的花园!", "在教堂后面左转。", "老人讲了一个故事。", "下了三天雨。", "她哥哥会拉琴。"),
    *("你能再说一遍吗?", "火车又晚点了。", "我们在市场买鱼。", "没有人知道答案。", "晚安。"),
)
_log = logging.getLogger(__name__)

Speak = Callable[[str, int, PreparedSpeaker], Awaitable[tuple[Samples, int]]]
"""A sentence and a seed -> its samples without any gain, and their rate in Hz."""


@dataclass(frozen=True, slots=True)
class Measured:
    lufs: float
    peak: float  # of the sentences, above 0

    def gain(self, target_lufs: float) -> float:
        """Return the gain as a factor, at most what brings the highest peak to full scale."""
        return float(min(10 ** ((target_lufs - self.lufs) / 20), 1 / self.peak))


class Loudness:
    """Keeps measured loudness in a file, by digest of speaker and checkpoint. For one event loop."""

    def __init__(self, target_lufs: float, path: Path, fingerprint: str, languages: tuple[str, ...]) -> None:
        self._target_lufs = target_lufs
        self._path = path
        self._fingerprint = fingerprint
        self._sentences = CHINESE if "zh" in languages and "en" not in languages else ENGLISH
        self._measured = _read(path)
        self._waiting: dict[str, PreparedSpeaker] = {}
        self._has_work = asyncio.Event()

    def gain_of(self, identity: str, speaker: PreparedSpeaker) -> float:
        """Return the gain of a speaker, 1 until it has been measured, which is then going to be done.

        identity: as `PreparedSpeakers.identity` tells it.
        """
        key = hashlib.sha256(f"{self._fingerprint}\n{identity}".encode()).hexdigest()[:32]
        if key in self._measured:
            return self._measured[key].gain(self._target_lufs)
        if len(self._waiting) < MAX_WAITING:
            self._waiting[key] = speaker
            self._has_work.set()
        return 1.0

    async def run(self, speak: Speak, on_measured: Callable[[], None]) -> None:
        """Measure whoever waits, one after the other, until it is cancelled.

        on_measured: called when a gain has changed.
        """
        while True:
            await self._has_work.wait()
            while self._waiting:
                key, speaker = next(iter(self._waiting.items()))
                try:
                    spoken = [await speak(text, seed, speaker) for seed, text in enumerate(self._sentences)]
                    measured = await asyncio.to_thread(_measure, spoken)
                except (TtsError, ValueError) as error:
                    _log.warning("the loudness of a speaker could not be measured: %s", error)
                    measured = None
                del self._waiting[key]
                if measured is not None:
                    self._measured[key] = measured
                    while len(self._measured) > MAX_SPEAKERS:
                        del self._measured[next(iter(self._measured))]
                    await asyncio.to_thread(_write, self._path, dict(self._measured))
                    on_measured()
                    _log.info("a speaker was measured at %.1f LUFS", measured.lufs)
            self._has_work.clear()


def _measure(spoken: list[tuple[Samples, int]]) -> Measured | None:
    samples = np.concatenate([samples for samples, _ in spoken])
    lufs = integrated_lufs(samples, spoken[0][1])
    return None if lufs is None else Measured(round(lufs, 2), float(np.abs(samples).max()))


def _read(path: Path) -> dict[str, Measured]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return {key: Measured(float(one["lufs"]), float(one["peak"])) for key, one in content.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        _log.warning("%s cannot be read and is written anew: %s", path, error)
        return {}


def _write(path: Path, measured: dict[str, Measured]) -> None:
    content = json.dumps({key: asdict(one) for key, one in measured.items()})
    try:
        write_whole(path, content.encode())
    except OSError as error:
        _log.warning("%s cannot be written; speakers are measured again after a restart: %s", path, error)
