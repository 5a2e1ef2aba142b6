import json

import numpy as np
import pytest
from safetensors.numpy import save

from firstword.app.errors import InvalidRequest, SpeakerIncompatible
from firstword.app.speakers.bundle import Bundle, pack, read_bundle, unpack, write_bundle
from firstword.app.speakers.interface import max_bundle_bytes

FINGERPRINT = "checkpoint-1"
FEATURES = {
    "prompt_tokens": np.arange(7),
    "prompt_mel": np.linspace(-5, 2, 14 * 80, dtype=np.float32).reshape(14, 80),
    "embedding": np.ones(192, np.float32),
}
BUNDLE = Bundle("mia", "Grüße, 你好 👋", "de", FINGERPRINT, b"RIFF and so on", FEATURES)
CONTENT = write_bundle(BUNDLE)


def read(content: bytes) -> Bundle:
    return read_bundle(content, FINGERPRINT)


def rebuilt(
    metadata: dict[str, str | None] | None = None, tensors: dict[str, np.ndarray | None] | None = None
) -> bytes:
    """The bundle with entries changed, or left out where None."""
    old_tensors, old_metadata = unpack(CONTENT)
    new_tensors = {**old_tensors, **(tensors or {})}
    new_metadata = {**old_metadata, **(metadata or {})}
    return pack(
        {name: value for name, value in new_tensors.items() if value is not None},
        {name: value for name, value in new_metadata.items() if value is not None},
    )


def test_a_bundle_comes_back_as_it_was() -> None:
    bundle = read(CONTENT)

    assert (bundle.name, bundle.transcript, bundle.language) == ("mia", "Grüße, 你好 👋", "de")
    assert (bundle.fingerprint, bundle.recording) == (FINGERPRINT, b"RIFF and so on")
    assert bundle.features.keys() == FEATURES.keys()
    for name, value in FEATURES.items():
        assert bundle.features[name].dtype == value.dtype
        np.testing.assert_array_equal(bundle.features[name], value)


def test_a_bundle_of_the_longest_recording_that_may_be_uploaded_can_be_imported() -> None:
    max_recording_bytes = 1 << 20
    features = {
        "prompt_tokens": np.zeros(30 * 25, np.int64),
        "prompt_mel": np.zeros((30 * 50, 80), np.float32),
        "embedding": np.zeros(192, np.float32),
    }
    transcript = "\U0001f44b" * 1000
    bundle = Bundle("x" * 64, transcript, "de", FINGERPRINT, bytes(max_recording_bytes), features)
    assert len(write_bundle(bundle)) <= max_bundle_bytes(max_recording_bytes)


def test_no_language_stays_none() -> None:
    assert read(rebuilt({"language": ""})).language is None


def test_other_programs_can_read_it() -> None:
    length = int.from_bytes(CONTENT[:8], "little")
    header = json.loads(CONTENT[8 : 8 + length])

    assert header["recording"] == {
        "dtype": "U8",
        "shape": [14],
        "data_offsets": header["recording"]["data_offsets"],
    }
    assert header["__metadata__"]["name"] == "mia"


def test_a_bundle_of_another_checkpoint_is_refused() -> None:
    with pytest.raises(SpeakerIncompatible, match="made with the checkpoint 'checkpoint-1', this server"):
        read_bundle(CONTENT, "checkpoint-2")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a safetensors file"),
        (b"RIFF", "not a safetensors file"),
        (CONTENT[:-1], "not a safetensors file"),
        (CONTENT + b"x", "not a safetensors file"),
        (b"\xff" * 8 + CONTENT[8:], "not a safetensors file"),
        (CONTENT[:8] + b"[" + CONTENT[9:], "not a safetensors file"),
        (save({"x": np.zeros(3, np.float16)}), "of type F16"),
        (pack(FEATURES), "not one that an export gave"),
        (rebuilt({"format": "other"}), "not one that an export gave"),
        (rebuilt({"version": "2"}), "version '2'; this release reads version 1"),
        (rebuilt({"version": None}), "version None"),
        (rebuilt({"fingerprint": None}), "lacks fingerprint"),
        (rebuilt({"name": None}), "lacks name"),
        (rebuilt({"transcript": None}), "lacks transcript"),
        (rebuilt({"language": None}), "lacks language"),
        (rebuilt(tensors={"recording": None}), "no tensor recording"),
        (rebuilt(tensors={"recording": np.zeros(0, np.uint8)}), "no tensor recording"),
        (rebuilt(tensors={"recording": np.zeros((2, 2), np.uint8)}), "no tensor recording"),
        (rebuilt(tensors={"recording": np.zeros(4, np.float32)}), "no tensor recording"),
    ],
)
def test_what_is_no_bundle_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason) as caught:
        read(content)

    assert caught.value.param == "bundle"


def test_no_change_of_one_byte_escapes_as_another_error() -> None:
    """Each may still be a bundle, or be refused; nothing else happens."""
    length = int.from_bytes(CONTENT[:8], "little")
    for place in range(8 + length):
        content = bytearray(CONTENT)
        content[place] ^= 0x41
        try:
            read(bytes(content))
        except (InvalidRequest, SpeakerIncompatible):
            continue


@pytest.mark.parametrize(
    "content",
    [
        save({"x" * 100_000: np.zeros(3, np.float16)}),
        rebuilt({"version": "9" * 100_000}),
    ],
)
def test_a_refusal_does_not_repeat_what_came(content: bytes) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(content)

    assert len(caught.value.message) < 400
