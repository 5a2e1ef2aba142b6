"""The instrument of the watermark: its clips, its rows and what it says of speech without a mark."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import soundfile

from firstword.app.audio.watermark import DETECTOR_HZ
from firstword.bench import provenance
from tests.support.sounds import babble


@pytest.fixture
def speech(tmp_path: Path) -> Path:
    folder = tmp_path / "speech"
    folder.mkdir()
    soundfile.write(folder / "00000.flac", babble(13.0), DETECTOR_HZ)
    return folder


def test_rows_of_a_run_are_told_as_a_table_and_as_json(
    speech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = {name: provenance.ATTACKS[name] for name in ("clean", "half cut away")}
    monkeypatch.setattr(provenance, "ATTACKS", {**kept, "all gone": lambda samples, _: samples * 0})
    monkeypatch.setattr(provenance, "SPEED_ATTACKS", {})
    other = tmp_path / "other"
    other.mkdir()
    soundfile.write(other / "unmarked.wav", np.stack([babble(3.0, seed=1)] * 2, axis=1), DETECTOR_HZ)
    (other / "licence.txt").write_text("no recording", encoding="utf-8")
    written = tmp_path / "found.json"
    arguments = ["--speech", str(speech), "--unmarked", str(other), "--json", str(written)]
    assert provenance.main([*arguments, "--clips", "2", "--strength", "0.4"]) == 0
    found = json.loads(written.read_text(encoding="utf-8"))
    assert found["is_whole"]
    rows = {row["behind"]: row for row in found["rows"]}
    assert {name: (row["clips"], row["found"], row["wrong"]) for name, row in rows.items()} == {
        "clean": (2, 2, 0),
        "half cut away": (2, 2, 0),
        "all gone": (2, 0, 0),
    }
    low, high = rows["clean"]["share_95"]
    assert (low, high) == (pytest.approx(0.342, abs=1e-3), 1.0)
    assert rows["clean"]["lowest_score_found"] > found["threshold"]
    nulls = {null["speech"]: null for null in found["without_the_mark"]}
    assert [null["trials"] for null in nulls.values()] == [5, 4], "four keys and three, and a file"
    assert [null["alarms"] for null in nulls.values()] == [0, 0]
    assert nulls["unmarked"]["audio_h"] == pytest.approx((4 * 13 + 3) / 3600)
    said = capsys.readouterr().out
    assert "| clean | 2 | 2 | 34.2 to 100.0 % | 0 |" in said
    assert "too few trials" in said
    assert "broken off" not in said


def test_utterances_go_on_until_there_are_as_many_clips_as_asked(
    speech: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first two have too little speech for a clip; the third gives both."""
    for number in (0, 1):
        soundfile.write(speech / f"0000{number}.flac", np.zeros(8 * DETECTOR_HZ), DETECTOR_HZ)
    soundfile.write(speech / "00002.flac", babble(13.0), DETECTOR_HZ)
    monkeypatch.setattr(provenance, "ATTACKS", {"clean": provenance.ATTACKS["clean"]})
    monkeypatch.setattr(provenance, "SPEED_ATTACKS", {})
    assert provenance.main(["--speech", str(speech), "--clips", "2"]) == 0
    assert "| clean | 2 | 2 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("", b"", "is no folder"),
        ("licence.txt", b"no recording", "holds no recording; expected files in .wav, .flac"),
        ("broken.wav", b"no recording", "broken.wav cannot be read"),
    ],
)
def test_folder_without_recordings_is_refused_before_anything_is_measured(
    name: str, content: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "other"
    if name:
        folder.mkdir()
        (folder / name).write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        provenance.main(["--unmarked", str(folder)])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_clips_are_pieces_of_speech_one_behind_the_other() -> None:
    sound = np.concatenate([babble(7.0), np.zeros(6 * DETECTOR_HZ, np.float32), babble(7.0)])
    clips = list(provenance.clips_of(sound, np.random.default_rng(0)))
    assert [len(clip) for clip in clips] == [5 * DETECTOR_HZ] * 2, "those of silence are left out"


@pytest.mark.parametrize("ended_by", [KeyboardInterrupt, RuntimeError])
def test_run_that_is_broken_off_tells_what_it_has(
    ended_by: type[BaseException],
    speech: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It says so in the table and in the file, and no networks are asked, which may take minutes."""

    def broken_off(*_: object) -> None:
        raise ended_by

    attacks = {"clean": provenance.ATTACKS["clean"], "stop": broken_off}
    monkeypatch.setattr(provenance, "ATTACKS", attacks)
    monkeypatch.setattr(provenance, "opinions", lambda _: pytest.fail("networks are asked"))
    written = tmp_path / "found.json"
    arguments = ["--speech", str(speech), "--clips", "1", "--mos", "1", "--json", str(written)]
    with nullcontext() if ended_by is KeyboardInterrupt else pytest.raises(ended_by):
        assert provenance.main(arguments) == 130
    said = capsys.readouterr().out
    assert "| clean | 1 | 1 |" in said
    assert "broken off" in said
    assert json.loads(written.read_text(encoding="utf-8"))["is_whole"] is False
