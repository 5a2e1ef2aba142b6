"""Speaks a text with a voice of SVOX Pico that is no relative of the other teachers.

Six women, of whom four read English as their own language. Pico does not tell its phones: the flow learns
from it how else a person can sound. Called as Debian's `libttspico-utils` installs it (non-free, since the
voices' sources are missing; Apache License 2.0).
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from training.teachers.spoken import (
    SAMPLE_RATE_HZ,
    UNTOLD,
    Spoken,
    TeacherError,
    as_int16,
    cycles_of_steps,
    read_samples,
)
from training.teachers.world import f0_of
from training.text.corpus import read_words

VOICES = ("en-US", "en-GB", "de-DE", "es-ES", "fr-FR", "it-IT")
_TIMEOUT_S = 60
_LOUD = 0.02  # of the loudest sample: above it somebody speaks


class Pico:
    knows_phase = False

    def __init__(self, voice: str, rate: float = 1.0) -> None:
        """rate: how many times as fast its samples are played, which makes another speaker of it.

        Raises TeacherError for another voice, and where Pico is missing.
        """
        if voice not in VOICES:
            raise TeacherError(f"Pico voice {voice!r}: expected one of {', '.join(VOICES)}")
        if shutil.which("pico2wave") is None:
            raise TeacherError("Pico is missing: `apt-get install libttspico-utils` (Debian's non-free)")
        self._voice, self._rate = voice, rate

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError when nothing came out."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "spoken.wav")
            command = ["pico2wave", "-l", self._voice, "-w", str(path), "--", text]
            try:
                done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, text=True)
            except subprocess.TimeoutExpired as error:
                raise TeacherError(f"Pico did not end in {_TIMEOUT_S} s") from error
            if not path.exists():
                raise TeacherError(f"Pico could not speak {text!r}: {done.stderr.strip()}")
            samples = read_samples(path, self._rate)
        loud = np.flatnonzero(np.abs(samples) > _LOUD * np.abs(samples).max(initial=0.0))
        if not len(loud):
            raise TeacherError(f"Pico said nothing for {text!r}")
        f0_hz = f0_of(samples)
        return Spoken(
            as_int16(samples),
            np.array([0, UNTOLD, 0], np.uint8),
            np.array([loud[0], loud[-1], len(samples)], np.float32) / SAMPLE_RATE_HZ,
            np.array([-1, 0, -1], np.int32),
            len(read_words(text)),
            f0_hz,
            cycles_of_steps(f0_hz),
            "",
        )
