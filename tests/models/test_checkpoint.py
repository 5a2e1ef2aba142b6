"""A checkpoint loads exactly, or says at once which file is wrong and why."""

import os
import pickle
import time
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from firstword.bench.random_checkpoint import WeightsFormat
from firstword.models.checkpoint.names import (
    COSYVOICE1_FLOW,
    DIT_FLOW,
    HIFT,
    QWEN2_LM,
    TRANSFORMER_LM,
    UNET_FLOW,
    Table,
    to_published,
)
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.checkpoint.weights import read_tensors
from firstword.models.config import CheckpointError, Family
from tests.support.checkpoints import FAMILIES, FORMATS, copied_checkpoint, load_everything, small_checkpoint
from tests.support.damages import DAMAGES, Damage, G, V, config_value, link_out, replaced, rewrite

MAX_SECONDS = 20.0  # a fraction of one when nothing else runs
FAMILY = pytest.mark.parametrize("family", FAMILIES)
TABLES: dict[Family, tuple[Table, Table]] = {
    "cosyvoice1": (TRANSFORMER_LM, COSYVOICE1_FLOW),
    "cosyvoice2": (QWEN2_LM, UNET_FLOW),
    "cosyvoice3": (QWEN2_LM, DIT_FLOW),
}


def folded(tensors: dict[str, Tensor], g_suffix: str = G, v_suffix: str = V) -> dict[str, Tensor]:
    """Weight norm as its definition has it."""
    out = {name: value for name, value in tensors.items() if not name.endswith((g_suffix, v_suffix))}
    for name in tensors:
        if name.endswith(g_suffix):
            stem = name.removesuffix(g_suffix)
            g, v = tensors[name], tensors[stem + v_suffix]
            out[f"{stem}.weight"] = v * (g / v.flatten(1).norm(dim=1)[:, None, None])
    return out


def assert_loaded(network: nn.Module, tensors: dict[str, Tensor], table: Table) -> None:
    for name, value in network.state_dict().items():
        expected = tensors[to_published(name, table)]
        assert value.equal(expected.to(value.dtype)), name


@FAMILY
@pytest.mark.parametrize("weights_format", FORMATS)
def test_what_was_written_is_loaded_to_the_bit(family: Family, weights_format: WeightsFormat) -> None:
    directory = small_checkpoint(family, weights_format)
    checkpoint = open_checkpoint(directory)
    lm, flow, hift = (
        read_tensors(directory / f"{stem}.{weights_format}") for stem in ("llm", "flow", "hift")
    )

    lm_table, flow_table = TABLES[family]
    assert_loaded(checkpoint.load_lm(), lm, lm_table)
    assert_loaded(checkpoint.load_flow(), flow, flow_table)
    assert_loaded(checkpoint.load_hift(), folded(hift), HIFT)


@FAMILY
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_network_comes_in_the_dtype_asked_for(family: Family, dtype: torch.dtype) -> None:
    checkpoint = load_everything(small_checkpoint(family), dtype)

    networks: list[nn.Module] = [checkpoint.load_lm(dtype), checkpoint.load_flow(dtype)]
    networks.append(checkpoint.load_hift(dtype).generator)
    for network in networks:
        assert {parameter.dtype for parameter in network.parameters()} == {dtype}
        assert not any(parameter.requires_grad for parameter in network.parameters())
        assert not network.training


def test_f0_is_not_rounded_to_the_dtype_of_the_generator() -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice3"))

    exact, rounded = checkpoint.load_hift(), checkpoint.load_hift(torch.bfloat16)

    mel = torch.randn(1, 80, 30, generator=torch.Generator().manual_seed(0))
    assert exact.predict_f0(mel).equal(rounded.predict_f0(mel))


