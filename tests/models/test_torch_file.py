"""A `.pt` is read only if it is what torch.save writes for tensors; nothing else may cost memory."""

import pickle
import resource
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from firstword.models.checkpoint.weights import (
    TorchFileError,
    fold_weight_norm,
    read_tensors,
    read_torch_file,
)
from firstword.models.config import CheckpointError

MAX_GROWTH_KIB = 64 << 10
CALL = pickle.MARK + pickle.TUPLE + pickle.REDUCE  # of what stands below with no arguments
CONTENT = {"a.weight": torch.arange(6.0).view(2, 3), "b": torch.ones(3, dtype=torch.int64)}


def pickled(*parts: bytes) -> bytes:
    return b"".join([pickle.PROTO + b"\x02", *parts, pickle.STOP])


def of_global(module: str, name: str) -> bytes:
    return pickle.GLOBAL + f"{module}\n{name}\n".encode()


def number(value: int) -> bytes:
    return pickle.LONG1 + bytes([8]) + value.to_bytes(8, "little")


def repack(
    path: Path, data: bytes | None = None, compression: int = zipfile.ZIP_STORED, twice: bool = False
) -> None:
    """Writes the archive at `path` anew, with another pickle in it."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in entries.items():
            is_pickle = name.endswith("/data.pkl")
            archive.writestr(name, data if is_pickle and data is not None else content)
            if is_pickle and twice:
                archive.writestr(name.replace("data.pkl", "DATA.PKL"), content)


def assert_refused(path: Path, message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TorchFileError, match=message) as caught:
        read_torch_file(path)
    assert str(caught.value).startswith(f"{path}: not a file of tensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_GROWTH_KIB


@pytest.fixture
def path(tmp_path: Path) -> Path:
    torch.save(CONTENT, tmp_path / "x.pt")
    return tmp_path / "x.pt"


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 3)).state_dict(),
        lambda: dict(nn.Linear(2, 3).named_parameters()),
        lambda: {"a": torch.ones(2).half(), "b": torch.ones(2).bfloat16(), "c": torch.zeros(()).double()},
        lambda: {"epoch": 3, "step": 1 << 40, "loss": 0.5, "done": True, "x": None, "l": [(1, 2), "text"]},
        lambda: {"speaker": {"embedding": torch.ones(1, 192), "tokens": torch.ones(1, 3, dtype=torch.int32)}},
        lambda: OrderedDict(tied=CONTENT["b"], again=CONTENT["b"], view=CONTENT["a.weight"].T),
        lambda: {f"layer.{index}": torch.ones(1) for index in range(1100)},  # pickled in two parts
    ],
)
def test_what_torch_save_writes_is_read(path: Path, make: Callable[[], Any]) -> None:
    torch.save(make(), path)

    assert str(read_torch_file(path)) == str(torch.load(path, weights_only=True))


BOMBS = {
    "a byte array": (
        pickled(of_global("builtins", "bytearray"), number(600 << 20), pickle.TUPLE1, pickle.REDUCE),
        r"asks for builtins\.bytearray",
    ),
    "a storage of its own": (
        pickled(of_global("torch", "FloatStorage"), pickle.EMPTY_TUPLE, pickle.REDUCE),
        r"calls torch\.FloatStorage",
    ),
    "copies of a list": (
        pickled(of_global("collections", "OrderedDict"), pickle.EMPTY_LIST, pickle.TUPLE1, pickle.REDUCE),
        r"calls collections\.OrderedDict",
    ),
    "a call of what is hidden in the memo": (
        pickled(pickle.EMPTY_DICT, pickle.BINPUT + b"\0", pickle.BINGET + b"\0", CALL),
        "calls",
    ),
    "copies of attributes": (
        pickled(
            *(pickle.EMPTY_DICT, pickle.BINPUT + b"\0"),
            *(of_global("collections", "OrderedDict"), pickle.EMPTY_TUPLE, pickle.REDUCE),
            *(pickle.BINGET + b"\0", pickle.BUILD),
        ),
        "sets attributes",
    ),
    "attributes of a tensor": (
        pickled(pickle.NONE, pickle.EMPTY_DICT, pickle.BUILD),
        "sets attributes",
    ),
    "a deep key": (
        pickled(pickle.EMPTY_DICT, pickle.NONE, pickle.TUPLE1 * 100_000, pickle.NONE, pickle.SETITEM),
        "has a key that",
    ),
    "a long tuple": (pickled(pickle.MARK, pickle.NONE * 1000, pickle.TUPLE), "a tuple of 1000 entries"),
    "many operations": (pickled(pickle.MARK, pickle.EMPTY_DICT * (2 << 20)), "more than 1048576 operations"),
    "a long text": (pickled(pickle.BINUNICODE, b"\xff\xff\xff\x7f"), "unicodestring4"),
    "an operation of Python's": (pickled(pickle.BINUNICODE8), "."),
    "a set": (pickled(pickle.EMPTY_SET), "uses EMPTY_SET"),
    "a new object": (
        pickled(of_global("collections", "OrderedDict"), pickle.EMPTY_TUPLE, pickle.NEWOBJ),
        "uses NEWOBJ",
    ),
    "nothing on the stack": (pickled(pickle.TUPLE2), "takes what it has not put"),
    "nothing in the memo": (pickled(pickle.BINGET + b"\0"), "takes what it has not put"),
    "no mark": (pickled(pickle.TUPLE), "takes what it has not put"),
    "nothing": (b"", "."),
    "too long": (b"x" * (17 << 20), "data.pkl has 17825792 bytes"),
}


@pytest.mark.parametrize(
    ("data", "message"), [pytest.param(*value, id=name) for name, value in BOMBS.items()]
)
def test_a_pickle_of_anything_else_is_refused_and_takes_no_memory(
    path: Path, data: bytes, message: str
) -> None:
    repack(path, data)

    assert_refused(path, message)


def test_a_tensor_larger_than_its_file_is_refused(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        data = archive.read("x/data.pkl")
    length, sizes = b"K\x06", b"K\x02K\x03\x86"
    assert (data.count(length), data.count(sizes)) == (1, 1)
    huge = pickle.BININT + (1 << 28).to_bytes(4, "little")
    repack(path, data.replace(length, huge).replace(sizes, huge + b"K\x03\x86"))

    assert_refused(path, "resiz")


def test_a_packed_file_is_refused(path: Path) -> None:
    torch.save({"a": torch.zeros(80 << 18)}, path)  # more than may grow
    repack(path, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 1 << 20

    assert_refused(path, "is compressed, which torch.save never does")


def test_two_pickles_in_one_file_are_refused(path: Path) -> None:
    repack(path, twice=True)

    assert_refused(path, "entries of one name")


def test_something_in_front_of_the_archive_is_refused(path: Path) -> None:
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())

    assert_refused(path, "something around it")


def test_the_format_before_pytorch_1_6_is_refused_with_what_to_do(path: Path) -> None:
    torch.save(CONTENT, path, _use_new_zipfile_serialization=False)

    assert_refused(path, "older than PyTorch 1.6: load it there with a newer PyTorch and save it again")


def test_many_tensors_of_one_memory_are_refused(path: Path) -> None:
    shared = torch.zeros(1 << 20)
    torch.save({f"x{index}": shared for index in range(300)}, path)

    with pytest.raises(CheckpointError, match=r"x\.pt: 1258291200 bytes of tensors in a file of .*share"):
        read_tensors(path)


def test_only_the_pairs_that_the_network_has_are_folded() -> None:
    def pair(name: str) -> dict[str, Tensor]:
        stem = f"{name}.parametrizations.weight.original"
        return {f"{stem}0": torch.ones(2, 1), f"{stem}1": torch.ones(2, 3)}

    tensors = pair("known") | pair("surplus") | pair("misshapen")
    expected = {"known.weight": torch.Size([2, 3]), "misshapen.weight": torch.Size([2, 4])}

    folded = fold_weight_norm(tensors, expected)

    assert set(folded) == {"known.weight", *pair("surplus"), *pair("misshapen")}


def test_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TorchFileError, match=r"none\.pt: "):
        read_torch_file(tmp_path / "none.pt")
