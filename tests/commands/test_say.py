"""`firstword say` into files and pipes."""

import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from firstword.app.audio.dsp import to_pcm16
from firstword.app.cli import cli
from firstword.app.errors import SynthesisFailed
from firstword.app.options import Sampling
from firstword.app.text.marks import Reading
from tests.commands.typed import refused, run
from tests.support.fake_engine import SAMPLE_RATE_HZ, FakeEngine, speech

TEXT = "Hello there."


def test_say_writes_a_file_with_true_sizes(engine: FakeEngine, tmp_path: Path) -> None:
    result = run("say", TEXT, "-o", "out.wav", "--speaker", "anna", "--seed", "7")
    assert result.exit_code == 0, result.output
    samples, rate_hz = soundfile.read(tmp_path / "out.wav", dtype="int16")
    assert rate_hz == SAMPLE_RATE_HZ
    np.testing.assert_array_equal(samples, to_pcm16(speech(TEXT)))
    (request,) = [stream.request for stream in engine.streams]
    assert (request.voice.speaker, request.seed, request.wire) == ("anna", 7, "cli")
    assert "out.wav: 0.60 s of speech" in result.stderr
    assert "real-time factor" in result.stderr


def test_a_file_says_who_spoke_unless_it_shall_not(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("say", TEXT, "-o", "out.wav", "--speaker", "anna").exit_code == 0
    with soundfile.SoundFile(tmp_path / "out.wav") as file:
        assert file.artist == engine.streams[0].speaker
        assert file.comment.startswith("synthetic speech; request ")
    monkeypatch.setenv("FIRSTWORD_TAG_AUDIO", "false")
    assert run("say", TEXT, "-o", "out.wav", "--speaker", "anna").exit_code == 0
    with soundfile.SoundFile(tmp_path / "out.wav") as file:
        assert (file.artist, file.comment) == ("", "")


def test_say_takes_a_reference_and_a_mode(engine: FakeEngine, tmp_path: Path) -> None:
    assert "no mode is named 'loud'" in refused("say", TEXT, "--mode", "loud")
    assert "there is no file mia.wav" in refused("say", TEXT, "--reference", "mia.wav")
    assert "no context is named 'half'" in refused("say", TEXT, "--context", "half")
    given = ("--mode", "instruct", "--instruct", "Softly.", "--context", "full")
    assert run("say", TEXT, *given).exit_code == 0
    request = engine.streams[0].request
    assert (request.voice.mode, request.voice.instruct, request.delivery.context) == (
        "instruct",
        "Softly.",
        "full",
    )


def test_say_takes_the_options_of_a_request(engine: FakeEngine) -> None:
    given = ("--option", "volume=0.5", "--option", "marks=false", "--option", 'lexicon={"a": "b"}')
    assert run("say", TEXT, *given, "--option", "top_k=3").exit_code == 0
    request = engine.streams[0].request
    assert request.reading == Reading(marks=False, lexicon={"a": "b"})
    assert (request.delivery.volume, request.sampling) == (0.5, Sampling(top_k=3))
    assert "unknown option 'speed'; choose one of normalize, marks" in refused(
        "say", TEXT, "--option", "speed=2"
    )
    assert "option top_k: Input should be less than" in refused("say", TEXT, "--option", "top_k=999")
    assert "expected NAME=VALUE" in refused("say", TEXT, "--option", "loud")


def test_say_sends_headerless_samples_through_a_pipe(engine: FakeEngine) -> None:
    result = run("say", TEXT, "-o", "-")
    assert result.exit_code == 0, result.stderr
    assert result.stdout_bytes == to_pcm16(speech(TEXT)).astype("<i2").tobytes()


def test_say_streams_another_format_where_asked(engine: FakeEngine) -> None:
    result = run("say", TEXT, "-o", "-", "--format", "flac")
    assert result.stdout_bytes.startswith(b"fLaC")


@pytest.mark.parametrize(
    ("name", "start"), [("a.flac", b"fLaC"), ("a.ogg", b"OggS"), ("a.OPUS", b"OggS"), ("a.wav", b"RIFF")]
)
def test_say_takes_the_format_from_the_suffix(
    engine: FakeEngine, tmp_path: Path, name: str, start: bytes
) -> None:
    assert run("say", TEXT, "-o", name).exit_code == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_say_plays_through_what_the_machine_has(
    engine: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no player was found, of pw-play, paplay, aplay" in refused("say", TEXT, "--play")
    assert "--play writes no file" in refused("say", TEXT, "--play", "-o", "a.wav")
    player = tmp_path / "aplay"
    player.write_text('#!/bin/sh\necho "$@" > asked\n/bin/cat > played\n')
    player.chmod(0o755)
    assert run("say", TEXT, "--play").exit_code == 0
    assert (tmp_path / "played").read_bytes() == to_pcm16(speech(TEXT)).astype("<i2").tobytes()
    assert f"-r {SAMPLE_RATE_HZ} " in (tmp_path / "asked").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aplay", "asked", "played"]
    player.write_text("#!/bin/sh\n/bin/cat > /dev/null\nexit 3\n")
    assert "aplay could not play it" in refused("say", TEXT, "--play")


def test_say_writes_m4a_to_a_file_alone(engine: FakeEngine, tmp_path: Path) -> None:
    assert run("say", TEXT, "-o", "a.m4a").exit_code == 0
    assert (tmp_path / "a.m4a").read_bytes()[4:8] == b"ftyp"
    assert "give --format aac for a pipe" in refused("say", TEXT, "-o", "-", "--format", "m4a")


def test_say_speaks_faster(engine: FakeEngine, tmp_path: Path) -> None:
    assert run("say", TEXT * 4, "-o", "slow.wav").exit_code == 0
    assert run("say", TEXT * 4, "-o", "fast.wav", "--speed", "2").exit_code == 0
    assert engine.streams[-1].request.delivery.speed == 2
    slow_s, fast_s = (soundfile.info(tmp_path / name).duration for name in ("slow.wav", "fast.wav"))
    assert fast_s == pytest.approx(slow_s / 2, rel=0.1)


def test_say_reads_standard_input(engine: FakeEngine) -> None:
    assert run("say", "-", input=TEXT).exit_code == 0
    assert engine.streams[0].text == TEXT


def test_standard_input_that_is_no_utf_8_is_said(engine: FakeEngine) -> None:
    result = CliRunner().invoke(cli, ["say", "-"], input="Grüße".encode("latin-1"))
    assert result.exit_code == 1
    assert "standard input is not utf-8" in result.stderr


def test_say_leaves_the_old_file_where_speaking_fails(engine: FakeEngine, tmp_path: Path) -> None:
    (tmp_path / "out.wav").write_bytes(b"old")
    engine.failure, engine.fails_after_chunks = SynthesisFailed("The networks failed."), 3
    assert "The networks failed." in refused("say", TEXT)
    assert (tmp_path / "out.wav").read_bytes() == b"old"
    assert not engine.open_streams


@pytest.mark.usefixtures("_full_disk")
@pytest.mark.parametrize(
    ("file", "options"), [("out.wav", ()), ("out.srt", ("-o", "-", "--subtitles", "out.srt"))]
)
def test_say_leaves_the_old_file_where_the_disk_is_full(
    engine: FakeEngine, tmp_path: Path, file: str, options: tuple[str, ...]
) -> None:
    (tmp_path / file).write_bytes(b"old")
    result = run("say", TEXT, *options)
    assert result.exit_code == 1
    assert f"{file}: No space left on device" in result.stderr
    assert (tmp_path / file).read_bytes() == b"old"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((TEXT, "-o", "out.xyz"), "no audio format is named 'xyz'; give --format one of wav, "),
        ((TEXT, "-o", "out"), "no audio format is named ''; give --format one of wav, "),
        ((TEXT, "-o", "nowhere/out.wav"), "nowhere is no directory; make it first"),
        ((TEXT, "-o", ".", "--format", "wav"), "it is a directory; name a file in it"),
        (
            (TEXT, "--speaker", "nobody"),
            "no speaker is called 'nobody'; give --speaker one of hum, anna\n",
        ),
        (("a" * 5000,), "say it in parts, or set FIRSTWORD_MAX_TEXT_CHARS higher\n"),
        (("?!",), "nothing that can be spoken"),
        (("",), "nothing that can be spoken"),
    ],
)
def test_say_refuses_in_one_line(engine: FakeEngine, words: tuple[str, ...], expected: str) -> None:
    assert expected in refused("say", *words)


def test_say_refuses_an_output_before_anything_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "firstword.app.synthesizer", None)  # its import would fail
    assert "no audio format" in refused("say", TEXT, "-o", "out.xyz")


def test_say_checks_the_speed() -> None:
    result = run("say", TEXT, "--speed", "3")
    assert result.exit_code == 2
    assert "less than or equal to 2" in result.stderr
