"""A checkpoint loads exactly, or says at once which file is wrong and why."""

import json
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from models.checkpoint import open_checkpoint
from models.config import Family
from models.errors import CheckpointError
from models.names import DIT_FLOW, HIFT, QWEN2_LM, REGULATED_FLOW, TRANSFORMER_LM, UNET_FLOW, Table, to_published
from models.random_checkpoint import WeightsFormat
from models.weights import read_tensors
from tests.models.checkpoints import FAMILIES, FORMATS, copied_checkpoint, load_everything, small_checkpoint

MAX_SECONDS = 5.0
FAMILY = pytest.mark.parametrize("family", FAMILIES)
TABLES: dict[Family, tuple[Table, Table]] = {
    "cosyvoice1": (TRANSFORMER_LM, REGULATED_FLOW),
    "cosyvoice2": (QWEN2_LM, UNET_FLOW),
    "cosyvoice3": (QWEN2_LM, DIT_FLOW),
}
G, V = ".parametrizations.weight.original0", ".parametrizations.weight.original1"
Damage = Callable[[Path], None]


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
    lm, flow, hift = (read_tensors(directory / f"{stem}.{weights_format}") for stem in ("llm", "flow", "hift"))

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

    assert_loaded(open_checkpoint(directory).load_hift(), folded(read_tensors(small_checkpoint("cosyvoice2") / "hift.pt")), HIFT)


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


def test_all_that_is_wrong_stands_in_one_message(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)

    def damage(tensors: dict[str, Any]) -> dict[str, Any]:
        del tensors["llm_decoder.bias"]
        tensors["llm_embedding.weight"] = torch.zeros(3, 64)
        tensors["speech_embedding.weight"] = tensors["speech_embedding.weight"].int()
        return tensors | {"other.weight": torch.zeros(2)}

    rewrite(directory / "llm.pt", damage)

    with pytest.raises(CheckpointError) as caught:
        load_everything(directory)
    assert str(caught.value).splitlines() == [
        f"{directory / 'llm.pt'}: 4 tensors do not fit:",
        "  missing llm_decoder.bias (6564,)",
        "  misshapen llm_embedding.weight (3, 64), expected (2, 64)",
        "  wrong type speech_embedding.weight torch.int32, expected floating point",
        "  surplus other.weight (2,)",
    ]


def test_more_text_tokens_than_rows_are_refused(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    config_value("vocab_size", 512)(directory)

    with pytest.raises(CheckpointError, match=r"the text tokenizer has \d+ ids, .* table 512 rows"):
        open_checkpoint(directory).load_tokenizer()


# Ways to damage a directory. Each builder returns a function that does it.


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    torch.save(change(dict(torch.load(path, weights_only=True))), path)


def tensor(name: str, change: Callable[[Tensor], Any], file: str = "hift.pt") -> Damage:
    return lambda directory: rewrite(directory / file, lambda all: all | {name: change(all[name])})


def content(name: str, data: bytes) -> Damage:
    return lambda directory: _write(directory / name, data)


def cut(name: str, kept: float) -> Damage:
    def damage(directory: Path) -> None:
        whole = (directory / name).read_bytes()
        (directory / name).write_bytes(whole[: int(kept * len(whole))])

    return damage


def text(old: str, new: str, name: str = "cosyvoice2.yaml") -> Damage:
    def damage(directory: Path) -> None:
        before = (directory / name).read_text(encoding="utf-8")
        assert old in before, old
        (directory / name).write_text(before.replace(old, new), encoding="utf-8")

    return damage


def config_value(name: str, value: object) -> Damage:
    path = Path("CosyVoice-BlankEN") / "config.json"
    return lambda directory: _write(
        directory / path, json.dumps(json.loads((directory / path).read_text()) | {name: value}).encode()
    )


def without_config_value(name: str) -> Damage:
    return text(f'"{name}"', '"another"', "CosyVoice-BlankEN/config.json")


def missing(name: str) -> Damage:
    return lambda directory: (directory / name).unlink()


def folder(name: str) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).mkdir()

    return damage


def fifo(name: str) -> Damage:
    """Whoever opens it waits forever."""

    def damage(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)

    return damage


def link_out(name: str) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).rename(directory.parent / "outside")
        (directory / name).symlink_to(directory.parent / "outside")

    return damage


def link_to_nowhere(name: str) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).unlink()
        (directory / name).symlink_to(directory / "nowhere")

    return damage


def renamed_family(directory: Path) -> None:
    (directory / "cosyvoice2.yaml").rename(directory / "cosyvoice3.yaml")
    (directory / "speech_tokenizer_v2.onnx").rename(directory / "speech_tokenizer_v3.onnx")


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


