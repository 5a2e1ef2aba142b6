"""The published code beside this program, with a stand-in of its interface."""

import json
import sys
from pathlib import Path

import pytest
import torch

from firstword.bench.upstream import main, published_inputs, rows_of
from firstword.models.checkpoint.open import open_checkpoint
from tests.support.checkpoints import small_checkpoint

MODEL = """
import time
import torch


class CosyVoice2Model:
    def __init__(self, llm, flow, hift):
        self.llm, self.flow, self.hift, self.token_hop_len = llm, flow, hift, 25

    def load(self, llm, flow, hift):
        for path in (llm, flow, hift):
            assert torch.load(path, weights_only=True), path

    def tts(self, text, flow_embedding, llm_embedding, prompt_text, llm_prompt_speech_token,
            flow_prompt_speech_token, prompt_speech_feat, stream=False, **others):
        assert stream and text.dtype == torch.int32 and prompt_speech_feat.shape[2] == 80
        tokens = list(self.llm.inference(text=text, prompt_text=prompt_text))
        for first, stop in ((0, 25), (25, 75), (75, 175), (0, 200)):
            mel = self.flow.inference(torch.tensor([tokens[:stop]]))
            yield {"tts_speech": self.hift.inference(mel)}
            self.token_hop_len = 100
"""
YAML = """
import time
import torch


class Network:
    def __init__(self, seconds):
        self.seconds = seconds

    def inference(self, tokens):
        time.sleep(self.seconds)
        return torch.zeros(1, 960 * 50)


class LanguageModel:
    def inference(self, text, prompt_text):
        for number in range(200):
            time.sleep(0.02 if number == 0 else 0.0005)
            yield number


def load_hyperpyyaml(file, overrides):
    assert "sample_rate" in file.read() and overrides["qwen_pretrain_path"].endswith("CosyVoice-BlankEN")
    return {"llm": LanguageModel(), "flow": Network(0.02), "hift": Network(0.01)}
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "cosyvoice" / "cli").mkdir(parents=True)
    (folder / "cosyvoice" / "cli" / "model.py").write_text(MODEL)
    (folder / "hyperpyyaml.py").write_text(YAML)
    return folder


@pytest.mark.slow
def test_both_sides_stand_in_one_table(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "upstream.json"
    words = [str(checkout), str(small_checkpoint("cosyvoice2")), "--python", sys.executable, "--threads", "1"]
    words += ["--text", "Hello."]  # random weights take their time for each character
    assert main([*words, "--rounds", "1", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    upstream, ours = found["rounds"][0]
    assert upstream["num_tokens"] == 200
    assert sum(chunk["num_tokens"] for chunk in ours["chunks"]) == 200
    table = found["table"]
    assert table["language model, prefill, s"][0] >= 0.02
    assert table["language model, a token, s"][0] == pytest.approx(0.0005, rel=5)
    assert table["flow, tokens 25 to 75, s"][0] >= 0.02
    assert table["vocoder, tokens 75 to 175, s"][0] >= 0.01
    assert all(theirs > 0 and mine > 0 for theirs, mine in table.values())
    assert "÷" in capsys.readouterr().out


def test_a_checkout_that_fails_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(tmp_path), str(small_checkpoint("cosyvoice2")), "--python", sys.executable]
    assert main(words) == 1
    assert "upstream_side.py" in capsys.readouterr().err


def test_what_the_published_code_is_given() -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    given = published_inputs(checkpoint, "Hello there.")
    speaker = next(iter(checkpoint.load_speakers().values()))
    assert given["text"].tolist()[0] == checkpoint.load_tokenizer().encode("Hello there.")
    assert given["flow_prompt_speech_token"].tolist() == [speaker.prompt_tokens.tolist()]
    assert given["prompt_speech_feat"].shape == (1, *speaker.prompt_mel.shape)
    assert given["llm_embedding"].dtype == torch.float32


def test_a_chunk_on_a_border_counts_in_proportion() -> None:
    upstream = {
        **{"served_first_s": 2.0, "served_s": 20.0, "audio_s": 8.0, "lm_s": 4.0, "prefill_s": 1.0},
        **{"step_s": 0.1, "first_lm_tokens_s": [1.0] + [0.1] * 200},
        **{"flow_s": [1.0, 3.0, 6.0, 9.0], "vocoder_s": [0.1, 0.2, 0.4, 0.8]},
    }
    chunks = [{"num_tokens": 50, "flow_s": 1.0, "vocoder_s": 0.5} for _ in range(4)]
    ours = {
        **{"served_first_s": 1.0, "served_s": 8.0, "served_audio_s": 8.0, "prompt_tokens": 60},
        **{"first_audio_s": 0.5, "rtf": 0.5, "step_s": 0.05, "prefill_s": 0.5, "chunks": chunks},
    }
    rows = rows_of(upstream, ours)
    # 25 tokens, 15 that fill up the prompt's last hop, 3 ahead: one second and 42 steps.
    assert rows["first audio, networks in turn, s"] == (pytest.approx(1.0 + 42 * 0.1 + 1.1), 0.5)
    assert rows["flow, tokens 25 to 75, s"] == (3.0, pytest.approx(0.5 + 0.5))
    assert rows["vocoder, tokens 75 to 175, s"] == (0.4, pytest.approx(0.25 + 0.5 + 0.25))
    assert rows["compute over audio, in turn"][0] == pytest.approx((4.0 + 19.0 + 1.5) / 8.0)
    assert rows["compute over audio, as served"] == (2.5, 1.0)
