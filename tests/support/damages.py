"""Ways to damage a model directory, and what the error says then."""

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor

Damage = Callable[[Path], None]
Tensors = dict[str, Any]

YAML = "cosyvoice2.yaml"
CONFIG = "CosyVoice-BlankEN/config.json"
SPEECH_TOKENIZER = "speech_tokenizer_v2.onnx"
G, V = ".parametrizations.weight.original0", ".parametrizations.weight.original1"
G0, V0 = f"conv_pre{G}", f"conv_pre{V}"


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


def replaced(old: str, new: str, name: str = "cosyvoice2.yaml") -> Damage:
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
    return replaced(f'"{name}"', '"another"', "CosyVoice-BlankEN/config.json")


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


def without(name: str, file: str = "hift.pt") -> Damage:
    return lambda directory: rewrite(
        directory / file, lambda all: {key: value for key, value in all.items() if key != name}
    )


def surplus(name: str, value: Callable[[Tensors], Any], file: str = "hift.pt") -> Damage:
    return lambda directory: rewrite(directory / file, lambda all: all | {name: value(all)})


def exchanged_onnx(directory: Path) -> None:
    (directory / "campplus.onnx").write_bytes((directory / SPEECH_TOKENIZER).read_bytes())


def external_data(location: str, name: str = "campplus.onnx") -> Damage:
    """Its first weight lies in another file."""

    def damage(directory: Path) -> None:
        model = onnx.load(directory / name)
        weight = model.graph.initializer[0]
        weight.ClearField("raw_data")
        weight.ClearField("float_data")
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.external_data.add(key="location", value=location)
        onnx.save(model, directory / name)

    return damage


def impossible_shape(directory: Path) -> None:
    """A safetensors file of eight bytes that tells of many more."""
    head = json.dumps({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}).encode()
    _write(directory / "flow.safetensors", struct.pack("<Q", len(head)) + head + bytes(8))


def _with_a_huge_mel(table: Tensors) -> Tensors:
    speaker = table["random-prompt"] | {"prompt_speech_feat": torch.zeros(1).expand(1, 10**11, 80)}
    return table | {"random-prompt": speaker}


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


