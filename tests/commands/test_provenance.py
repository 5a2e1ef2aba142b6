"""`firstword provenance check` says what a file shows; what `say` and `batch` write shows it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import soundfile

from firstword.app.audio.encode import encode_whole
from firstword.app.audio.watermark import DETECTOR_HZ, Watermark
from tests.commands.typed import refused, run
from tests.support.fake_engine import FakeEngine
from tests.support.sounds import babble

KEY = b"a secret of the test"


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_bytes(KEY + b"\n")
    return path


def test_marked_file_is_known_with_its_payload(tmp_path: Path, key_file: Path) -> None:
    file = tmp_path / "speech.mp3"
    file.write_bytes(encode_whole("mp3", babble(4.0), DETECTOR_HZ, watermark=Watermark(KEY, 0xAB)))
    found = run("provenance", "check", str(file), "--key-file", str(key_file))
    assert found.exit_code == 0, found.output
    assert "watermark: found, payload 0xab" in found.stdout
    assert "source type: none" in found.stdout
    told = json.loads(run("provenance", "check", str(file), "--key-file", str(key_file), "--json").stdout)
    assert told["watermark"]["payload"] == 0xAB
    keyless = run("provenance", "check", str(file))
    assert keyless.exit_code == 1
    assert "not looked for; there is no key at data/provenance.key" in keyless.stdout


def test_what_say_writes_has_the_marks_that_the_settings_ask_for(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, key_file: Path
) -> None:
    monkeypatch.setenv("FIRSTWORD_PROVENANCE", "watermark")
    monkeypatch.setenv("FIRSTWORD_PROVENANCE_KEY_FILE", str(key_file))
    monkeypatch.setenv("FIRSTWORD_PROVENANCE_MANIFEST", "true")
    text = "The quick brown fox jumps over the lazy dog, and then it does so once more."
    for name in ("plain.wav", "quick.flac"):
        speed = "1.25" if name == "quick.flac" else "1"
        spoken = run("say", text, "-o", name, "--speed", speed)
        assert spoken.exit_code == 0, spoken.output
        shown = run("provenance", "check", name)
        assert shown.exit_code == 0, shown.output
        assert "source type: trainedAlgorithmicMedia" in shown.stdout
        assert '"is_synthetic": true' in shown.stdout
        marked, rate_hz = soundfile.read(name, dtype="float32")
        monkeypatch.setenv("FIRSTWORD_PROVENANCE", "off")
        assert run("say", text, "-o", f"off-{name}", "--speed", speed).exit_code == 0
        unmarked, _ = soundfile.read(f"off-{name}", dtype="float32")
        monkeypatch.setenv("FIRSTWORD_PROVENANCE", "watermark")
        assert len(marked) == len(unmarked)
        assert 1e-3 < abs(marked - unmarked).max() < 0.3, "tones bear few marks, and some"
        assert rate_hz == DETECTOR_HZ


def test_speech_that_cannot_be_marked_is_refused_before_it_is_made(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, key_file: Path
) -> None:
    engine.info = replace(engine.info, sample_rate_hz=16_000)
    monkeypatch.setenv("FIRSTWORD_PROVENANCE", "watermark")
    monkeypatch.setenv("FIRSTWORD_PROVENANCE_KEY_FILE", str(key_file))
    assert "the checkpoint has 16,000 Hz" in refused("say", "Hello.", "-o", "hello.wav")
    assert not engine.streams


def test_faults_are_told_in_a_line(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no recording")
    key = tmp_path / "key"
    assert "there is no file" in refused("provenance", "check", str(text), "--key-file", str(key))
    key.write_bytes(b"short")
    assert "expected 16 or more" in refused("provenance", "check", str(text), "--key-file", str(key))
    assert "cannot be read: No such file" in refused("provenance", "check", str(tmp_path / "nothing.wav"))
