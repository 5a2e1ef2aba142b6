"""The text step of a checkpoint: its rules, its marks and its file of pronunciations."""

from collections.abc import Sequence
from pathlib import Path

from firstword.app.options import InvalidOptions, OtherLanguagesChoice
from firstword.app.text.heteronyms import Heteronyms
from firstword.app.text.lexicon import LexiconError, LexiconFile
from firstword.app.text.marks import SpeechMarks
from firstword.app.text.normalize import Normalizer
from firstword.app.text.other_languages import SpokenLanguages
from firstword.app.text.segment import FamilyRules, SegmentLimits
from firstword.app.text.stream import Pronunciations, TextFrontend
from firstword.models.checkpoint.open import Checkpoint
from firstword.models.checkpoint.traits import LANGUAGES
from firstword.models.tokenizer import PHONEME_MARKS, SPEECH_MARKS, TextTokenizer
from firstword.models.tokenizer.mandarin import Mandarin
from firstword.models.tokenizer.pronunciation import PronouncingTokenizer

FIRST_SEGMENT_TOKENS = 20  # a short first sentence is a segment by itself, so that audio starts sooner


def text_frontend(
    tokenizer: TextTokenizer,
    checkpoint: Checkpoint,
    other_languages: OtherLanguagesChoice,
    lexicon: Path | None = None,
) -> TextFrontend:
    """Build the text step of a checkpoint, whose tokenizer it is, warmed up.

    other_languages: what becomes of a text in one that the checkpoint does not speak.

    Raises InvalidOptions for a file of pronunciations that cannot be used, CheckpointError.
    """
    traits = checkpoint.traits
    mandarin = tokenizer.mandarin if isinstance(tokenizer, PronouncingTokenizer) else None
    marks = SpeechMarks(
        tokenizer.encode_text,
        tokenizer.encode,
        tokenizer.speech_marks if traits.takes_speech_marks or traits.reads_sounds else (),
        SPEECH_MARKS,
        PHONEME_MARKS,
        () if mandarin is None else mandarin.marks,
    )
    try:
        lexicon_file = None if lexicon is None else LexiconFile(lexicon, marks)
    except (LexiconError, OSError) as error:
        raise InvalidOptions(f"FIRSTWORD_LEXICON cannot be used: {error}") from None
    normalizer = Normalizer(traits.languages)
    normalizer.warm_up(traits.languages)
    return TextFrontend(
        normalizer,
        marks,
        limits=SegmentLimits(
            traits.segment_max_length, traits.segment_min_length, traits.segment_merge_length
        ),
        first_max_length=FIRST_SEGMENT_TOKENS,
        family_rules=FamilyRules(
            plain_chinese_marks=not traits.reads_sounds,  # its tokenizer makes them plain
            stops_cuts=traits.ends_cut_segments_in_stop,
            unread=(lambda _: "") if mandarin is None else mandarin.unread,
        ),
        pronunciations=Pronunciations(lexicon_file, _heteronyms(checkpoint, mandarin)),
        languages=SpokenLanguages(
            checkpoint.directory.resolve().name,
            traits.languages,
            # where it lists its own: a fine-tuned one may speak more than its family's list says
            other_languages == "refuse" and traits.languages != LANGUAGES[checkpoint.config.family],
        ),
    )


def _heteronyms(checkpoint: Checkpoint, mandarin: Mandarin | None) -> dict[str, Sequence[Heteronyms]]:
    """Of each accent; "": the checkpoint's own."""
    first: list[Heteronyms] = [] if mandarin is None else [mandarin]
    usual = checkpoint.load_heteronyms()
    accents = checkpoint.load_accented_words(usual)
    own: list[Heteronyms] = [] if usual is None else [usual]
    read: dict[str, Sequence[Heteronyms]] = {"": [*first, *own]}
    return read | {accent: [*first, words] for accent, words in accents.items()}
