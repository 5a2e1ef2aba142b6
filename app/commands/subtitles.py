"""Write when the words of a text sound: as JSON, or as the subtitles that players show."""

import json
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from firstword.app.commands.console import CommandFailed
from firstword.app.core.transcript import TimedWord
from firstword.files import write_whole

SUFFIXES: Final = (".json", ".srt", ".vtt")
MAX_LINE_CHARS = 42  # of a subtitle, as broadcasters have it
_SENTENCE_ENDS = re.compile(r"[.!?。！？]\W*$")  # noqa: RUF001  Chinese ones too


def check_subtitles(path: Path) -> None:
    """Raise CommandFailed before anything is spoken."""
    if path.suffix.lower() not in SUFFIXES:
        raise CommandFailed(f"{path}: subtitles have another suffix; use one of {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise CommandFailed(f"{path} cannot be written: {path.parent} is no directory; make it first")


def write_subtitles(path: Path, text: str, words: Sequence[TimedWord], samples_per_s: float) -> None:
    """samples_per_s: of the words' samples, as they are played."""
    kind = path.suffix.lower()
    if kind == ".json":
        entries = [
            {
                "text": word.text,
                "start_ms": round(1000 * word.start / samples_per_s, 3),
                "end_ms": round(1000 * word.end / samples_per_s, 3),
                "char_start": word.char_start,
                "char_end": word.char_end,
            }
            for word in words
        ]
        content = json.dumps({"text": text, "words": entries}, ensure_ascii=False, indent=1) + "\n"
    else:
        cues = [
            (number, line[0].start / samples_per_s, line[-1].end / samples_per_s, written)
            for number, (line, written) in enumerate(_lines(text, words), start=1)
        ]
        if kind == ".srt":
            content = "\n".join(
                f"{number}\n{_time(start, ',')} --> {_time(end, ',')}\n{written}\n"
                for number, start, end, written in cues
            )
        else:
            content = "WEBVTT\n\n" + "\n".join(
                f"{_time(start, '.')} --> {_time(end, '.')}\n{escape(written, quote=False)}\n"
                for _, start, end, written in cues
            )
    write_whole(path, content.encode())


def _lines(text: str, words: Sequence[TimedWord]) -> list[tuple[Sequence[TimedWord], str]]:
    """Words that are shown together, with their text: a sentence, or as much of it as a line holds."""
    lines: list[tuple[Sequence[TimedWord], str]] = []
    begin = 0
    for number, word in enumerate(words):
        is_last = number + 1 == len(words)
        end = len(text) if is_last else words[number + 1].char_start
        start = words[begin].char_start if begin else 0
        next_end = end if is_last else words[number + 1].char_end
        is_full = next_end - start > MAX_LINE_CHARS
        if is_last or is_full or _SENTENCE_ENDS.search(text[word.char_end : end].strip()):
            lines.append((words[begin : number + 1], " ".join(text[start:end].split())))
            begin = number + 1
    return lines


def _time(seconds: float, point: str) -> str:
    ms = round(1000 * seconds)
    return f"{ms // 3_600_000:02}:{ms // 60_000 % 60:02}:{ms // 1000 % 60:02}{point}{ms % 1000:03}"
