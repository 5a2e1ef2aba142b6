"""The text tokenizer of CosyVoice 1: whisper's multilingual byte-level BPE, built from its ranks file."""

import base64
import importlib.util
from collections.abc import Sequence
from pathlib import Path

import tiktoken

from firstword.models.tokenizer.interface import TokenizerError, read_text_file, replace_lone_surrogates

RANKS_FILE = "multilingual.tiktoken"

SPLIT_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

_LANGUAGES = """
    en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg
    lt la mi ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so
    af oc ka be tg sd gu am yi lo uz fo ht ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue
"""
LANGUAGES = tuple(_LANGUAGES.split())  # 100, in the order of their ids

LANGUAGE_MARKS = tuple(f"<|{language}|>" for language in LANGUAGES)
# CosyVoice 1 was trained on these as ordinary text.
EXPRESSION_MARKS = ("[breath]", "[laughter]", "<strong>", "</strong>", "<laughter>", "</laughter>")

TIMESTAMP_STEP_MS = 20
NUM_TIMESTAMPS = 30_000 // TIMESTAMP_STEP_MS + 1  # 1501: 0.00 to 30.00 s

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|startoftranscript|>",
    *LANGUAGE_MARKS,
    "<|translate|>",
    "<|transcribe|>",
    "<|startoflm|>",
    "<|startofprev|>",
    "<|nospeech|>",
    "<|notimestamps|>",
    *(f"<|{step * TIMESTAMP_STEP_MS / 1000:.2f}|>" for step in range(NUM_TIMESTAMPS)),
)


class WhisperTokenizer:
    """The published ranks give 50257 + 1609 = 51866 ids; there is no `<|endofprompt|>` among them."""

    def __init__(self, ranks: dict[bytes, int]):
        """`ranks`: byte string to id, the ids 0 to len - 1; the special tokens follow them."""
        self._encoding = tiktoken.Encoding(
            "whisper",
            pat_str=SPLIT_PATTERN,
            mergeable_ranks=ranks,
            special_tokens={token: len(ranks) + index for index, token in enumerate(SPECIAL_TOKENS)},
            explicit_n_vocab=len(ranks) + len(SPECIAL_TOKENS),
        )

    @classmethod
    def from_file(cls, path: Path) -> "WhisperTokenizer":
        """Raises TokenizerError, naming the file, if it is missing or malformed."""
        return cls(read_ranks(path))

    @property
    def vocab_size(self) -> int:
        return self._encoding.n_vocab

    @property
    def end_of_prompt_id(self) -> int | None:
        return None

    @property
    def speech_marks(self) -> tuple[str, ...]:
        return LANGUAGE_MARKS + EXPRESSION_MARKS

    def encode_text(self, text: str) -> list[int]:
        return self._encoding.encode_ordinary(replace_lone_surrogates(text))

    def encode(self, text: str) -> list[int]:
        return self._encoding.encode(replace_lone_surrogates(text), allowed_special="all")

    def decode(self, ids: Sequence[int]) -> str:
        unknown = [token_id for token_id in ids if not 0 <= token_id < self.vocab_size]
        if unknown:
            raise TokenizerError(f"text token {unknown[0]} is not in the vocabulary of {self.vocab_size}")
        return self._encoding.decode(list(ids), errors="replace")


def find_ranks_file(model_dir: Path) -> Path:
    """Find it in the model directory, else in an installed `whisper` package, which is not imported."""
    candidates = [model_dir / RANKS_FILE]
    package = importlib.util.find_spec("whisper")
    for folder in (package and package.submodule_search_locations) or ():
        candidates.append(Path(folder) / "assets" / RANKS_FILE)
    for path in candidates:
        if path.is_file():
            return path
    raise TokenizerError(
        f"{model_dir / RANKS_FILE}: missing. CosyVoice 1 reads text with whisper's vocabulary, which its "
        f"checkpoints do not bring: put whisper/assets/{RANKS_FILE} of the openai-whisper package there, "
        "or install that package"
    )


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read one entry a line: base64 of its bytes, a blank, its rank. Raises TokenizerError."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_text_file(path).splitlines(), start=1):
        if not line:
            continue
        try:
            written, rank = line.split()
            # "=" is how the published file writes its last entry
            entry = b"" if written == "=" else base64.b64decode(written, validate=True)
            if entry in ranks or not rank.isdecimal():
                raise ValueError("an entry that came before, or a rank that is no number")
            ranks[entry] = int(rank)
        except ValueError as error:  # also of int, where the rank has thousands of digits
            raise TokenizerError(
                f"{path}: line {number} is {line[:40]!r}, expected a new base64 entry and its rank; "
                "is the file cut short?"
            ) from error
    if sorted(ranks.values()) != list(range(len(ranks))):
        raise TokenizerError(f"{path}: {len(ranks)} entries do not have the ranks 0 to {len(ranks) - 1}")
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        raise TokenizerError(
            f"{path}: {len(missing)} of the 256 single bytes are missing, text would be lost"
        )
    return ranks
