"""The merged Hugging Face directory: `transformers` computes our logits from it."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.layers import FullContext, chunk_mask
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.tensorrt_llm.export import BIAS_FILE, NEVER, export
from tests.commands.typed import refused, run
from tests.support.checkpoints import small_checkpoint

QWEN2_FAMILIES = pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
TEXT, SPEECH = (3, 1, 4, 1, 5), (10, 11, 12)


@pytest.fixture
def transformers() -> Any:
    return pytest.importorskip("transformers", reason="needs transformers: make setup-vllm")


@QWEN2_FAMILIES
@torch.inference_mode()
def test_transformers_computes_our_logits(family: Family, tmp_path: Path, transformers: Any) -> None:
    lm = open_checkpoint(small_checkpoint(family)).load_lm()
    assert isinstance(lm, Qwen2LM)
    ids = export(small_checkpoint(family), tmp_path, "float32")
    names = lm.vocabulary
    ours = [names.sos, *names.text(TEXT), names.task, *SPEECH]
    context = FullContext(chunk_mask(len(ours), 1))
    expected = lm.logits(lm(lm.prompt_embeddings(ours), context))[0]
    model = transformers.Qwen2ForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    merged = [ids.sos, *TEXT, ids.task, *(ids.speech + token for token in SPEECH)]
    bias = load_file(tmp_path / BIAS_FILE)["embedding_bias"]
    logits = model(torch.tensor([merged])).logits[0] + bias
    classes = slice(ids.speech, ids.speech + names.num_classes)
    torch.testing.assert_close(logits[:, classes], expected, atol=1e-4, rtol=1e-4)
    others = torch.cat([logits[:, : classes.start], logits[:, classes.stop :]], dim=1)
    assert others.eq(NEVER).all(), "neither text nor padding can be drawn"
    assert logits.shape[1] % 64 == 0


@QWEN2_FAMILIES
def test_the_tokenizer_knows_texts_and_speech_tokens(
    family: Family, tmp_path: Path, transformers: Any
) -> None:
    checkpoint = open_checkpoint(small_checkpoint(family))
    ids = export(small_checkpoint(family), tmp_path, "bfloat16")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    text = "Hello, you 12."
    prompt = f"<|sos|>{text}<|task_id|><|s_0|><|s_7|>"
    text_ids = checkpoint.load_tokenizer().encode(text)
    expected = [ids.sos, *text_ids, ids.task, ids.speech, ids.speech + 7]
    assert tokenizer(prompt, add_special_tokens=False)["input_ids"] == expected
    assert tokenizer.convert_tokens_to_ids("<|eos1|>") == ids.eos
    assert json.loads((tmp_path / "ids.json").read_text())["eos"] == ids.eos
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["vocab_size"], config["torch_dtype"]) == (ids.num_ids, "bfloat16")
    weights = load_file(tmp_path / "model.safetensors")
    assert weights["lm_head.weight"].dtype == torch.bfloat16
    assert weights["lm_head.weight"].shape[0] == ids.num_ids


def test_the_command_writes_the_exact_build(tmp_path: Path) -> None:
    words = ["tensorrt-llm", str(small_checkpoint("cosyvoice2")), str(tmp_path / "my llm")]
    result = run(*words, "--dtype", "float16", "--tp", "2", "--weight-only", "int8", "--max-batch-size", "8")
    assert result.exit_code == 0, result.output
    script = (tmp_path / "my llm/build.sh").read_text(encoding="utf-8")
    folder = tmp_path.resolve() / "my llm"
    assert script == (
        "#!/bin/sh -e\n"
        f"python3 \"$1/convert_checkpoint.py\" --model_dir '{folder}' --output_dir '{folder}/converted' "
        "--dtype float16 --tp_size 2 --pp_size 1 --use_weight_only --weight_only_precision int8\n"
        f"trtllm-build --checkpoint_dir '{folder}/converted' --output_dir '{folder}/engines' "
        "--max_batch_size 8 --max_num_tokens 32768 --gemm_plugin float16\n"
    )
    assert run(*words, "--smoothquant", "0.5").exit_code == 0
    assert "--smoothquant 0.5 --per_token --per_channel" in (folder / "build.sh").read_text(encoding="utf-8")


def test_what_cannot_be_converted_is_refused(tmp_path: Path) -> None:
    checkpoint, out = str(small_checkpoint("cosyvoice2")), str(tmp_path / "out")
    assert "no Qwen2" in refused("tensorrt-llm", str(small_checkpoint("cosyvoice1")), out)
    assert "expected bfloat16" in refused("tensorrt-llm", checkpoint, out, "--dtype", "int8")
    assert "expected int8 or int4" in refused("tensorrt-llm", checkpoint, out, "--weight-only", "int2")
    both = ("--weight-only", "int8", "--smoothquant", "0.5")
    assert "give one" in refused("tensorrt-llm", checkpoint, out, *both)
    assert not (tmp_path / "out").exists()
