"""What a checkpoint says of its speakers is read strictly, and is part of no fingerprint."""

import json
from pathlib import Path

import pytest

from firstword.models.checkpoint.descriptions import SpeakerDescription, read_descriptions
from firstword.models.checkpoint.open import fingerprint, open_checkpoint
from firstword.models.config import DESCRIPTIONS_FILE, CheckpointError
from tests.support.checkpoints import copied_checkpoint

BUILTIN = Path(__file__).parents[2] / "models" / "builtin"
WREN = {"sex": "female", "age": "adult", "manner": "calm", "accent": "American", "language": "en-US"}


def test_the_built_in_voice_describes_all_its_speakers() -> None:
    checkpoint = open_checkpoint(BUILTIN)
    described = checkpoint.load_descriptions()
    assert set(described) == set(checkpoint.load_speakers())
    assert {one.sex for one in described.values()} == {"female", "male"}


def test_a_description_changes_no_fingerprint(tmp_path: Path) -> None:
    directory = copied_checkpoint(tmp_path)
    before = fingerprint(directory, matches_recordings=True)
    assert open_checkpoint(directory).load_descriptions() == {}
    (directory / DESCRIPTIONS_FILE).write_text(json.dumps({"wren": WREN}))
    assert open_checkpoint(directory).load_descriptions() == {"wren": SpeakerDescription(**WREN)}  # type: ignore[arg-type]
    assert fingerprint(directory, matches_recordings=True) == before


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[]", "expected named values"),
        ('{"wren": "calm"}', "expected named values"),
        (json.dumps({"wren": {**WREN, "sex": "bird"}}), "sex of 'wren' is 'bird'; expected female or male"),
        (json.dumps({"wren": {**WREN, "age": None}}), "age of 'wren' is ''; expected child or young"),
        (json.dumps({"wren": {**WREN, "mood": "good"}}), "unknown: mood"),
    ],
)
def test_another_content_is_refused(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / DESCRIPTIONS_FILE
    path.write_text(content)
    with pytest.raises(CheckpointError, match=expected):
        read_descriptions(path)
