"""Text tokenizers, built from each family's published files; never from the network."""

from pathlib import Path

from firstword.models.config import Family
from firstword.models.tokenizer.interface import TextTokenizer, TokenizerError
from firstword.models.tokenizer.qwen2 import Qwen2Tokenizer, special_tokens
from firstword.models.tokenizer.whisper import WhisperTokenizer, find_ranks_file

__all__ = ["QWEN2_FOLDER", "TextTokenizer", "TokenizerError", "load_text_tokenizer"]

QWEN2_FOLDER = "CosyVoice-BlankEN"


def load_text_tokenizer(family: Family, model_dir: Path) -> TextTokenizer:
    """Load the tokenizer of a model directory. Raises TokenizerError, naming the file at fault."""
    if family == "cosyvoice1":
        return WhisperTokenizer.from_file(find_ranks_file(model_dir))
    return Qwen2Tokenizer.from_folder(model_dir / QWEN2_FOLDER, special_tokens(family))
