"""Text tokenizers, built from each family's published files; never from the network."""

from pathlib import Path

from firstword.models.config import Family
from firstword.models.tokenizer.arpabet import ARPABET_TOKENS
from firstword.models.tokenizer.interface import TextTokenizer, TokenizerError
from firstword.models.tokenizer.mandarin import MANDARIN_FILE, Mandarin
from firstword.models.tokenizer.pronunciation import PronouncingTokenizer, Pronunciation
from firstword.models.tokenizer.qwen2 import (
    PINYIN_TOKENS,
    QWEN2_MARKS,
    Qwen2Tokenizer,
    special_tokens,
)
from firstword.models.tokenizer.whisper import LANGUAGE_MARKS, WhisperTokenizer, find_ranks_file

__all__ = [
    "PHONEME_MARKS",
    "PRONUNCIATION_FOLDER",
    "QWEN2_FOLDER",
    "SPEECH_MARKS",
    "TextTokenizer",
    "TokenizerError",
    "load_text_tokenizer",
]

QWEN2_FOLDER = "CosyVoice-BlankEN"
PRONUNCIATION_FOLDER = "pronunciation"
SPEECH_MARKS = QWEN2_MARKS + LANGUAGE_MARKS  # of all families
PHONEME_MARKS = ARPABET_TOKENS + PINYIN_TOKENS


def load_text_tokenizer(
    family: Family, model_dir: Path, reads_sounds: bool = False, speaks_mandarin: bool = False
) -> TextTokenizer:
    """Load the tokenizer of a model directory. Raises TokenizerError, naming the file at fault.

    reads_sounds: words are written as ARPAbet tokens first. speaks_mandarin: and Chinese characters as pinyin
    tokens, where there is a file of phrases.
    """
    tokenizer: TextTokenizer
    if family == "cosyvoice1":
        tokenizer = WhisperTokenizer.from_file(find_ranks_file(model_dir))
    else:
        tokenizer = Qwen2Tokenizer.from_folder(model_dir / QWEN2_FOLDER, special_tokens(family))
    if reads_sounds:
        folder = model_dir / PRONUNCIATION_FOLDER
        has_phrases = speaks_mandarin and (folder / MANDARIN_FILE).exists()
        mandarin = Mandarin(folder / MANDARIN_FILE) if has_phrases else None
        return PronouncingTokenizer(tokenizer, Pronunciation(folder), mandarin)
    return tokenizer
