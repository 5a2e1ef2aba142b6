"""What a teacher gives for a text: samples, phones, pitch and the phase of its harmonics."""

import subprocess
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import soxr
from numpy.typing import NDArray

Samples = NDArray[np.float32]  # (n,)

SAMPLE_RATE_HZ = 24_000
STEP_SAMPLES = 60  # of the contours of pitch and phase
STEP_RATE_HZ = SAMPLE_RATE_HZ // STEP_SAMPLES  # 400

# Misaki's symbols of both accents, stress and length aside; silence is 0.
PHONES = tuple("_AIOQTWYabdefhijklmnopstuvwzæðŋɑɐɒɔəɚɛɜɡɪɹɾʃʊʌʒʔʤʧθᵊᵻ")  # noqa: RUF001
UNTOLD = 255  # in the place of a phone: the teacher does not tell it
VOICED = frozenset(PHONES) - frozenset("_fhkpstʃʔʧθ")  # noqa: RUF001
_TIMEOUT_S = 60  # of a program that says one text


def phones_by_name(table: str) -> dict[str, int]:
    """table: the names of a voice's phones, each beside one of PHONES -> places in PHONES."""
    words = table.split()
    return {name: PHONES.index(phone) for name, phone in zip(words[::2], words[1::2], strict=True)}


class TeacherError(RuntimeError):
    """A teacher that is not installed, or that could not speak a text."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance of a teacher, S steps of STEP_SAMPLES samples long."""

    samples: NDArray[np.int16]  # (S * STEP_SAMPLES,), at SAMPLE_RATE_HZ
    phones: NDArray[np.uint8]  # (num_phones,), places in PHONES, or UNTOLD
    ends_s: NDArray[np.float32]  # (num_phones,)
    words: NDArray[np.int32]  # (num_phones,), which word the phone belongs to; -1 for silence
    num_words: int
    f0_hz: NDArray[np.float32]  # (S,); 0 where unvoiced
    cycles: NDArray[np.float64]  # (S,), of the fundamental since the beginning, at each step's start
    says: str  # the phonemes it was asked for, words apart; "" where the teacher does not tell

    @property
    def waveform(self) -> NDArray[np.float32]:
        """(num_samples,) within ±1."""
        return (self.samples / 32768).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Told:
    """What the synthesis of hibari is made of, F = S / 5 frames 300 samples apart."""

    spectra: NDArray[np.float32]
    """(5, 601, F): the logarithm of the harmonics' magnitude, their phase over pi as tanh has it, the
    logarithm of the noise, and the logarithm and the phase of what has a phase of its own."""
    pulses_power: NDArray[np.float32]  # (F,), the mean over the bins; 0 where its pulses rest
    hidden: NDArray[np.float32]  # (7, 256, F), before its decoder's first block and behind six of eight


class Teacher(Protocol):
    """A voice that speaks English. Not to be shared between threads."""

    knows_phase: bool
    """Whether `cycles` is the phase its samples were made with, rather than a guess from F0."""

    def speak(self, text: str) -> Spoken:
        """Raises TeacherError when the text cannot be spoken."""


def voiced_only(
    f0_hz: NDArray[np.float32], phones: NDArray[np.uint8], ends_s: NDArray[np.float32]
) -> NDArray[np.float32]:
    """f0_hz (S,) -> the same, 0 where the phone of the step has no voice."""
    times = (np.arange(len(f0_hz)) + 0.5) / STEP_RATE_HZ
    places = np.minimum(np.searchsorted(ends_s, times), len(ends_s) - 1)
    voiced = np.array([phone in VOICED for phone in PHONES])[phones[places]]
    return np.where(voiced, f0_hz, 0.0).astype(np.float32)


def cycles_of_steps(f0_hz: NDArray[np.float32]) -> NDArray[np.float64]:
    """f0_hz (S,) -> (S,), as `Spoken.cycles`: a guess of the phase, for teachers that do not tell it."""
    return np.concatenate([[0.0], np.cumsum(f0_hz.astype(np.float64) / STEP_RATE_HZ)])[:-1]


def as_int16(samples: NDArray[np.floating]) -> NDArray[np.int16]:
    return (np.clip(samples, -1, 1) * 32767).astype(np.int16)


def run_program(
    command: Sequence[str], given: str, encoding: str = "utf-8", errors: str = "strict"
) -> subprocess.CompletedProcess[str]:
    """given: to its standard input. Raises TeacherError for a program that does not end."""
    try:
        return subprocess.run(
            command, input=given, capture_output=True, timeout=_TIMEOUT_S, encoding=encoding, errors=errors
        )
    except subprocess.TimeoutExpired as error:
        raise TeacherError(f"{command[0]} did not end in {_TIMEOUT_S} s") from error


def read_samples(path: Path, rate: float) -> NDArray[np.float64]:
    """A WAV of 16 bits, played `rate` times as fast -> (whole steps,) at SAMPLE_RATE_HZ."""
    with wave.open(str(path)) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), np.int16)
        samples = soxr.resample(pcm / 32768, file.getframerate() * rate, SAMPLE_RATE_HZ)
    return samples[: len(samples) // STEP_SAMPLES * STEP_SAMPLES]
