"""`firstword batch`: lists into files, and on from where it stopped."""

import csv
from pathlib import Path

import pytest
import soundfile

from firstword.app.errors import SynthesisFailed
from tests.commands.typed import refused, run
from tests.support.fake_engine import FakeEngine


def rows_of(directory: Path) -> list[dict[str, str]]:
    with (directory / "table.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


LISTS = {
    "list.jsonl": (
        '{"text": "One.", "seed": 3, "name": "a"}\n\n{"text": "Two.", "speaker": "anna", "name": "b"}\n'
    ),
    "list.csv": 'name,text,speaker,seed\na,One.,,3\nb,"Two.",anna,\n',
}


@pytest.mark.parametrize("name", LISTS)
def test_list_becomes_files_and_a_table(engine: FakeEngine, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(LISTS[name], encoding="utf-8")
    result = run("batch", name, "-o", "out", "--format", "flac", "--at-once", "2")
    assert result.exit_code == 0, result.output
    assert "2 of 2 texts" in result.stdout
    with soundfile.SoundFile(tmp_path / "out" / "b.flac") as file:
        assert file.frames == 4 * 1200
    assert b"synthetic speech" in (tmp_path / "out" / "b.flac").read_bytes()
    requests = {stream.request.text: stream.request for stream in engine.streams}
    assert (requests["One."].seed, requests["Two."].voice.speaker) == (3, "anna")
    rows = {row["name"]: row for row in rows_of(tmp_path / "out")}
    assert set(rows) == {"a", "b"}
    assert (rows["b"]["characters"], rows["b"]["audio_s"], rows["b"]["at_once"]) == ("4", "0.2", "2")
    assert {"lm_s", "flow_s", "vocoder_s", "total_s", "rtf"} < set(rows["a"])


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", '{"text": "One\u2028two\x85three."}\n', "One\u2028two\x85three."),
        ("a.csv", 'text\n"One\ntwo."\n', "One\ntwo."),
        ("a.txt", "One\x0ctwo.\n", "One\x0ctwo."),
    ],
)
def test_a_text_keeps_the_breaks_within_it(
    engine: FakeEngine, tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert run("batch", name, "-o", "out").exit_code == 0
    assert [stream.request.text for stream in engine.streams] == [expected]


def test_files_are_not_tagged_where_the_settings_say_so(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTWORD_TAG_AUDIO", "false")
    (tmp_path / "list.txt").write_text("One.\n", encoding="utf-8")
    assert run("batch", "list.txt", "-o", "out").exit_code == 0
    assert b"synthetic speech" not in (tmp_path / "out" / "00001.wav").read_bytes()


def test_what_is_there_is_not_spoken_again(engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text("First.\n\nSecond.\nThird.\n", encoding="utf-8")
    engine.failure, engine.fails_after_chunks = SynthesisFailed("The networks failed."), 6
    assert "1 texts were not spoken, the first 00003" in refused(
        "batch", "book.txt", "-o", "out", "--at-once", "1"
    )
    assert [path.name for path in sorted((tmp_path / "out").glob("*.wav"))] == ["00001.wav", "00004.wav"]
    engine.failure = None
    num_spoken = len(engine.streams)
    assert run("batch", "book.txt", "-o", "out").exit_code == 0
    assert [stream.text for stream in engine.streams[num_spoken:]] == ["Second."]
    assert run("batch", "book.txt", "-o", "out").exit_code == 0
    assert len(engine.streams) == num_spoken + 1
    assert [row["error"] for row in rows_of(tmp_path / "out")].count("") == 3


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.jsonl", "{", "a.jsonl:1: not JSON"),
        ("a.jsonl", '{"text": "Hi."}\n[]', "a.jsonl:2: expected an object"),
        ("a.jsonl", '{"txt": "Hi."}', "unknown field 'txt'"),
        ("a.jsonl", '{"text": 3}', "text is 3; expected a text"),
        ("a.jsonl", '{"text": " "}', "there is no text"),
        ("a.jsonl", '{"text": "a", "name": "../b"}', "cannot be the name of a file"),
        ("a.jsonl", r'{"text": "a", "name": "a\u0000b"}', "cannot be the name of a file"),
        ("a.jsonl", '{"text": "a", "seed": "x"}', "seed is 'x'"),
        ("a.jsonl", '{"text": "a", "seed": 1e999}', "seed is inf"),
        ("a.jsonl", '{"text": "a", "reference": "no.wav"}', "there is no file no.wav"),
        ("a.csv", "name,text\nb,a\nb,c\n", "a.csv:3: the name 'b' came before; give"),
        (
            "a.csv",
            "name,text\nPolish,a\npolish,c\n",
            "the name 'polish' came before as 'Polish', the same file",
        ),
        ("a.csv", "name,text\nu\u0308,a\n\u00fc,c\n", "came before as"),
        ("a.csv", "text\nHello, you.\n", "a.csv:2: more fields than the header has"),
    ],
)
def test_list_that_cannot_be_spoken_is_refused_by_line(
    engine: FakeEngine, tmp_path: Path, name: str, content: str, expected: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert expected in refused("batch", name, "-o", "out")
    assert not (tmp_path / "out").exists()
    assert not engine.streams


def test_source_and_format_are_checked(tmp_path: Path) -> None:
    assert "cannot be read" in refused("batch", "nowhere.txt", "-o", "out")
    (tmp_path / "a.txt").write_text("Hi.", encoding="utf-8")
    assert "give --format wav or flac" in refused("batch", "a.txt", "-o", "out", "--format", "mp3")
