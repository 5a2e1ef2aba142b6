"""A registered speaker as one safetensors file, to be carried to another server of the same checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from app.engine.interface import InvalidRequest, SpeakerIncompatible, UploadTooLarge
from app.speakers.tensor_file import Tensors, pack, unpack

FORMAT = "firstword-speaker"
VERSION = "1"
RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Bundle:
    name: str
    transcript: str
    language: str | None
    fingerprint: str  # of the checkpoint that read the recording
    recording: bytes  # as uploaded
    features: Tensors


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
        },
    )


def read_bundle(content: bytes, max_bytes: int, fingerprint: str) -> Bundle:
    """Judges any bytes as a bundle; whether what it holds makes sense is for others to judge.

    Raises UploadTooLarge; InvalidRequest if it is none; SpeakerIncompatible if its fingerprint is another.
    """
    if len(content) > max_bytes:
        raise UploadTooLarge(f"a bundle of {len(content)} bytes; expected {max_bytes} at most")
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
    )


def invalid_bundle(reason: str) -> InvalidRequest:
    return InvalidRequest(f"not a speaker's bundle: {reason}; send what an export gave", param="bundle")


def _entry(metadata: Mapping[str, str], name: str) -> str:
    if name not in metadata:
        raise invalid_bundle(f"its metadata lacks {name}")
    return metadata[name]
