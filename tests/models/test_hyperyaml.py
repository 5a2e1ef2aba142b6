"""A checkpoint's yaml is data: what is not of a published file is refused, at once and by name."""

import time
from pathlib import Path

import pytest

from firstword.models.checkpoint import yaml as hyperyaml
from firstword.models.checkpoint.yaml import HyperYaml, Reference, Tagged
from firstword.models.config import CheckpointError

MAX_SECONDS = 20.0  # a fraction of one when nothing else runs

MALFORMED = {
    "unclosed bracket": "a: [1, 2",
    "a tab": "\ta: 1",
    "a control character": "a: \x07",
    "no mapping": "- 1\n- 2",
    "nothing": "",
    "two documents": "a: 1\n---\nb: 2",
    "a key twice": "a: 1\na: 2",
    "a list as key": "? [a]\n: 1",
    "a number as key": "1: a",
    "a merge key": "<<: {a: 1}",
    "an escape beyond Unicode": 'a: "\\U00110000"',
    "an escape beyond 31 bits": 'a: "\\UFFFFFFFF"',
    "a version of many digits": f"%YAML 1.{'1' * 5000}\n---\na: 1",
    "an empty float": 'a: !!float ""',
    "an empty integer": 'a: !!int ""',
    "a sign alone": 'a: !!int "-"',
    "a word as flag": "a: !!bool perhaps",
    "a timestamp": "a: 2020-01-01",
}
FORBIDDEN_TAGS = {
    "a call": "a: !apply:os.system [touch x]",
    "a call of a network": "a: !apply:os.path.join {}",
    "a class": "a: !new:subprocess.Popen {args: [ls]}",
    "an unknown class of CosyVoice": "a: !new:cosyvoice.llm.llm.OtherLM {}",
    "a name": "a: !name:builtins.eval",
    "a module": "a: !module:os",
    "an inclusion": "a: !include:/etc/passwd",
    "a copy": "a: !copy <b>",
    "a tuple": "a: !tuple [1, 2]",
    "a python object": "a: !!python/object/apply:os.system [touch x]",
    "a python name": "a: !!python/name:os.system ''",
    "a python object, written out": "a: !<tag:yaml.org,2002:python/object/apply:os.system> [x]",
    "deep inside": "a: {b: [{c: !apply:os.system [x]}]}",
    "a set": "a: !!set {b}",
    "binary data": "a: !!binary aGVsbG8=",
    "a reference to a list": "a: !ref [b]",
}
BOMBS = {
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]",
    "an anchor": "a: &a 1",
    "depth in brackets": "a: " + "[" * 100_000,
    "depth in lines": "\n".join(" " * depth + "a:" for depth in range(1000)),
    "many nodes": "a:\n" + "- 1\n" * 200_000,
    "size": "a: " + "x" * (2 << 20),
    "a number in base 60": "a: 1" + ":1" * 500_000,
    "a float in base 60": "a: 1" + ":1" * 500 + ".0",
    "an integer of many digits": "a: " + "9" * 900_000,
}


def read(directory: Path, text: str) -> HyperYaml:
    path = directory / "cosyvoice2.yaml"
    path.write_text(text, encoding="utf-8")
    return hyperyaml.read(path)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in MALFORMED.items()])
def test_what_is_not_yaml_of_a_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml"):
        read(tmp_path, text)


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in FORBIDDEN_TAGS.items()])
def test_a_tag_outside_the_table_is_refused_and_its_line_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml:2: the tag .* is not"):
        read(tmp_path, f"first: 1\n{text}")

    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in BOMBS.items()])
def test_a_file_that_would_take_long_is_refused_soon(tmp_path: Path, text: str) -> None:
    start = time.perf_counter()

    with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml"):
        read(tmp_path, text)

    assert time.perf_counter() - start < MAX_SECONDS


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "cosyvoice2.yaml"
    for content in ("a: ä".encode("latin-1"), "a: 1".encode("utf-16"), b"a: \xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml: not valid YAML"):
            hyperyaml.read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml: cannot be read: No such file"):
        hyperyaml.read(tmp_path / "cosyvoice2.yaml")


def test_known_tags_become_data(tmp_path: Path) -> None:
    values = read(
        tmp_path,
        """
__set_seed1: !apply:random.seed [1986]
mel: !name:matcha.utils.audio.mel_spectrogram
    fmax: null
llm: !new:cosyvoice.llm.llm.Qwen2LM
    sampling: !name:cosyvoice.utils.common.ras_sampling
        top_p: 0.8
opener: !name:cosyvoice.dataset.processor.parquet_opener
pipeline: [!ref <opener>, !ref <mel>]
""",
    ).values

    sampling = Tagged("name", "cosyvoice.utils.common.ras_sampling", {"top_p": 0.8})
    assert values == {
        "__set_seed1": Tagged("apply", "random.seed", [1986]),
        "mel": Tagged("name", "matcha.utils.audio.mel_spectrogram", {"fmax": None}),
        "llm": Tagged("new", "cosyvoice.llm.llm.Qwen2LM", {"sampling": sampling}),
        "opener": Tagged("name", "cosyvoice.dataset.processor.parquet_opener", {}),
        "pipeline": [Reference("<opener>"), Reference("<mel>")],
    }


def test_plain_values_are_read_as_yaml_reads_them(tmp_path: Path) -> None:
    values = read(
        tmp_path, "a: 1\nb: 0.5\nc: True\nd: ''\ne: null\nf: [1, [2, x]]\ng: {h: -1}\ni: 1e-06\n"
    ).values

    assert values == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": "",
        "e": None,
        "f": [1, [2, "x"]],
        "g": {"h": -1},
        "i": "1e-06",  # YAML 1.1 wants a dot; `Fields.number` takes it
    }


def test_references_are_followed_and_multiplied(tmp_path: Path) -> None:
    file = read(tmp_path, "a: 25\nb: !ref <a>\nc: !ref <b> * <two>\ntwo: 2\nd: !ref <e>\ne: [1]\n")

    assert [file.resolve(file.values[name]) for name in "abcd"] == [25, 25, 50, [1]]


@pytest.mark.parametrize(
    "text",
    [
        "a: !ref <a>",
        "a: !ref <b>\nb: !ref <a>",
        "a: !ref <a> * <a>",
        "a: !ref <nothing>",
        "a: !ref b\nb: 1",
        "a: !ref <b> + <b>\nb: 1",
        "a: !ref <b[0]>\nb: [1]",
        "a: !ref <b> * <b>\nb: x",
        "a: !ref <b> * <b>\nb: 9999999999",
        "a: !ref ''",
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(tmp_path: Path, text: str) -> None:
    file = read(tmp_path, text)

    with pytest.raises(CheckpointError, match=r"cosyvoice2\.yaml: !ref"):
        file.resolve(file.values["a"])


def test_products_of_products_take_no_time(tmp_path: Path) -> None:
    powers = [f"a{i}: !ref " + " * ".join([f"<a{i - 1}>"] * 100) for i in range(1, 8)]
    file = read(tmp_path, "\n".join(["a0: 1", *powers]))
    start = time.perf_counter()

    with pytest.raises(CheckpointError, match="cannot be followed"):
        file.resolve(file.values["a7"])

    assert time.perf_counter() - start < MAX_SECONDS
