"""A random checkpoint has the published files, names and shapes, and networks that give sound."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from firstword.bench import random_checkpoint
from firstword.bench.random_checkpoint import WeightsFormat, write_configuration, write_random_checkpoint
from firstword.bench.random_checkpoint.__main__ import main
from firstword.bench.random_checkpoint.networks import flow_tensors, hift_tensors, lm_tensors
from firstword.bench.random_checkpoint.sizes import PUBLISHED_NUM_RANKS
from firstword.bench.random_checkpoint.tokenizer import write_tokenizer
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family, TransformerLMConfig
from firstword.models.flow.cosyvoice1 import CosyVoice1Flow
from firstword.models.layers import FullContext, chunk_mask
from firstword.models.tokenizer import load_text_tokenizer
from tests.models.published_shapes import SHAPES
from tests.support.checkpoints import FAMILIES, small_checkpoint

FAMILY = pytest.mark.parametrize("family", FAMILIES)
COMMON_FILES = {"llm.pt", "flow.pt", "hift.pt", "campplus.onnx", "spk2info.pt"}
QWEN2_FILES = {
    f"CosyVoice-BlankEN/{name}"
    for name in ("config.json", "vocab.json", "merges.txt", "tokenizer_config.json")
}
FILES = {
    "cosyvoice1": {"cosyvoice.yaml", "speech_tokenizer_v1.onnx", "multilingual.tiktoken"},
    "cosyvoice2": {"cosyvoice2.yaml", "speech_tokenizer_v2.onnx", *QWEN2_FILES},
    "cosyvoice3": {"cosyvoice3.yaml", "speech_tokenizer_v3.onnx", *QWEN2_FILES},
}


def digests(directory: Path) -> dict[str, str]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def full_size_tensors(directory: Path, family: Family) -> dict[str, dict[str, Tensor]]:
    """What a full-size checkpoint's files hold, on the meta device: shapes without values."""
    config = write_configuration(directory, family, "full")
    with torch.device("meta"):
        return {"llm": lm_tensors(config), "flow": flow_tensors(config), "hift": hift_tensors(config)}


@FAMILY
def test_a_checkpoint_has_the_published_files(family: Family) -> None:
    assert digests(small_checkpoint(family)).keys() == COMMON_FILES | FILES[family]


@pytest.mark.parametrize(
    ("family", "weights_format"), [("cosyvoice1", "pt"), ("cosyvoice2", "safetensors"), ("cosyvoice3", "pt")]
)
def test_the_same_seed_gives_the_same_files(
    tmp_path: Path, family: Family, weights_format: WeightsFormat
) -> None:
    write_random_checkpoint(tmp_path / "again", family, "small", weights_format=weights_format)

    assert digests(tmp_path / "again") == digests(small_checkpoint(family, weights_format))


@FAMILY
def test_another_seed_gives_other_values_under_the_same_names(tmp_path: Path, family: Family) -> None:
    write_random_checkpoint(tmp_path / "other", family, "small", seed=1)
    first, other = digests(small_checkpoint(family)), digests(tmp_path / "other")

    changed = {name for name in first if first[name] != other[name]}
    assert changed == {name for name in first if name.endswith((".pt", ".onnx"))}


def test_the_callers_random_numbers_stay_as_they_are(tmp_path: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)

    write_random_checkpoint(tmp_path / "model", "cosyvoice2", "small")

    assert torch.rand(3).equal(expected)


# A weight-norm pair counts as it is stored, magnitude and direction. Beyond the parameters, llm.pt of
# CosyVoice 2 and 3 holds a copy of the text embedding, and flow.pt of CosyVoice 3 a table of 32 frequencies.
@pytest.mark.parametrize(
    ("family", "expected"),
    [
        ("cosyvoice1", {"llm": 310_718_465, "flow": 104_874_752, "hift": 20_460_591}),
        ("cosyvoice2", {"llm": 505_803_812 + 151_936 * 896, "flow": 112_549_360, "hift": 20_821_295}),
        ("cosyvoice3", {"llm": 506_148_480 + 151_936 * 896, "flow": 332_257_088 + 32, "hift": 20_779_887}),
    ],
)
def test_full_size_networks_have_the_published_numbers_of_parameters(
    tmp_path: Path, family: Family, expected: dict[str, int]
) -> None:
    files = full_size_tensors(tmp_path, family)

    assert {stem: sum(tensor.numel() for tensor in file.values()) for stem, file in files.items()} == expected


@FAMILY
def test_full_size_tensors_have_the_published_names_and_shapes(tmp_path: Path, family: Family) -> None:
    files = full_size_tensors(tmp_path, family)
    shapes = {
        f"{stem}: {name}": (*tensor.shape,) for stem, file in files.items() for name, tensor in file.items()
    }

    expected = SHAPES[family]
    assert {name: shapes.get(name) for name in expected} == expected


def test_ranks_of_full_size_give_the_published_vocabulary(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, "cosyvoice1", PUBLISHED_NUM_RANKS)
    config = write_configuration(tmp_path, "cosyvoice1", "full").lm

    assert isinstance(config, TransformerLMConfig)
    assert load_text_tokenizer("cosyvoice1", tmp_path).vocab_size == config.text_token_size == 51_866


