"""Speaks a text with a program that writes a WAV and does not tell its phones: RHVoice or SVOX Pico.

The flow learns from them how else a person can sound. They are called as Debian installs them, from
non-free, since what their voices were made of is missing. Pico's voices have the Apache License 2.0, those of
RHVoice that are listed the LGPL 2.1 or later. Its other voices may not be used for this; `slt` and `alan` are
speakers of flite's (`alan` is its `awb`), with whom nothing is trained.
"""

import shutil
import tempfile
from dataclasses import dataclass
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
    run_program,
)
from training.teachers.world import f0_of
from training.text.corpus import read_words

_LOUD = 0.02  # of the loudest sample: above it somebody speaks


@dataclass(frozen=True, slots=True)
class Program:
    command: tuple[str, ...]  # {voice} and {path} of the WAV are filled in
    text_is_argument: bool  # its last; else it is read from standard input
    packages: str  # of Debian
    voices: tuple[str, ...]


PROGRAMS = {
    "rhvoice": Program(
        ("RHVoice-test", "-p", "{voice}", "-o", "{path}"),
        text_is_argument=False,
        packages="rhvoice rhvoice-english rhvoice-russian rhvoice-ukrainian rhvoice-esperanto",
        voices=("bdl", "clb", "aleksandr", "anna", "elena", "irina", "anatol", "natalia", "spomenka"),
    ),
    "pico": Program(
        ("pico2wave", "-l", "{voice}", "-w", "{path}", "--"),
        text_is_argument=True,
        packages="libttspico-utils",
        voices=("en-US", "en-GB", "de-DE", "es-ES", "fr-FR", "it-IT"),
    ),
}


class SpeakingProgram:
    knows_phase = False

    def __init__(self, name: str, voice: str, rate: float = 1.0) -> None:
        """rate: how many times as fast its samples are played, which makes another speaker of it.

        Raises TeacherError for another voice, and where the program is missing.
        """
        program = PROGRAMS[name]
        if voice not in program.voices:
            raise TeacherError(f"{name} voice {voice!r}: expected one of {', '.join(program.voices)}")
        if shutil.which(program.command[0]) is None:
            raise TeacherError(
                f"{program.command[0]} is missing: `apt-get install {program.packages}` (Debian's non-free)"
            )
        self._program, self._voice, self._rate = program, voice, rate

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError when nothing came out."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "spoken.wav")
            command = [part.format(voice=self._voice, path=path) for part in self._program.command]
            command += [text] * self._program.text_is_argument
            done = run_program(command, text)
            if not path.exists():
                raise TeacherError(f"{command[0]} could not speak {text!r}: {done.stderr.strip()}")
            samples = read_samples(path, self._rate)
        loud = np.flatnonzero(np.abs(samples) > _LOUD * np.abs(samples).max(initial=0.0))
        if not len(loud):
            raise TeacherError(f"{command[0]} said nothing for {text!r}")
        f0_hz = f0_of(samples)
        return Spoken(
            as_int16(samples),
            np.array([0, UNTOLD, 0], np.uint8),
            (np.array([loud[0], loud[-1], len(samples)]) / SAMPLE_RATE_HZ).astype(np.float32),
            np.array([-1, 0, -1], np.int32),
            len(read_words(text)),
            f0_hz,
            cycles_of_steps(f0_hz),
            "",
        )