DAMAGES: dict[str, tuple[Damage, str]] = {
    # the yaml
    "no yaml": (missing(YAML), "cosyvoice2.yaml, cosyvoice3.yaml, found none"),
    "yaml not UTF-8": (content(YAML, b"a: \xff"), YAML),
    "yaml broken": (content(YAML, b"a: [1"), YAML),
    "yaml empty": (content(YAML, b""), YAML),
    "yaml of aliases": (content(YAML, b"a: &a [1]\nb: [*a, *a]"), f"{YAML}: anchors and aliases"),
    "yaml too deep": (content(YAML, b"a: " + b"[" * 100_000), f"{YAML}: nested deeper"),
    "yaml too large": (content(YAML, b"#" * (2 << 20)), f"{YAML}: larger than"),
    "yaml that calls": (replaced("sample_rate: 24000", "x: !apply:os.system [ls]"), f"{YAML}:8: the tag"),
    "yaml of Python": (
        replaced("sample_rate: 24000", "x: !!python/object/apply:os.getcwd []"),
        f"{YAML}:8: the tag",
    ),
    "yaml of an unknown class": (replaced("llm.llm.Qwen2LM", "llm.llm.Qwen3LM"), f"{YAML}:20: the tag"),
    "a field missing": (replaced("    speech_token_size: 6561\n", ""), "llm: speech_token_size is missing"),
    "a section missing": (replaced("hift: !new", "vocoder: !new"), f"{YAML}: top level: hift is missing"),
    "a field too many": (
        replaced("    lrelu_slope: 0.1", "    lrelu_slope: 0.1\n    surprise: 1"),
        "unknown: surprise",
    ),
    "a word for a number": (replaced("base_channels: 32", "base_channels: many"), "base_channels is 'many'"),
    "a flag for a number": (replaced("base_channels: 32", "base_channels: True"), "base_channels is True"),
    "a list for a section": (
        replaced("cfm_params: !new:omegaconf.DictConfig", "cfm_params: [1]\n        x:"),
        YAML,
    ),
    "an absurd size": (
        replaced("vocab_size: 6561", f"vocab_size: {10**12}"),
        f"{YAML}: top level.flow: vocab_size is 1000000000000",
    ),
    "a million layers": (replaced("num_blocks: 2", "num_blocks: 1000000"), "num_blocks is 1000000"),
    "a huge transform": (
        replaced("        n_fft: 16\n        hop_len: 4", "        n_fft: 4194304\n        hop_len: 1048576"),
        YAML,
    ),
    "a huge noise table": (replaced("sample_rate: 24000", "sample_rate: 1000000"), "sample_rate is 1000000"),
    "two sample rates": (
        replaced("sampling_rate: !ref <sample_rate>\n    nsf", "sampling_rate: 16000\n    nsf"),
        YAML,
    ),
    "a width that no stage halves": (
        replaced("base_channels: 32", "base_channels: 33"),
        "cannot be halved 3 times",
    ),
    "another solver": (
        replaced("solver: 'euler'", "solver: 'heun'"),
        "solver is 'heun'; only 'euler' is supported",
    ),
    "a circle of references": (
        replaced("token_mel_ratio: 2", "token_mel_ratio: !ref <token_mel_ratio>"),
        f"{YAML}: !ref",
    ),
    "a reference to nothing": (
        replaced("!ref <chunk_size>", "!ref <chunk>"),
        f"{YAML}: !ref <chunk> names nothing",
    ),
    "the yaml of another family": (
        renamed_family,
        "cosyvoice3.yaml: top level: llm is 'Qwen2LM'; expected CosyVoice3LM",
    ),
    "yaml a folder": (folder(YAML), f"{YAML}: not a regular file"),
    "yaml a pipe": (fifo(YAML), f"{YAML}: not a regular file"),
    "yaml elsewhere": (link_out(YAML), f"{YAML}: a link to"),
    # config.json
    "no config.json": (missing(CONFIG), f"{CONFIG}: missing"),
    "config.json broken": (content(CONFIG, b'{"hidden_size": '), f"{CONFIG}: not valid JSON"),
    "config.json a list": (content(CONFIG, b"[1]"), f"{CONFIG}: top level: expected named values"),
    "config.json too deep": (content(CONFIG, b"[" * 100_000), f"{CONFIG}: not valid JSON"),
    "config.json too large": (content(CONFIG, b" " * (2 << 20)), f"{CONFIG}: larger than"),
    "config.json without a field": (
        without_config_value("hidden_size"),
        f"{CONFIG}: top level: hidden_size is missing",
    ),
    "config.json with half heads": (
        config_value("num_attention_heads", 3),
        f"{CONFIG}: top level: hidden_size 128",
    ),
    "config.json of a million layers": (
        config_value("num_hidden_layers", 10**6),
        f"{CONFIG}: top level: num_hidden",
    ),
    "config.json of another size": (config_value("hidden_size", 64), "llm.pt: "),
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
    "hift.pt a list": (
        lambda d: rewrite(d / "hift.pt", lambda all: [*all.values()]),
        "hift.pt: expected a mapping",
    ),
    "hift.pt nested": (
        lambda d: rewrite(d / "hift.pt", lambda all: {"model": all}),
        "hift.pt: not a named dense tensor",
    ),
    "a number for a tensor": (
        tensor("conv_pre.bias", lambda t: 1.0),
        "hift.pt: not a named dense tensor: 'conv_pre.bias'",
    ),
    "a sparse tensor": (tensor("conv_pre.bias", Tensor.to_sparse), "hift.pt: not a file of tensors"),
    "a tensor without values": (tensor(V0, lambda t: t.to("meta")), "hift.pt: not a file of tensors"),
    "a huge tensor of one value": (
        tensor(V0, lambda t: t[0, 0, 0].expand(10**6, 10**6, 10**3)),
        "hift.pt: not a named dense",
    ),
    "a tensor missing": (without("encoder_proj.bias", "flow.pt"), "missing encoder_proj.bias (80,)"),
    "a tensor too many": (surplus("x", lambda all: torch.zeros(1), "flow.pt"), "surplus x (1,)"),
    "a tensor misshapen": (
        tensor("encoder_proj.bias", lambda t: t[:9], "flow.pt"),
        "misshapen encoder_proj.bias (9,)",
    ),
    "a tensor of integers": (
        tensor("encoder_proj.bias", Tensor.long, "flow.pt"),
        "wrong type encoder_proj.bias torch.int64",
    ),
    "a direction of integers": (tensor(V0, Tensor.int), f"surplus {V0}"),
    "a direction of no dimension": (tensor(V0, lambda t: t[0, 0, 0].clone()), f"surplus {V0} ()"),
    "a magnitude too short": (tensor(G0, lambda t: t[1:].clone()), f"surplus {G0}"),
    "a magnitude alone": (without(V0), f"surplus {G0}"),
    "a weight beside its pair": (surplus("conv_pre.weight", lambda all: all[V0]), f"surplus {G0}"),
    "a tensor twice": (
        surplus("generator.conv_pre.bias", lambda all: all["conv_pre.bias"]),
        "hift.pt: holds tensors both with and without the prefix",
    ),
    "a safetensors file of an impossible shape": (impossible_shape, "flow.safetensors: cannot be read"),
    # what stands in front of the networks
    "vocab.json cut short": (cut("CosyVoice-BlankEN/vocab.json", 0.5), "vocab.json: not JSON"),
    "merges.txt cut short": (cut("CosyVoice-BlankEN/merges.txt", 0.5), "merges.txt: "),
    "tokenizer_config.json missing": (
        missing("CosyVoice-BlankEN/tokenizer_config.json"),
        "tokenizer_config.json",
    ),
    "vocab.json too deep": (content("CosyVoice-BlankEN/vocab.json", b"[" * 100_000), "vocab.json: not JSON"),
    "tokenizer_config.json too deep": (
        content("CosyVoice-BlankEN/tokenizer_config.json", b"[" * 100_000),
        "tokenizer_config.json: not JSON",
    ),
    "vocab.json a pipe": (fifo("CosyVoice-BlankEN/vocab.json"), "vocab.json: not a regular file"),
    "merges.txt elsewhere": (link_out("CosyVoice-BlankEN/merges.txt"), "merges.txt: a link to"),
    "an ONNX file of garbage": (
        content(SPEECH_TOKENIZER, b"\x00garbage" * 99),
        f"{SPEECH_TOKENIZER}: not a readable",
    ),
    "an ONNX file cut short": (cut("campplus.onnx", 0.5), "campplus.onnx: not a readable ONNX file"),
    "an ONNX file missing": (missing("campplus.onnx"), "campplus.onnx: missing"),
    "ONNX with weights of another file": (
        external_data("/etc/passwd"),
        "campplus.onnx: not a readable ONNX file",
    ),
    "ONNX with weights beside the directory": (
        external_data("../outside"),
        "campplus.onnx: not a readable ONNX file",
    ),
    "ONNX files exchanged": (exchanged_onnx, "campplus.onnx: inputs are"),
    "spk2info.pt of garbage": (content("spk2info.pt", b"garbage"), "spk2info.pt: not a file of tensors"),
    "spk2info.pt a pipe": (fifo("spk2info.pt"), "spk2info.pt: not a regular file"),
    "a speaker without values": (content("spk2info.pt", pickle.dumps({"a": {}})), "spk2info.pt"),
    "a speaker of one huge value": (
        lambda d: rewrite(d / "spk2info.pt", _with_a_huge_mel),
        "spk2info.pt: speaker 'random-prompt', field prompt_speech_feat: not a dense tensor",
    ),
}