@FAMILY
def test_a_speaker_can_be_made_of_a_recording(family: Family) -> None:
    reader = open_checkpoint(small_checkpoint(family)).load_prompt_reader(num_threads=1)
    generator = np.random.default_rng(0)
    recordings = [0.3 * generator.standard_normal(32_000).astype(np.float32) for _ in range(2)]

    speakers = [reader.read_speaker(samples, 16_000) for samples in recordings]

    tokens, other_tokens = (speaker.prompt_tokens for speaker in speakers)
    assert len(tokens) == (100 if family == "cosyvoice1" else 50)
    assert len(tokens.unique()) > 0.9 * len(tokens)
    assert not tokens.equal(other_tokens)
    embedding, other_embedding = (speaker.embedding for speaker in speakers)
    assert embedding.norm() > 1
    assert not embedding.equal(other_embedding)


@FAMILY
@torch.inference_mode()
def test_the_language_model_is_undecided_and_seldom_stops(family: Family) -> None:
    checkpoint = open_checkpoint(small_checkpoint(family))
    network, speaker = checkpoint.load_lm(), checkpoint.load_speakers()["random-embedding"]
    vocabulary = network.vocabulary
    text = checkpoint.load_tokenizer().encode("hello world, this is my voice and that is yours")
    ids = [vocabulary.sos, *vocabulary.text(text), vocabulary.task, *range(0, 4000, 40)]

    x = network.prompt_embeddings(ids, speaker.embedding)
    hidden = network(x, FullContext(chunk_mask(x.shape[1], 1, x.device)))
    probabilities = network.logits(hidden[0, -100:]).softmax(-1)  # (100, V)

    assert 0.3 < network.logits(hidden).std() < 2
    assert probabilities.max() < 0.1
    top = probabilities.topk(25)
    stops = torch.isin(top.indices, torch.tensor([*vocabulary.stop_ids]))
    assert (top.values * stops).sum() / top.values.sum() < 0.02


@FAMILY
@torch.inference_mode()
def test_random_speech_tokens_are_heard(family: Family) -> None:
    checkpoint = open_checkpoint(small_checkpoint(family))
    flow, hift = checkpoint.load_flow(), checkpoint.load_hift()
    speaker = checkpoint.load_speakers()["random-prompt"]
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, checkpoint.config.flow.vocab_size, (1, 50), generator=generator)
    prompt = speaker.prompt_tokens[None], speaker.prompt_mel[None], speaker.embedding[None]

    if isinstance(flow, CosyVoice1Flow):
        mel, _ = flow(tokens, *prompt, torch.randn(1, 80, 500, generator=generator))
    else:
        mel = flow(tokens, *prompt, True)
    f0 = hift.predict_f0(mel)
    noise = torch.randn(1, f0.shape[1] * hift.config.samples_per_frame, generator=generator)
    source, _ = hift.source(f0, hift.source.drawn_noise(noise), None, True)
    samples = hift.decode(mel, source)

    assert mel.isfinite().all()
    assert 0.1 < mel.std() < 10
    assert f0.sub(150).abs().max() < 50
    assert 0.02 < samples.square().mean().sqrt() < 0.4
    assert samples.abs().max() < hift.config.audio_limit


def test_what_is_there_is_never_overwritten(tmp_path: Path) -> None:
    file, folder, link = tmp_path / "file", tmp_path / "folder", tmp_path / "link"
    file.write_text("mine")
    folder.mkdir()
    (folder / "mine").touch()
    link.symlink_to(tmp_path / "nowhere")

    for out in (file, folder, link):
        with pytest.raises(FileExistsError, match=f"{out.name}: already exists; give a new name"):
            write_random_checkpoint(out, "cosyvoice2", "small")

    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder", "link", "mine"]


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(random_checkpoint, "write_networks", fail)

    with pytest.raises(OSError, match="no space left"):
        write_random_checkpoint(tmp_path / "model", "cosyvoice2", "small")

    assert not any(tmp_path.iterdir())


def test_without_onnx_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(ImportError, match="extra `dev`"):
        write_random_checkpoint(tmp_path / "model", "cosyvoice2", "small")

    assert not any(tmp_path.iterdir())


def test_the_command_writes_a_checkpoint(tmp_path: Path) -> None:
    out = tmp_path / "model"
    options = ["--family", "cosyvoice3", "--size", "small", "--format", "safetensors", str(out)]

    subprocess.run([sys.executable, "-m", "firstword.bench.random_checkpoint", *options], check=True)

    assert digests(out) == digests(small_checkpoint("cosyvoice3", "safetensors"))


@pytest.mark.parametrize(
    ("seed", "message"), [("0", "already exists; give a new name"), ("-1", "seed is -1; expected 0 or more")]
)
def test_the_command_says_what_is_wrong(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: str,
    message: str,
) -> None:
    (tmp_path / "mine").touch()
    options = ["--family", "cosyvoice2", "--size", "small", "--seed", seed, str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["random_checkpoint", *options])

    with pytest.raises(SystemExit, match="2"):
        main()

    assert message in capsys.readouterr().err
