"""Tensors of the Open Inference Protocol: their types, their bytes, their JSON."""

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from firstword.app.errors import InvalidRequest

MAX_ELEMENTS: Final = 2_000_000  # of one tensor: two minutes of 16 kHz, more than a recording may have

MAX_DIMS: Final = 8  # of a shape that is looked at
PART_ELEMENTS: Final = 32_768  # converted at once

DataType = Literal["FP32", "FP16", "INT32", "BOOL", "BYTES"]
Tensor = NDArray[Any]  # of BYTES: objects, each `bytes`

DTYPES: Final[Mapping[str, np.dtype[Any]]] = {
    "FP32": np.dtype("<f4"),
    "FP16": np.dtype("<f2"),
    "INT32": np.dtype("<i4"),
    "BOOL": np.dtype(np.bool_),
    "BYTES": np.dtype(np.object_),
}
CONTENTS: Final[Mapping[str, str]] = {
    "FP32": "fp32_contents",
    "INT32": "int_contents",
    "BOOL": "bool_contents",
    "BYTES": "bytes_contents",
}
"""Where a gRPC message has the values of a type; FP16 comes as raw bytes only."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """The name, type and shape of a tensor. dims: without the batch; -1 is any."""

    name: str
    datatype: DataType
    dims: tuple[int, ...]
    is_optional: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return (-1, *self.dims)


def checked_shape(spec: TensorSpec, datatype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an input that came. Raises InvalidRequest."""
    if len(shape) > MAX_DIMS:
        raise InvalidRequest(
            f"input `{spec.name}` has {len(shape)} dimensions; expected {1 + len(spec.dims)}", spec.name
        )
    came = f"{datatype[:16]} {list(shape)}"
    expected = [1, *spec.dims]
    fits = len(shape) == len(expected) and all(
        want in (-1, size) and size >= 0 for want, size in zip(expected, shape, strict=True)
    )
    if datatype != spec.datatype or not fits:
        raise InvalidRequest(
            f"input `{spec.name}` came as {came}; expected {spec.datatype} {expected}, one request a batch: "
            "the server batches by itself",
            spec.name,
        )
    if math.prod(shape) > MAX_ELEMENTS:  # not shown: a product may have more digits than Python prints
        raise InvalidRequest(
            f"input `{spec.name}` has too many elements; expected {MAX_ELEMENTS} at most", spec.name
        )
    return tuple(shape)


@dataclass(frozen=True, slots=True)
class SentTensor:
    """An input as it came. raw: its bytes; None: `values` has them, of JSON or of a gRPC message."""

    datatype: str
    shape: Sequence[int]
    raw: bytes | None = None
    values: Any = None

    def read(self, spec: TensorSpec) -> Tensor:
        """Raise InvalidRequest where it is not what the model takes."""
        shape = checked_shape(spec, self.datatype, self.shape)
        if self.raw is None:
            return from_values(spec, shape, self.values)
        return from_bytes(spec, shape, self.raw)


def from_bytes(spec: TensorSpec, shape: tuple[int, ...], raw: bytes) -> Tensor:
    """Raises InvalidRequest where the bytes are not those of the shape."""
    count = int(np.prod(shape))
    if spec.datatype == "BYTES":
        return np.array(_split_strings(spec, raw, count), dtype=object).reshape(shape)
    dtype = DTYPES[spec.datatype]
    if len(raw) != count * dtype.itemsize:
        raise InvalidRequest(
            f"input `{spec.name}` has {len(raw)} bytes; expected {count * dtype.itemsize} for {list(shape)}",
            spec.name,
        )
    return np.frombuffer(raw, dtype).reshape(shape)


def from_values(spec: TensorSpec, shape: tuple[int, ...], values: Any) -> Tensor:
    """values: of JSON or of a gRPC message, flat or nested. Raises InvalidRequest."""
    count = int(np.prod(shape))
    try:
        if spec.datatype == "BYTES":
            if isinstance(values, Sequence) and not isinstance(values, str | bytes):
                if len(values) > count:
                    raise ValueError(f"{len(values)} values; expected {count} for {list(shape)}")
                values = list(values)
            given = np.array(values, dtype=object).reshape(-1)
            texts = [value.encode() if isinstance(value, str) else value for value in given]
            if not all(isinstance(text, bytes) for text in texts):
                raise ValueError("expected strings")
            array = np.array(texts, dtype=object)
        else:
            array = np.concatenate([_numbers(spec, part) for part in _parts(values)])
        if array.size != count:
            raise ValueError(f"{array.size} values; expected {count} for {list(shape)}")
    except (ValueError, TypeError, OverflowError, UnicodeEncodeError) as error:
        raise InvalidRequest(f"input `{spec.name}`: {error}", spec.name) from None
    return array.reshape(shape)


def _numbers(spec: TensorSpec, values: Any) -> Tensor:
    given = np.array(values).reshape(-1)
    if given.dtype.kind not in "fiub":
        raise ValueError("expected numbers")
    return given.astype(DTYPES[spec.datatype])


def _parts(values: Any) -> Iterator[Any]:
    """Give long values in parts: while one is converted, no other thread runs."""
    if not isinstance(values, Sequence) or len(values) <= PART_ELEMENTS:
        yield values
        return
    for begin in range(0, len(values), PART_ELEMENTS):
        yield values[begin : begin + PART_ELEMENTS]


def to_bytes(datatype: str, array: Tensor) -> bytes:
    assert datatype != "BYTES", "no output is of strings"
    return np.ascontiguousarray(array, DTYPES[datatype]).tobytes()


def to_json(array: Tensor) -> list[bytes]:
    """Return a list of numbers in parts: while one is made, no other thread runs."""
    flat = array.reshape(-1)
    parts = [
        json.dumps(flat[begin : begin + PART_ELEMENTS].tolist())[1:-1].encode()
        for begin in range(0, flat.size, PART_ELEMENTS)
    ]
    between = [part for one in parts for part in (b", ", one)]
    return [b"[", *between[1:], b"]"]


def _split_strings(spec: TensorSpec, raw: bytes, count: int) -> list[bytes]:
    """Return strings that stand behind their lengths in 4 bytes."""
    texts: list[bytes] = []
    position = 0
    while position + 4 <= len(raw) and len(texts) < count:
        (size,) = struct.unpack_from("<I", raw, position)
        texts.append(raw[position + 4 : position + 4 + size])
        position += 4 + size
    if position != len(raw) or len(texts) != count:
        raise InvalidRequest(
            f"input `{spec.name}` is not {count} strings, each behind its length in 4 bytes", spec.name
        )
    return texts
