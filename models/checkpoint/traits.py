"""Read `firstword.json`: what a voice can do that its networks' sizes do not tell.

The published checkpoints have no such file and behave as the defaults say. A copy of a directory that
has one behaves as the original does, wherever it lies.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from firstword.models.checkpoint.yaml import Fields
from firstword.models.config import Family

MAX_LENGTH = 10_000  # of a segment
_LANGUAGE = re.compile(r"[a-z]{2,3}", re.ASCII)

LANGUAGES: Final[Mapping[Family, tuple[str, ...]]] = {
    "cosyvoice1": ("zh", "en", "ja", "yue", "ko"),
    "cosyvoice2": ("zh", "en", "ja", "yue", "ko"),
    "cosyvoice3": ("zh", "en", "ja", "yue", "ko", "de", "es", "fr", "it", "ru"),
}
"""Of the published checkpoints, as ISO 639 codes."""


@dataclass(frozen=True, slots=True)
class Traits:
    """The defaults are those of the published CosyVoice 1 and 2; 3 has other languages.

    Segment lengths count text tokens, in Chinese characters. A segment longer than `segment_min_length`
    ends before the sentence that would take it past `segment_max_length`; a rest shorter than
    `segment_merge_length` joins the segment before it.
    """

    languages: tuple[str, ...] = LANGUAGES["cosyvoice2"]  # the first is the voice's own
    takes_instruct: bool = True  # was trained with instructions
    segment_max_length: int = 80
    segment_min_length: int = 60
    segment_merge_length: int = 20
    ends_cut_segments_in_stop: bool = False  # for a language model trained on whole sentences only
    default_speaker: str | None = None  # of the speaker table; None: its first


def write_traits(path: Path, traits: Traits) -> None:
    path.write_text(json.dumps(asdict(traits), indent=2) + "\n")


def default_traits(family: Family) -> Traits:
    return Traits(languages=LANGUAGES[family])


def read_traits(path: Path, family: Family) -> Traits:
    """Read a JSON object of any of the fields of `Traits`; the others keep the family's defaults.

    Raises CheckpointError for content that is no such object, an unknown field or a value out of range.
    """
    fields = Fields.from_json(path)
    default = default_traits(family)
    traits = Traits(
        languages=fields.texts("languages", default.languages),
        takes_instruct=fields.flag("takes_instruct", default.takes_instruct),
        segment_max_length=fields.size("segment_max_length", default.segment_max_length, MAX_LENGTH),
        segment_min_length=fields.size("segment_min_length", default.segment_min_length, MAX_LENGTH),
        segment_merge_length=fields.size("segment_merge_length", default.segment_merge_length, MAX_LENGTH),
        ends_cut_segments_in_stop=fields.flag("ends_cut_segments_in_stop", default.ends_cut_segments_in_stop),
        default_speaker=fields.optional_text("default_speaker"),
    )
    fields.done()
    for language in traits.languages:
        if not _LANGUAGE.fullmatch(language):
            raise fields.error(f"languages holds {language!r:.80}; expected codes such as en, zh or yue")
    if len(set(traits.languages)) != len(traits.languages):
        raise fields.error("languages holds a code twice")
    if not traits.segment_merge_length <= traits.segment_min_length <= traits.segment_max_length:
        raise fields.error(
            f"segment_merge_length {traits.segment_merge_length}, segment_min_length "
            f"{traits.segment_min_length} and segment_max_length {traits.segment_max_length}; expected "
            "each to be at most the next"
        )
    return traits
