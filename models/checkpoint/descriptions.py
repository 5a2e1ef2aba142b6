"""Read `speakers.json`: what a checkpoint says of its own speakers, for people who choose one.

The published checkpoints have none. Nothing is computed from it, so it is no part of a fingerprint.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from firstword.models.checkpoint.yaml import Fields
from firstword.models.config import CheckpointError

Sex = Literal["female", "male"]
Age = Literal["child", "young", "adult", "old"]
FIELDS: Final = ("sex", "age", "manner", "accent", "language")


@dataclass(frozen=True, slots=True)
class SpeakerDescription:
    """manner: two or three words. language: the tag of what the speaker says when nothing else is asked."""

    sex: Sex
    age: Age
    manner: str
    accent: str
    language: str


def read_descriptions(path: Path) -> Mapping[str, SpeakerDescription]:
    """Return them by speaker; {} where there is no file. Raises CheckpointError for another content."""
    if not path.exists():
        return {}
    fields = Fields.from_json(path)
    found = {name: _description(path, name, fields.mapping(name)) for name in fields.names}
    fields.done()
    return found


def _description(path: Path, name: str, given: Fields) -> SpeakerDescription:
    texts = {field: given.optional_text(field) or "" for field in FIELDS}
    given.done()
    accepted = {"sex": get_args(Sex), "age": get_args(Age)}
    for field, text in texts.items():
        if not text or text not in accepted.get(field, (text,)):
            expected = " or ".join(accepted.get(field, ("a text",)))
            raise CheckpointError(f"{path}: {field} of {name!r:.80} is {text!r:.80}; expected {expected}")
    return SpeakerDescription(**texts)  # type: ignore[arg-type]  # they are of those words
