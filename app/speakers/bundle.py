"""Speakers' bundle files, and the safetensors files that features are kept in.

A bundle is one safetensors file with a speaker, for another server of the same checkpoint.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from firstword.app.errors import InvalidRequest, SpeakerIncompatible

Tensors = Mapping[str, NDArray[np.generic]]

DTYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1")}
HEADER_SIZE_BYTES = 8  # little-endian length of the JSON header that follows

FORMAT = "firstword-speaker"
VERSION = "1"
RECORDING = "recording"
MAX_REASON_CHARS = 200  # of an error about a bundle


@dataclass(frozen=True, slots=True)
class Bundle:
    name: str
    transcript: str
    language: str | None
    fingerprint: str  # of the checkpoint that read the recording
    recording: bytes  # as uploaded
    features: Tensors
    lexicon: str = "{}"  # JSON; releases that know none leave it out


def write_bundle(bundle: Bundle) -> bytes:
    recording = np.frombuffer(bundle.recording, np.uint8)
    return pack(
        {**bundle.features, RECORDING: recording},
        {
            "format": FORMAT,
            "version": VERSION,
            "name": bundle.name,
            "transcript": bundle.transcript,
            "language": bundle.language or "",
            "fingerprint": bundle.fingerprint,
            "lexicon": bundle.lexicon,
        },
    )


def read_bundle(content: bytes, fingerprint: str) -> Bundle:
    """Check any bytes to be a bundle; whether its contents make sense, and how large it may be, is for the
    caller to check.

    Raises InvalidRequest if it is none; SpeakerIncompatible if its fingerprint is another.
    """
    try:
        tensors, metadata = unpack(content)
    except ValueError as error:
        raise invalid_bundle(str(error)) from error
    if metadata.get("format") != FORMAT:
        raise invalid_bundle("a safetensors file, but not one that an export gave")
    if metadata.get("version") != VERSION:
        raise invalid_bundle(f"version {metadata.get('version')!a}; this release reads version {VERSION}")
    made_with = _entry(metadata, "fingerprint")
    if made_with != fingerprint:
        raise SpeakerIncompatible(
            f"the bundle was made with the checkpoint {made_with[:32]!a}, this server runs {fingerprint!r}; "
            "register the speaker's recording here instead"
        )
    recording = tensors.pop(RECORDING, None)
    if recording is None or recording.dtype != np.uint8 or recording.ndim != 1 or not recording.size:
        raise invalid_bundle(f"no tensor {RECORDING} of bytes in it")
    return Bundle(
        name=_entry(metadata, "name"),
        transcript=_entry(metadata, "transcript"),
        language=_entry(metadata, "language") or None,
        fingerprint=made_with,
        recording=recording.tobytes(),
        features=tensors,
        lexicon=metadata.get("lexicon", "{}"),
    )


def invalid_bundle(reason: str) -> InvalidRequest:
    """reason: cut where it repeats too much of what came."""
    shown = reason if len(reason) <= MAX_REASON_CHARS else f"{reason[:MAX_REASON_CHARS]}…"
    return InvalidRequest(f"not a speaker's bundle: {shown}; send what an export gave", param="bundle")


def _entry(metadata: Mapping[str, str], name: str) -> str:
    if name not in metadata:
        raise invalid_bundle(f"its metadata lacks {name}")
    return metadata[name]


def pack(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> bytes:
    """tensors: float32, int64 or uint8, contiguous."""
    content: bytes = save(dict(tensors), dict(metadata or {}))
    return content


def unpack(content: bytes) -> tuple[dict[str, NDArray[np.generic]], dict[str, str]]:
    """Return the arrays, writable and with their own memory, and the metadata.

    Raises ValueError for bytes that are no safetensors file, or hold another type than those above.
    """
    try:
        entries = deserialize(content)  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ValueError(f"not a safetensors file: {error}") from error
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, entry in entries:
        dtype = DTYPES.get(str(entry["dtype"]))
        if dtype is None:
            raise ValueError(f"tensor {name!r} is of type {entry['dtype']}; expected {', '.join(DTYPES)}")
        arrays[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    length = int.from_bytes(content[:HEADER_SIZE_BYTES], "little")
    header = json.loads(content[HEADER_SIZE_BYTES : HEADER_SIZE_BYTES + length])
    return arrays, header.get("__metadata__") or {}  # `deserialize` has checked that it holds texts
