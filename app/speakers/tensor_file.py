"""Named arrays to the bytes of a safetensors file and back; any bytes may be given, nothing is executed."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

Tensors = Mapping[str, NDArray[np.generic]]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}
HEADER_SIZE_BYTES = 8  # little-endian length of the JSON header that follows


def pack(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """tensors: float32, int64 or uint8, contiguous."""
    content: bytes = save(dict(tensors), dict(metadata or {}))
    return content


def unpack(content: bytes) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """-> the arrays, writable and their own memory, and the metadata.

    Raises ValueError for bytes that are no safetensors file, or hold another type than those above.
    """
    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"not a safetensors file: {error}") from error
    return {name: _array(name, entry) for name, entry in entries}, _metadata(content)


def _array(name: str, entry: Mapping[str, Any]) -> NDArray[np.generic]:
    dtype = DTYPES.get(str(entry["dtype"]))
    if dtype is None:
        raise ValueError(f"tensor {name!r} is of type {entry['dtype']}; expected {', '.join(DTYPES)}")
    array: NDArray[np.generic] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    return array


def _metadata(content: bytes) -> dict[str, str]:
    """Of a file that `deserialize` has checked: it lets strings only through."""
    length = int.from_bytes(content[:HEADER_SIZE_BYTES], "little")
    header = json.loads(content[HEADER_SIZE_BYTES : HEADER_SIZE_BYTES + length])
    metadata: dict[str, str] = header.get("__metadata__") or {}
    return metadata
