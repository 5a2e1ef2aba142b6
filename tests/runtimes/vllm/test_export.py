"""The converter: one table of all ids, whole or not at all, and not twice."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import CheckpointError, Family
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.engines.joint_model import WEIGHTS_FILE
from firstword.models.runtimes.vllm import export as module
from firstword.models.runtimes.vllm.export import EXTRA_KEY, export
from tests.support.checkpoints import copied_checkpoint, small_checkpoint
from tests.support.damages import rewrite

QWEN2_FAMILIES = pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])


def loaded(family: Family) -> Qwen2LM:
    lm = open_checkpoint(small_checkpoint(family)).load_lm()
    assert isinstance(lm, Qwen2LM)
    return lm


@QWEN2_FAMILIES
@torch.inference_mode()
def test_every_id_has_the_embedding_that_torch_gives_it(family: Family, tmp_path: Path) -> None:
    lm = loaded(family)
    assert export(small_checkpoint(family), tmp_path / "out")
    table = load_file(tmp_path / "out" / WEIGHTS_FILE)["model.embed_tokens.weight"]
    assert table.equal(lm.embed(torch.arange(lm.vocabulary.num_ids)[None])[0])


@QWEN2_FAMILIES
def test_head_and_layers_are_the_checkpoints(family: Family, tmp_path: Path) -> None:
    lm = loaded(family)
    export(small_checkpoint(family), tmp_path / "out")
    tensors = load_file(tmp_path / "out" / WEIGHTS_FILE)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert tensors["lm_head.weight"].equal(lm.head.weight)
    assert ("lm_head.bias" in tensors) == (family == "cosyvoice2") == config[EXTRA_KEY]["has_head_bias"]
    assert tensors["model.layers.1.mlp.up_proj.weight"].equal(lm.decoder.layers[1].mlp.up.weight)
    assert tensors["model.norm.weight"].equal(lm.decoder.norm.weight)
    num_parameters = sum(parameter.numel() for parameter in lm.parameters())
    assert sum(tensor.numel() for tensor in tensors.values()) == num_parameters
    assert config["vocab_size"] == lm.vocabulary.num_ids
    assert config["tie_word_embeddings"] is False
    assert config[EXTRA_KEY]["vocabulary"]["num_classes"] == len(tensors["lm_head.weight"])


def test_the_same_checkpoint_is_not_written_twice_and_another_one_is(tmp_path: Path) -> None:
    checkpoint, out = copied_checkpoint(tmp_path), tmp_path / "out"
    assert export(checkpoint, out)
    assert not export(checkpoint, out)
    assert export(checkpoint, out, "bfloat16")
    assert load_file(out / WEIGHTS_FILE)["lm_head.weight"].dtype == torch.bfloat16
    rewrite(checkpoint / "llm.pt", lambda tensors: {name: tensor + 1 for name, tensor in tensors.items()})
    assert export(checkpoint, out, "bfloat16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_an_export_that_fails_leaves_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, out = copied_checkpoint(tmp_path), tmp_path / "out"
    export(checkpoint, out)
    before = (out / WEIGHTS_FILE).read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(module, "config_of", full_disk)
    with pytest.raises(OSError, match="no space"):
        export(checkpoint, out, "bfloat16")
    assert (out / WEIGHTS_FILE).read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_what_is_no_export_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(CheckpointError, match="was not written by this program"):
        export(small_checkpoint("cosyvoice2"), tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_a_cosyvoice_1_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cosyvoice1, whose language model is no Qwen2"):
        export(small_checkpoint("cosyvoice1"), tmp_path / "out")


def test_the_command_says_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [module.__file__, str(small_checkpoint("cosyvoice2")), str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", command)
    for said in ("written", "is up to date"):
        runpy.run_path(module.__file__, run_name="__main__")
        assert capsys.readouterr().out == f"{tmp_path / 'out'} {said}\n"
    command[1] = str(tmp_path)
    with pytest.raises(SystemExit, match=r"expected one of cosyvoice\.yaml"):
        module.main()