def test_files_of_training_and_of_a_gan_load_too(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    rewrite(directory / "llm.pt", lambda tensors: tensors | {"epoch": 3, "step": 1000})
    rewrite(directory / "hift.pt", lambda tensors: {f"generator.{name}": tensors[name] for name in tensors})

    load_everything(directory)


def test_the_older_spelling_of_weight_norm_loads_too(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    rewrite(
        directory / "hift.pt",
        lambda tensors: {
            name.replace(G, ".weight_g").replace(V, ".weight_v"): value for name, value in tensors.items()
        },
    )

    assert_loaded(
        open_checkpoint(directory).load_hift(),
        folded(read_tensors(small_checkpoint("cosyvoice2") / "hift.pt")),
        HIFT,
    )


def test_safetensors_are_taken_before_pt(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    for stem in ("llm", "flow", "hift"):
        tensors = {name: value.clone() for name, value in read_tensors(directory / f"{stem}.pt").items()}
        safetensors.torch.save_file(tensors, directory / f"{stem}.safetensors")
        (directory / f"{stem}.pt").write_bytes(b"broken")

    load_everything(directory)


def test_a_table_of_speakers_may_be_absent(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    (directory / "spk2info.pt").unlink()

    assert open_checkpoint(directory).load_speakers() == {}


def test_a_link_to_the_directory_itself_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(small_checkpoint("cosyvoice2"))

    load_everything(tmp_path / "link")


def test_a_link_out_of_the_directory_says_how_to_download_without(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    link_out("llm.pt")(directory)

    with pytest.raises(CheckpointError, match=r"llm\.pt: a link to .*outside, outside .* --local-dir"):
        open_checkpoint(directory)


def test_all_that_is_wrong_stands_in_one_message(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)

    def damage(tensors: dict[str, Any]) -> dict[str, Any]:
        del tensors["llm_decoder.bias"]
        tensors["llm_embedding.weight"] = torch.zeros(3, 128)
        tensors["speech_embedding.weight"] = tensors["speech_embedding.weight"].int()
        return tensors | {"other.weight": torch.zeros(2)}

    rewrite(directory / "llm.pt", damage)

    with pytest.raises(CheckpointError) as caught:
        load_everything(directory)
    assert str(caught.value).splitlines() == [
        f"{directory / 'llm.pt'}: 4 tensors do not fit:",
        "  missing llm_decoder.bias (6564,)",
        "  misshapen llm_embedding.weight (3, 128), expected (2, 128)",
        "  wrong type speech_embedding.weight torch.int32, expected floating point",
        "  surplus other.weight (2,)",
    ]


def test_more_text_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    config_value("vocab_size", 512)(directory)

    with pytest.raises(CheckpointError, match=r"the text tokenizer has \d+ ids, .* table 512 rows"):
        open_checkpoint(directory).load_tokenizer()


@pytest.mark.parametrize(
    ("damage", "message"), [pytest.param(*value, id=name) for name, value in DAMAGES.items()]
)
def test_a_damaged_file_is_named_soon(tmp_path: Path, damage: Damage, message: str) -> None:
    directory = copied_checkpoint(tmp_path)
    damage(directory)
    start = time.perf_counter()

    with pytest.raises(CheckpointError) as caught:
        load_everything(directory)

    assert time.perf_counter() - start < MAX_SECONDS
    assert message in str(caught.value)
    assert str(directory) in str(caught.value)
    with pytest.raises(CheckpointError) as checked:
        open_checkpoint(directory).check()
    assert str(checked.value) == str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "static_chunk_size: 1",
            "static_chunk_size: 0",
            r"cosyvoice\.yaml: top level\.llm\.llm: static_chunk_size is 0",
        ),
        ("text_token_size: ", "text_token_size: 9", r"llm\.pt: 1 tensors do not fit"),
        ("attention_heads: 4", "attention_heads: 64", r"cosyvoice\.yaml: .* heads of even width"),
        ("channels: [32, 32]", "channels: [36, 36]", r"model: the sizes of flow make no network"),
        ("sampling_ratios: [1, 1, 1, 1]", "sampling_ratios: []", r"cosyvoice\.yaml: .*sampling_ratios"),
    ],
)
def test_sizes_that_make_no_cosyvoice1_are_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    directory = copied_checkpoint(tmp_path, "cosyvoice1")
    replaced(old, new, "cosyvoice.yaml")(directory)

    with pytest.raises(CheckpointError, match=message):
        load_everything(directory)


def test_missing_ranks_are_named(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path, "cosyvoice1")
    (directory / "multilingual.tiktoken").write_text("AA== 0\nx")

    with pytest.raises(CheckpointError, match=r"multilingual\.tiktoken: line 2"):
        load_everything(directory)


@pytest.mark.parametrize("name", ["nowhere", "file"])
def test_what_is_no_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(CheckpointError, match=f"{name}: not a directory; expected a CosyVoice model"):
        open_checkpoint(tmp_path / name)


class Payload:
    """A pickle that makes a file where it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("stem", ["llm", "hift", "spk2info"])
@pytest.mark.parametrize("is_bare", [True, False])
def test_a_pickle_that_acts_does_nothing(tmp_path: Path, stem: str, is_bare: bool) -> None:
    directory = copied_checkpoint(tmp_path)
    path, trace = directory / f"{stem}.pt", tmp_path / "trace"
    values = {"llm_decoder.bias": Payload(trace)}
    if is_bare:
        path.write_bytes(pickle.dumps(values))
    else:
        torch.save(values, path)

    with pytest.raises(CheckpointError, match=rf"{stem}\.pt: not a file of tensors"):
        load_everything(directory)
    assert not trace.exists()


BROKEN_SAFETENSORS = {
    "empty": b"",
    "garbage": b"garbage" * 9,
    "a header of garbage": (8).to_bytes(8, "little") + b"garbage!",
    "a header larger than the file": (1 << 40).to_bytes(8, "little") + b"{}",
}


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in BROKEN_SAFETENSORS.items()])
def test_broken_safetensors_are_named(tmp_path: Path, data: bytes) -> None:
    directory = copied_checkpoint(tmp_path)
    (directory / "flow.safetensors").write_bytes(data)

    with pytest.raises(CheckpointError, match=r"flow\.safetensors: cannot be read"):
        load_everything(directory)


@pytest.mark.parametrize("kept", [0.001, 0.5, 0.999])
def test_safetensors_cut_short_are_named(tmp_path: Path, kept: float) -> None:
    directory = copied_checkpoint(tmp_path, weights_format="safetensors")
    path = directory / "hift.safetensors"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])

    with pytest.raises(CheckpointError, match=r"hift\.safetensors: cannot be read"):
        load_everything(directory)