class Payload:
    """A pickle that makes a file where it is loaded."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


YAML = "cosyvoice2.yaml"
CONFIG = "CosyVoice-BlankEN/config.json"
G0 = "conv_pre" + G
V0 = "conv_pre" + V
SPEECH_TOKENIZER = "speech_tokenizer_v2.onnx"

DAMAGES: dict[str, tuple[Damage, str]] = {
    # the yaml
    "no yaml": (missing(YAML), "cosyvoice2.yaml, cosyvoice3.yaml, found none"),
    "yaml not UTF-8": (content(YAML, b"a: \xff"), YAML),
    "yaml broken": (content(YAML, b"a: [1"), YAML),
    "yaml empty": (content(YAML, b""), YAML),
    "yaml of aliases": (content(YAML, b"a: &a [1]\nb: [*a, *a]"), f"{YAML}: anchors and aliases"),
    "yaml too deep": (content(YAML, b"a: " + b"[" * 100_000), f"{YAML}: nested deeper"),
    "yaml too large": (content(YAML, b"#" * (2 << 20)), f"{YAML}: larger than"),
    "yaml that calls": (text("sample_rate: 24000", "x: !apply:os.system [ls]"), f"{YAML}:8: the tag"),
    "yaml of Python": (text("sample_rate: 24000", "x: !!python/object/apply:os.getcwd []"), f"{YAML}:8: the tag"),
    "yaml of an unknown class": (text("llm.llm.Qwen2LM", "llm.llm.Qwen3LM"), f"{YAML}:23: the tag"),
    "a field missing": (text("    speech_token_size: 6561\n", ""), "llm: speech_token_size is missing"),
    "a section missing": (text("hift: !new", "vocoder: !new"), f"{YAML}: top level: hift is missing"),
    "a field too many": (text("    lrelu_slope: 0.1", "    lrelu_slope: 0.1\n    surprise: 1"), "unknown: surprise"),
    "a word for a number": (text("base_channels: 32", "base_channels: many"), "base_channels is 'many'"),
    "a flag for a number": (text("base_channels: 32", "base_channels: True"), "base_channels is True"),
    "a list for a section": (text("cfm_params: !new:omegaconf.DictConfig", "cfm_params: [1]\n        x:"), YAML),
    "an absurd size": (text("vocab_size: 6561", f"vocab_size: {10**12}"), f"{YAML}: flow: vocab_size is 10000"),
    "a million layers": (text("num_blocks: 2", "num_blocks: 1000000"), "num_blocks is 1000000"),
    "a huge transform": (text("        n_fft: 16\n        hop_len: 4", "        n_fft: 4194304\n        hop_len: 1048576"), YAML),
    "a huge noise table": (text("sample_rate: 24000", "sample_rate: 1000000"), "sample_rate is 1000000"),
    "two sample rates": (text("sampling_rate: !ref <sample_rate>\n    nsf", "sampling_rate: 16000\n    nsf"), YAML),
    "a width that no stage halves": (text("base_channels: 32", "base_channels: 33"), "cannot be halved 3 times"),
    "another solver": (text("solver: 'euler'", "solver: 'heun'"), "solver is 'heun'; only 'euler' is supported"),
    "a circle of references": (text("token_mel_ratio: 2", "token_mel_ratio: !ref <token_mel_ratio>"), f"{YAML}: !ref"),
    "a reference to nothing": (text("!ref <chunk_size>", "!ref <chunk>"), f"{YAML}: !ref <chunk> names nothing"),
    "the yaml of another family": (renamed_family, "cosyvoice3.yaml: top level: llm is Qwen2LM; expected CosyVoice3LM"),
    "yaml a folder": (folder(YAML), f"{YAML}: not a regular file"),
    "yaml a pipe": (fifo(YAML), f"{YAML}: not a regular file"),
    "yaml elsewhere": (link_out(YAML), f"{YAML}: a link to"),
    # config.json
    "no config.json": (missing(CONFIG), f"{CONFIG}: missing"),
    "config.json broken": (content(CONFIG, b'{"hidden_size": '), f"{CONFIG}: not valid JSON"),
    "config.json a list": (content(CONFIG, b"[1]"), f"{CONFIG}: top level: expected named values"),
    "config.json too deep": (content(CONFIG, b"[" * 100_000), f"{CONFIG}: not valid JSON"),
    "config.json too large": (content(CONFIG, b" " * (2 << 20)), f"{CONFIG}: larger than"),
    "config.json without a field": (without_config_value("hidden_size"), f"{CONFIG}: top level: hidden_size is missing"),
    "config.json with half heads": (config_value("num_attention_heads", 3), f"{CONFIG}: top level: hidden_size 64"),
    "config.json of a million layers": (config_value("num_hidden_layers", 10**6), f"{CONFIG}: top level: num_hidden"),
    "config.json of another size": (config_value("hidden_size", 128), "llm.pt: "),
    # weights
    "llm.pt missing": (missing("llm.pt"), "llm.pt: missing"),
    "flow.pt a link to nowhere": (link_to_nowhere("flow.pt"), "flow.pt: missing"),
    "flow.pt elsewhere": (link_out("flow.pt"), "flow.pt: a link to"),
    "llm.pt a folder": (folder("llm.pt"), "llm.pt: not a regular file"),
    "llm.pt a pipe": (fifo("llm.pt"), "llm.pt: not a regular file"),
    "llm.safetensors a pipe": (fifo("llm.safetensors"), "llm.safetensors: not a regular file"),
    "llm.pt empty": (content("llm.pt", b""), "llm.pt: not a file of tensors"),
    "llm.pt cut short": (cut("llm.pt", 0.9), "llm.pt: not a file of tensors"),
    "flow.pt cut to its head": (cut("flow.pt", 0.01), "flow.pt: not a file of tensors"),
    "hift.pt a list": (lambda d: rewrite(d / "hift.pt", lambda all: [*all.values()]), "hift.pt: expected a mapping"),
    "hift.pt nested": (lambda d: rewrite(d / "hift.pt", lambda all: {"model": all}), "hift.pt: not a named dense tensor"),
    "a number for a tensor": (tensor("conv_pre.bias", lambda t: 1.0), "hift.pt: not a named dense tensor: 'conv_pre.bias'"),
    "a sparse tensor": (tensor("conv_pre.bias", Tensor.to_sparse), "hift.pt: not a named dense tensor"),
    "a tensor without values": (tensor(V0, lambda t: t.to("meta")), "hift.pt: not a named dense tensor"),
    "a huge tensor of one value": (tensor(V0, lambda t: t[0, 0, 0].expand(10**6, 10**6, 10**3)), "hift.pt: not a named dense"),
    "a tensor missing": (lambda d: rewrite(d / "flow.pt", _without("encoder_proj.bias")), "missing encoder_proj.bias (80,)"),
    "a tensor too many": (lambda d: rewrite(d / "flow.pt", lambda all: all | {"x": torch.zeros(1)}), "surplus x (1,)"),
    "a tensor misshapen": (tensor("encoder_proj.bias", lambda t: t[:9], "flow.pt"), "misshapen encoder_proj.bias (9,)"),
    "a tensor of integers": (tensor("encoder_proj.bias", Tensor.long, "flow.pt"), "wrong type encoder_proj.bias torch.int64"),
    "a direction of integers": (tensor(V0, Tensor.int), f"surplus {V0}"),
    "a direction of no dimension": (tensor(V0, lambda t: t[0, 0, 0].clone()), f"surplus {V0} ()"),
    "a magnitude too short": (tensor(G0, lambda t: t[1:].clone()), f"surplus {G0}"),
    "a magnitude alone": (lambda d: rewrite(d / "hift.pt", _without(V0)), f"surplus {G0}"),
    "a weight beside its pair": (lambda d: rewrite(d / "hift.pt", lambda all: all | {"conv_pre.weight": all[V0]}), f"surplus {G0}"),
    "a tensor twice": (
        lambda d: rewrite(d / "hift.pt", lambda all: all | {"generator.conv_pre.bias": all["conv_pre.bias"]}),
        "hift.pt: holds tensors both with and without the prefix",
    ),
    # what stands in front of the networks
    "vocab.json cut short": (cut("CosyVoice-BlankEN/vocab.json", 0.5), "vocab.json: not JSON"),
    "merges.txt cut short": (cut("CosyVoice-BlankEN/merges.txt", 0.5), "merges.txt: "),
    "tokenizer_config.json missing": (missing("CosyVoice-BlankEN/tokenizer_config.json"), "tokenizer_config.json"),
    "vocab.json a pipe": (fifo("CosyVoice-BlankEN/vocab.json"), "vocab.json: not a regular file"),
    "merges.txt elsewhere": (link_out("CosyVoice-BlankEN/merges.txt"), "merges.txt: a link to"),
    "an ONNX file of garbage": (content(SPEECH_TOKENIZER, b"\x00garbage" * 99), f"{SPEECH_TOKENIZER}: not a readable"),
    "an ONNX file cut short": (cut("campplus.onnx", 0.5), "campplus.onnx: not a readable ONNX file"),
    "an ONNX file missing": (missing("campplus.onnx"), "campplus.onnx: missing"),
    "ONNX files exchanged": (
        lambda d: (d / "campplus.onnx").write_bytes((d / SPEECH_TOKENIZER).read_bytes()) and None,
        "campplus.onnx: inputs are",
    ),
    "spk2info.pt of garbage": (content("spk2info.pt", b"garbage"), "spk2info.pt: not a file of tensors"),
    "spk2info.pt a pipe": (fifo("spk2info.pt"), "spk2info.pt: not a regular file"),
    "a speaker without values": (content("spk2info.pt", pickle.dumps({"a": {}})), "spk2info.pt"),
}
