"""The interface of the text tokenizers, and what they share."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

MAX_FILE_BYTES = 64 << 20  # the published files have 11 MB at most


class TokenizerError(ValueError):
    """A tokenizer file is missing or malformed, or an id lies outside the vocabulary."""


class TextTokenizer(Protocol):
    """Read-only once loaded, so any number of threads may share one."""

    @property
    def vocab_size(self) -> int:
        """Highest id + 1, special tokens included."""
        ...

    @property
    def end_of_prompt_id(self) -> int | None:
        """The id of `<|endofprompt|>`; None where the vocabulary has none."""
        ...

    @property
    def speech_marks(self) -> tuple[str, ...]:
        """What may be written in a text to be read by the model as such: sounds, emphasis, phonemes."""
        ...

    def encode(self, text: str) -> list[int]:
        """Nothing is added around the text; special tokens written in it become their ids."""
        ...

    def encode_text(self, text: str) -> list[int]:
        """The same, but special tokens written in it are text: for what clients write."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Special tokens come back as they are written. Raises TokenizerError for an unknown id."""
        ...


def read_text_file(path: Path) -> str:
    """Read the file as UTF-8, its line ends kept. Raises TokenizerError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise TokenizerError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the published file?")
        return content.decode("utf-8")
    except OSError as error:
        raise TokenizerError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path}: not UTF-8 at byte {error.start}; is it the published file?") from error


def read_sorted_lines(path: Path) -> list[str]:
    """The lines of a packed file, which are in the order of their characters. Raises TokenizerError."""
    try:
        with gzip.open(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise TokenizerError(f"{path}: cannot be read ({error})") from error
    if len(content) > MAX_FILE_BYTES:
        raise TokenizerError(f"{path}: larger than {MAX_FILE_BYTES} bytes; is it the checkpoint's file?")
    lines = content.decode(errors="replace").splitlines()
    if lines != sorted(lines):
        raise TokenizerError(f"{path}: expected its lines in the order of their characters")
    return lines


def replace_lone_surrogates(text: str) -> str:
    """Replace by U+FFFD half a surrogate pair, which JSON can carry and no UTF-8 encoder takes."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
