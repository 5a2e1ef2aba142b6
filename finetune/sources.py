"""Find recordings and their texts: LJSpeech, LibriTTS, JSON Lines, or a folder of pairs."""

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from firstword.finetune.errors import FinetuneError

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".webm")
_FORMATS = (
    "a .jsonl file of {audio, text, speaker}, LJSpeech (metadata.csv beside wavs/), LibriTTS "
    "(*.normalized.txt beside *.wav), or a folder of pairs such as a.wav and a.txt"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A recording, the text that is said in it, and who says it. id: unique within the data."""

    id: str
    audio: Path
    text: str
    speaker: str


def find_sources(data: Path, speaker: str | None = None) -> list[Source]:
    """Return the recordings of `data` in a fixed order; their files are not opened.

    speaker: who says what names no speaker; None: the folder's name. Raises FinetuneError for a layout that
    is none of those known, an empty one, a line that is no such object, an id that comes twice.
    """
    default = speaker or (data.stem if data.is_file() else data.resolve().name)
    if data.is_file() and data.suffix == ".jsonl":
        found = list(_json_lines(data, default))
    elif (data / "metadata.csv").is_file():
        found = list(_ljspeech(data, default))
    elif data.is_dir():
        found = list(_pairs(data, default))
    else:
        raise FinetuneError(f"{data}: no data; expected {_FORMATS}")
    if not found:
        raise FinetuneError(f"{data}: holds no recording with a text; expected {_FORMATS}")
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise FinetuneError(f"{data}: the id {one.id!r} comes twice; give each recording its own")
        seen.add(one.id)
    return found


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file in UTF-8; U+2028 and the like end none. Raises FinetuneError."""
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FinetuneError(f"{path} is not in UTF-8, from byte {error.start} on; convert it") from None
    except OSError as error:
        raise FinetuneError(f"{path} cannot be read: {error.strerror}") from None


def _json_lines(path: Path, default: str) -> Iterator[Source]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            given = json.loads(line)
        except ValueError as error:
            raise FinetuneError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(given, dict) or not all(isinstance(given.get(n), str) for n in ("audio", "text")):
            raise FinetuneError(
                f'{path}:{number}: expected an object such as {{"audio": "a.wav", "text": "Hello."}}'
            )
        audio = path.parent / given["audio"]
        yield Source(
            str(given.get("id") or given["audio"]), audio, given["text"], str(given.get("speaker") or default)
        )


def _ljspeech(folder: Path, default: str) -> Iterator[Source]:
    """`id|text|normalized text`, or with two columns; a third or later one that is no text is a mistake."""
    path = folder / "metadata.csv"
    rows = csv.reader(read_lines(path), delimiter="|", quoting=csv.QUOTE_NONE)
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        if len(row) not in (2, 3):
            raise FinetuneError(
                f"{path}:{number}: {len(row)} columns; expected id|text or id|text|normalized"
            )
        yield Source(row[0], folder / "wavs" / f"{row[0]}.wav", row[-1] or row[1], default)


def _pairs(folder: Path, default: str) -> Iterator[Source]:
    """LibriTTS's texts, or `NAME.txt`; a recording in a subfolder is said by whom its first folder names."""
    for audio in sorted(path for path in folder.rglob("*") if path.suffix.lower() in AUDIO_SUFFIXES):
        for suffix in (".normalized.txt", ".txt"):
            written = audio.with_name(audio.stem + suffix)
            if written.is_file():
                inner = audio.relative_to(folder)
                speaker = inner.parts[0] if len(inner.parts) > 1 else default
                text = " ".join(" ".join(read_lines(written)).split())
                yield Source(str(inner.with_suffix("")), audio, text, speaker)
                break
