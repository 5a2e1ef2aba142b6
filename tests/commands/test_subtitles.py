"""Files of word times: JSON, SubRip and WebVTT."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from firstword.app.commands.console import CommandFailed
from firstword.app.commands.subtitles import MAX_LINE_CHARS, check_subtitles, write_subtitles
from firstword.app.core.transcript import TimedWord

TEXT = "Hello <b>, Anna.  It is 7:30 & the train to the mountains leaves without you, I fear!"
WORDS = [
    TimedWord(word, TEXT.index(word), TEXT.index(word) + len(word), 1000 * number, 1000 * (number + 1))
    for number, word in enumerate(
        ["Hello", "Anna", "It", "is", "7:30", "the", "train", "mountains", "leaves", "without", "you", "fear"]
    )
]


def test_json_has_every_word(tmp_path: Path) -> None:
    write_subtitles(tmp_path / "a.json", TEXT, WORDS, 2000)
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["text"] == TEXT
    assert written["words"][1] == {
        "text": "Anna",
        "start_ms": 500.0,
        "end_ms": 1000.0,
        "char_start": 11,
        "char_end": 15,
    }
    assert len(written["words"]) == len(WORDS)


def test_subtitles_are_sentences_that_fit_into_a_line(tmp_path: Path) -> None:
    write_subtitles(tmp_path / "a.srt", TEXT, WORDS, 0.5)
    cues = (tmp_path / "a.srt").read_text().strip().split("\n\n")
    assert cues[0] == "1\n00:00:00,000 --> 01:06:40,000\nHello <b>, Anna."
    shown = [cue.split("\n")[2] for cue in cues]
    assert " ".join(shown) == " ".join(TEXT.split())
    assert all(len(line) <= MAX_LINE_CHARS for line in shown)
    times = [cue.split("\n")[1].split(" --> ") for cue in cues]
    assert all(end == start for (_, end), (start, _) in pairwise(times))


def test_webvtt_is_no_markup(tmp_path: Path) -> None:
    write_subtitles(tmp_path / "a.vtt", TEXT, WORDS, 2000)
    content = (tmp_path / "a.vtt").read_text()
    assert content.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.000\nHello &lt;b&gt;, Anna.\n")


def test_a_file_that_cannot_be_written_is_refused_before_speaking(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"use one of \.json, \.srt, \.vtt"):
        check_subtitles(tmp_path / "a.txt")
    with pytest.raises(CommandFailed, match="make it first"):
        check_subtitles(tmp_path / "nowhere" / "a.srt")
