import os
from dataclasses import replace
from pathlib import Path

import pytest

from firstword.models.checkpoint.open import (
    END_BYTES,
    MAX_WHOLE_BYTES,
    NUM_SAMPLES,
    SAMPLE_BYTES,
    fingerprint,
    open_checkpoint,
)
from firstword.models.checkpoint.traits import write_traits
from firstword.models.config import TRAITS_FILE, CheckpointError
from tests.support.checkpoints import copied_checkpoint, small_checkpoint

LARGE_BYTES = 1 << 30


def flip_byte(path: Path, place: int) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


def grow(path: Path) -> None:
    """To a gigabyte that takes no room."""
    os.truncate(path, LARGE_BYTES)


def test_it_is_the_same_for_a_copy(tmp_path: Path) -> None:
    assert fingerprint(copied_checkpoint(tmp_path)) == fingerprint(small_checkpoint("cosyvoice2"))


@pytest.mark.parametrize(
    "name",
    [
        "cosyvoice2.yaml",
        "flow.pt",
        "campplus.onnx",
        "speech_tokenizer_v2.onnx",
        "CosyVoice-BlankEN/config.json",
        "CosyVoice-BlankEN/vocab.json",
    ],
)
def test_one_byte_of_what_makes_a_speaker_changes_it(tmp_path: Path, name: str) -> None:
    directory = copied_checkpoint(tmp_path)
    before = fingerprint(directory)
    flip_byte(directory / name, (directory / name).stat().st_size // 2)

    assert fingerprint(directory) != before


@pytest.mark.parametrize("name", ["llm.pt", "hift.pt", "spk2info.pt"])
def test_what_no_speaker_depends_on_does_not_count(tmp_path: Path, name: str) -> None:
    directory = copied_checkpoint(tmp_path)
    before = fingerprint(directory)
    flip_byte(directory / name, 100)

    assert fingerprint(directory) == before


@pytest.mark.parametrize(("name", "counts"), [("llm.pt", False), ("hift.pt", True), ("spk2info.pt", True)])
def test_a_match_depends_on_vocoder_and_speaker_table_too(tmp_path: Path, name: str, counts: bool) -> None:
    directory = copied_checkpoint(tmp_path)
    before = fingerprint(directory, matches_recordings=True)
    flip_byte(directory / name, 100)

    assert (fingerprint(directory, matches_recordings=True) != before) == counts


def test_a_match_depends_on_the_traits(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    before, plain = fingerprint(directory, matches_recordings=True), fingerprint(directory)
    traits = open_checkpoint(directory).traits
    write_traits(
        directory / TRAITS_FILE, replace(traits, matches_recordings=True, mean_embedding=(0.5,) * 192)
    )

    assert fingerprint(directory, matches_recordings=True) != before
    assert fingerprint(directory) == plain


def test_the_families_differ() -> None:
    assert len({fingerprint(small_checkpoint(f)) for f in ("cosyvoice1", "cosyvoice2", "cosyvoice3")}) == 3


@pytest.mark.parametrize("place", [0, END_BYTES - 1, LARGE_BYTES - END_BYTES, LARGE_BYTES - 1])
def test_a_large_file_is_known_by_its_ends(tmp_path: Path, place: int) -> None:
    directory = copied_checkpoint(tmp_path)
    grow(directory / "flow.pt")
    before = fingerprint(directory)
    flip_byte(directory / "flow.pt", place)

    assert fingerprint(directory) != before


def test_a_large_file_is_known_by_pieces_between_its_ends(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    grow(directory / "flow.pt")
    before = fingerprint(directory)
    step = (LARGE_BYTES - 2 * END_BYTES) // NUM_SAMPLES
    flip_byte(directory / "flow.pt", END_BYTES + 40 * step + SAMPLE_BYTES - 1)

    assert fingerprint(directory) != before


def test_a_large_file_is_known_by_its_size(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    os.truncate(directory / "flow.pt", 2 * MAX_WHOLE_BYTES)
    before = fingerprint(directory)
    os.truncate(directory / "flow.pt", 2 * MAX_WHOLE_BYTES + 1)

    assert fingerprint(directory) != before


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"expected one of cosyvoice\.yaml"):
        fingerprint(tmp_path)
