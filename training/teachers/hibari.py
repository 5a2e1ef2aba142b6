"""hibari (Apache-2.0): a woman's voice distilled from Kokoro-82M, about 50 times as fast as it speaks."""

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hibari
import numpy as np
from hibari import dsp
from hibari.g2p import G2P
from numpy.typing import NDArray

from training.teachers.graphs import open_graph
from training.teachers.spoken import (
    SAMPLE_RATE_HZ,
    STEP_SAMPLES,
    Spoken,
    TeacherError,
    Told,
    as_int16,
    voiced_only,
)
from training.teachers.symbols import label

_ASSETS = Path(hibari.__file__).parent / "assets"
_DURATIONS = "/Clip_output_0"
_HIDDEN = ("/dec_in/Conv_output_0", *(f"/dec.{block}/Add_1_output_0" for block in range(6)))
_PARTS = ("lh", "theta", "ln", "lr", "phi", "f0")
_UNIT_S = 0.025
_FRAME_SAMPLES = 300
_LOWEST_HZ = 40.0  # its pulses never come slower
_MAX_SYMBOLS = 400


class Hibari:
    knows_phase = True

    def __init__(self) -> None:
        self._graph = open_graph(_ASSETS / "hibari.onnx", [_DURATIONS, *_HIDDEN])
        self._ids: dict[str, int] = json.loads((_ASSETS / "vocab.json").read_text(encoding="utf-8"))
        self._g2p: Any = G2P()

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError."""
        return self._speak(text, ())[0]

    def speak_and_tell(self, text: str) -> tuple[Spoken, Told]:
        """As `speak`; and what its synthesis is made of. Raises TeacherError."""
        spoken, f0_hz, spectra, hidden = self._speak(text, _HIDDEN)
        power = np.square(np.abs(dsp.stft(dsp.pulses(f0_hz), len(f0_hz)))).mean(0)
        return spoken, Told(np.stack(spectra), power, np.stack(hidden))

    def _speak(
        self, text: str, hidden: Sequence[str]
    ) -> tuple[Spoken, NDArray[np.float32], list[NDArray[np.float32]], list[NDArray[np.float32]]]:
        """-> what it says, F0 (F,), its five spectra and the hidden values of those names."""
        symbols = "".join(symbol for symbol in self._g2p(text) or "" if symbol in self._ids)
        if not 0 < len(symbols) <= _MAX_SYMBOLS:
            raise TeacherError(f"hibari: {len(symbols)} symbols, expected 1 to {_MAX_SYMBOLS}")
        ids = [0, *(self._ids[symbol] for symbol in symbols), 0]
        given = {"ids": np.array([ids], np.int64), "speed": np.ones(1, np.float32)}
        durations, *parts = self._graph.run([_DURATIONS, *_PARTS, *hidden], given)
        labels = label(symbols, durations.ravel(), _UNIT_S)
        found = [part[0] for part in parts]
        spectra, f0_hz = found[: len(_PARTS) - 1], found[len(_PARTS) - 1]
        samples = dsp.synth(
            *(one.copy() for one in spectra), f0_hz, np.random.default_rng(zlib.crc32(text.encode()))
        )
        contour = contour_of(f0_hz)
        steps = contour[STEP_SAMPLES // 2 :: STEP_SAMPLES].astype(np.float32)
        sounding = np.maximum(contour, _LOWEST_HZ)
        cycles = np.cumsum(sounding)[::STEP_SAMPLES] / SAMPLE_RATE_HZ
        spoken = Spoken(
            as_int16(samples),
            labels.phones,
            labels.ends_s,
            labels.words,
            labels.num_words,
            voiced_only(steps, labels.phones, labels.ends_s),
            cycles,
            symbols,
        )
        return spoken, f0_hz, spectra, found[len(_PARTS) :]


def contour_of(f0_hz: NDArray[np.float32]) -> NDArray[np.float64]:
    """(F,) -> (300 F,): linear between the frames' centres, as its pulses are driven."""
    at = (np.arange(len(f0_hz) * _FRAME_SAMPLES) + 0.5) / _FRAME_SAMPLES - 0.5
    return np.interp(at, np.arange(len(f0_hz)), np.maximum(f0_hz, 0.0))
