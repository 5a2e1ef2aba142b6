"""Read `firstword.json`: what a voice can do that its networks' sizes do not tell.

The published checkpoints have no such file and behave as the defaults say. A copy of a directory that
has one behaves as the original does, wherever it lies.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from firstword.files import write_whole
from firstword.models.checkpoint.yaml import Fields
from firstword.models.config import ACCENTS, SPEAKER_EMBEDDING_SIZE, AlignmentHeads, Family

MAX_LENGTH = 10_000  # of a segment
MAX_TOKEN_RATIO = 100
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
    takes_speech_marks: bool = True  # was trained with the speech marks of its tokenizer
    segment_max_length: int = 80
    segment_min_length: int = 60
    segment_merge_length: int = 20
    ends_cut_segments_in_stop: bool = False  # for a language model trained on whole sentences only
    default_speaker: str | None = None  # of the speaker table; None: its first
    default_speakers: Mapping[str, str] = field(default_factory=dict)  # by the text's language
    former_speakers: Mapping[str, str] = field(default_factory=dict)  # earlier names -> speakers
    transcripts: Mapping[str, str] = field(default_factory=dict)  # of speakers whose text tokens are sounds
    reads_sounds: bool = False  # words are written as ARPAbet tokens first, by the folder `pronunciation`
    accents: tuple[str, ...] = ()  # of ACCENTS, those that it has beside its own
    continues_prompts: bool = (
        True  # speakers with a transcript: zero_shot; else cross_lingual, where none is asked
    )
    matches_recordings: bool = False  # what its flow makes of a registered speaker is fitted to the recording
    mean_embedding: tuple[float, ...] = ()  # (192,) of all voices it knows; where recordings are matched only
    prompt_before_blocks: bool = False  # where text is pushed, the prompt stands whole before its blocks
    min_token_ratio: float = 2.0  # speech tokens per text token: the fewest that may end an utterance
    max_token_ratio: float = 20.0  # and the most it may have
    alignment_heads: AlignmentHeads = ()  # layer and head that look at the text being spoken


def write_traits(path: Path, traits: Traits) -> None:
    """A line for each field."""
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(traits).items())
    write_whole(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())


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
        takes_speech_marks=fields.flag("takes_speech_marks", default.takes_speech_marks),
        segment_max_length=fields.size("segment_max_length", default.segment_max_length, MAX_LENGTH),
        segment_min_length=fields.size("segment_min_length", default.segment_min_length, MAX_LENGTH),
        segment_merge_length=fields.size("segment_merge_length", default.segment_merge_length, MAX_LENGTH),
        ends_cut_segments_in_stop=fields.flag("ends_cut_segments_in_stop", default.ends_cut_segments_in_stop),
        default_speaker=fields.optional_text("default_speaker"),
        default_speakers=fields.text_map("default_speakers"),
        former_speakers=fields.text_map("former_speakers"),
        transcripts=fields.text_map("transcripts"),
        reads_sounds=fields.flag("reads_sounds", default.reads_sounds),
        accents=fields.texts("accents", default.accents),
        continues_prompts=fields.flag("continues_prompts", default.continues_prompts),
        matches_recordings=fields.flag("matches_recordings", default.matches_recordings),
        mean_embedding=fields.numbers("mean_embedding"),
        prompt_before_blocks=fields.flag("prompt_before_blocks", default.prompt_before_blocks),
        min_token_ratio=fields.number("min_token_ratio", default.min_token_ratio),
        max_token_ratio=fields.number("max_token_ratio", default.max_token_ratio),
        alignment_heads=fields.pairs("alignment_heads"),
    )
    fields.done()
    if traits.matches_recordings and family == "cosyvoice1":
        raise fields.error("matches_recordings is true; expected that for cosyvoice2 and cosyvoice3 only")
    if traits.mean_embedding and not traits.matches_recordings:
        raise fields.error("mean_embedding is given; expected that with matches_recordings only")
    if len(traits.mean_embedding) not in (0, SPEAKER_EMBEDDING_SIZE):
        raise fields.error(
            f"mean_embedding holds {len(traits.mean_embedding)} numbers; expected {SPEAKER_EMBEDDING_SIZE}"
        )
    if traits.accents and not traits.reads_sounds:
        raise fields.error("accents are given and reads_sounds is false; expected it to be true")
    if unknown := sorted(set(traits.accents) - set(ACCENTS)):
        raise fields.error(f"accents holds {unknown[0]!r:.80}; expected one of {', '.join(ACCENTS)}")
    for language in traits.languages:
        if not _LANGUAGE.fullmatch(language):
            raise fields.error(f"languages holds {language!r:.80}; expected codes such as en, zh or yue")
    if len(set(traits.languages)) != len(traits.languages):
        raise fields.error("languages holds a code twice")
    if unspoken := sorted(traits.default_speakers.keys() - set(traits.languages)):
        raise fields.error(f"default_speakers holds {unspoken[0]!r:.80}; expected one of its languages")
    if not traits.segment_merge_length <= traits.segment_min_length <= traits.segment_max_length:
        raise fields.error(
            f"segment_merge_length {traits.segment_merge_length}, segment_min_length "
            f"{traits.segment_min_length} and segment_max_length {traits.segment_max_length}; expected "
            "each to be at most the next"
        )
    if not 0 <= traits.min_token_ratio < traits.max_token_ratio <= MAX_TOKEN_RATIO:
        raise fields.error(
            f"min_token_ratio {traits.min_token_ratio:g} and max_token_ratio {traits.max_token_ratio:g}; "
            f"expected the first to be smaller, both from 0 to {MAX_TOKEN_RATIO}"
        )
    return traits
