"""Every stage of the service's own parts is timed, for every family, and a command says what is wrong."""

import json
from pathlib import Path

import pytest

from firstword.bench import stages
from firstword.models.config import Family
from tests.support.checkpoints import small_checkpoint


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2", "cosyvoice3"])
def test_stages_of_an_utterance_are_told(
    family: Family, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "stages.json"
    words = [
        "--checkpoint",
        str(small_checkpoint(family)),
        "--seconds",
        "3",
        "--runs",
        "1",
        "--json",
        str(path),
    ]
    assert stages.main([*words, "--plot", str(tmp_path / "stages.png")]) == 0
    found = json.loads(path.read_text(encoding="utf-8"))
    chunks = found["chunks"]
    assert sum(chunk["num_tokens"] for chunk in chunks) == 75
    for chunk in chunks:
        assert min(chunk[name] for name in ("flow_s", "vocoder_s", "encode_s", "audio_s", "state_mb")) > 0
    assert found["normalize_s"] > 0
    assert found["prefill_s"] > 0
    assert 0 < found["step_s"] <= sum(chunk["lm_s"] for chunk in chunks)
    assert found["constancy"] is None  # too short to tell
    assert "LM step" in capsys.readouterr().out
    assert (tmp_path / "stages.png").read_bytes().startswith(b"\x89PNG")


def test_long_utterance_tells_how_constant_its_cost_is(tmp_path: Path) -> None:
    path = tmp_path / "stages.json"
    checkpoint = str(small_checkpoint("cosyvoice2"))
    seconds = str(stages.LAST_S)
    assert (
        stages.main(["--checkpoint", checkpoint, "--seconds", seconds, "--runs", "1", "--json", str(path)])
        == 0
    )
    ratio = json.loads(path.read_text(encoding="utf-8"))["constancy"]
    assert ratio["low"] <= ratio["value"] <= ratio["high"]


def test_bad_checkpoint_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["--checkpoint", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_text_without_words_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert stages.main(["--checkpoint", str(small_checkpoint("cosyvoice2")), "--text", "..."]) == 1
    assert "nothing that can be spoken" in capsys.readouterr().err
