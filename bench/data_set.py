"""Reads what a measurement speaks: its own sentences or a JSON Lines file, and a reference recording."""

import io
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from firstword.bench.texts import spoken_in

FIELDS = ("text", "name", "language", "speaker", "reference", "transcript", "seed")
REFERENCE_HZ = 16_000


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference recording: the content of its file, and its transcript."""

    content: bytes
    transcript: str

    def samples(self) -> NDArray[np.float32]:
        """Return the samples (N,) at 16 kHz."""
        return _samples(self.content)


@dataclass(frozen=True, slots=True)
class Speech:
    """What one request has: its reference, and the transcript, are its own."""

    text: str
    seed: int
    speaker: str | None
    reference: Reference | None


@dataclass(frozen=True, slots=True)
class Item:
    """name: of its file of audio. language: its code, by which the length of the speech is judged."""

    name: str
    text: str
    language: str = "en"
    speaker: str | None = None
    reference: Reference | None = None
    seed: int = 0


def own_sentences(languages: tuple[str, ...]) -> list[Item]:
    """Return the sentences in these languages. Raises ValueError if there is none."""
    pairs = enumerate(spoken_in(languages))
    return [Item(f"{number:03}", text, language, seed=number) for number, (language, text) in pairs]


def read_items(path: Path) -> list[Item]:
    """Read an object a line, with fields of `firstword batch`. Raises ValueError that names the line."""
    items = []
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                items.append(_item(path, number, json.loads(line)))
            except (ValueError, OSError, RecursionError) as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    if not items:
        raise ValueError(f'{path} has no texts; expected lines such as {{"text": "Hello."}}')
    return items


def read_reference(path: Path, transcript: str) -> Reference:
    """Read a recording. Raises ValueError if it is none."""
    reference = Reference(path.read_bytes(), transcript)
    try:
        reference.samples()
    except soundfile.LibsndfileError as error:
        raise ValueError(f"{path} is no recording: {error}; give a WAV or FLAC file") from None
    return reference


def _item(path: Path, number: int, given: Any) -> Item:
    if not isinstance(given, dict) or not isinstance(given.get("text"), str):
        raise ValueError('expected an object such as {"text": "Hello."}')
    if unknown := [name for name in given if name not in FIELDS]:
        raise ValueError(f"unknown field {unknown[0]!r}; expected {', '.join(FIELDS)}")
    seed, name = given.get("seed", number - 1), str(given.get("name", f"{number - 1:03}"))
    if type(seed) is not int or seed < 0:
        raise ValueError(f"seed is {seed!r}; expected a number from 0 on")
    if Path(name).name != name:
        raise ValueError(f"name is {name!r}; expected one without a folder")
    reference = None
    if given.get("reference") is not None:
        reference = read_reference(path.parent / given["reference"], str(given.get("transcript", "")))
    return Item(name, given["text"], given.get("language", "en"), given.get("speaker"), reference, seed)


@lru_cache(maxsize=256)
def _samples(content: bytes) -> NDArray[np.float32]:
    samples, rate_hz = soundfile.read(io.BytesIO(content), dtype="float32", always_2d=True)
    return np.asarray(soxr.resample(samples.mean(axis=1), rate_hz, REFERENCE_HZ), np.float32)
