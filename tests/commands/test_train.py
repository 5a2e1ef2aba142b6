"""`firstword train` and `firstword reward`."""

import importlib.util
import json
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from firstword.models.checkpoint.open import open_checkpoint
from tests.commands.typed import refused, run
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import write_recordings


@pytest.fixture
def model() -> str:
    return str(small_checkpoint("cosyvoice2"))


def test_recordings_become_a_checkpoint_that_opens(model: str, tmp_path: Path) -> None:
    write_recordings(tmp_path / "recordings", 6)
    words = ("--checkpoint", model, "--language", "en")
    prepared = run("train", "prepare", str(tmp_path / "recordings"), "-o", str(tmp_path / "data"), *words)
    assert prepared.exit_code == 0, prepared.output
    assert "6 utterances" in prepared.stdout
    out = tmp_path / "voice"
    given = ("--steps", "2", "--lr", "0.001", "--batch-size", "200", "--lora", "2")
    trained = run("train", "lm", model, str(tmp_path / "data"), "-o", str(out), *given)
    assert trained.exit_code == 0, trained.output
    assert "hifigan: the vocoder is not trained: not followed" in trained.stderr
    assert "\nstep 1: loss " in trained.stderr  # as no bar can be drawn
    assert "ann" in open_checkpoint(out).load_speakers()
    merged = run("train", "merge", model, str(out / "adapter-llm"), "-o", str(tmp_path / "merged"))
    assert merged.exit_code == 0, merged.output
    assert open_checkpoint(tmp_path / "merged").load_lm() is not None


def test_without_the_extra_a_line_says_what_to_install(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec

    def without_peft(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "peft" else found(name, package)

    monkeypatch.setattr("firstword.app.commands.reward.find_spec", without_peft)
    for words in (("train", "prepare", str(tmp_path), "-o", str(tmp_path / "data")), ("reward", model)):
        assert "training needs peft; pip install 'firstword[train]'" in refused(*words)


def test_what_cannot_be_followed_ends_in_a_line(model: str, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "out"))
    unprepared = run("train", "flow", model, str(tmp_path), *out)  # behind what of the yaml is not followed
    assert unprepared.exit_code == 1
    assert "not prepared" in unprepared.stderr
    assert "expected constant, warmup or cosine" in refused(
        "train", "lm", model, str(tmp_path), *out, "--schedule", "linear"
    )
    (tmp_path / "texts.txt").write_text("Hello.\n")
    texts = str(tmp_path / "texts.txt")
    deaf = run("train", "grpo", model, texts, *out, "--steps", "1", "--recognizer", "ear")
    assert deaf.exit_code == 1
    assert "no recognizer is named 'ear'" in deaf.stderr


def test_tritonserver_gets_its_model(model: str, tmp_path: Path) -> None:
    result = run("reward", model, "--triton", str(tmp_path), "--likeness-weight", "0.5")
    assert result.exit_code == 0, result.output
    config = (tmp_path / "token2wav_asr" / "config.pbtxt").read_text()
    value = json.JSONDecoder().raw_decode(config.split("string_value: ")[1])[0]
    assert json.loads(value)["weights"] == {"duration": 0.2, "likeness": 0.5}
    assert (tmp_path / "token2wav_asr" / "1" / "model.py").is_file()
