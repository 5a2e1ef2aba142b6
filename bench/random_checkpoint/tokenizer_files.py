"""Writes the text tokenizer's files: a Hugging Face Qwen2 folder, or whisper's ranks for CosyVoice 1."""

import base64
import json
from itertools import chain, islice, product
from pathlib import Path

from firstword.bench.random_checkpoint.vocabulary import entries, merges
from firstword.models.config import Family
from firstword.models.tokenizer import QWEN2_FOLDER
from firstword.models.tokenizer.qwen2 import BASE_TOKENS
from firstword.models.tokenizer.whisper import RANKS_FILE

PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes that byte-level BPE writes as the character of the same number; the others follow from U+0100 on."""

FLAGS = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
CONFIG = {
    "add_prefix_space": False,
    "additional_special_tokens": ["<|im_start|>", "<|im_end|>"],
    "bos_token": None,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|endoftext|>",
    "errors": "replace",
    "model_max_length": 32768,
    "pad_token": "<|endoftext|>",
    "split_special_tokens": False,
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}


def write_tokenizer(directory: Path, family: Family, num_ranks: int) -> None:
    if family == "cosyvoice1":
        _write_ranks(directory / RANKS_FILE, num_ranks)
    else:
        (directory / QWEN2_FOLDER).mkdir(exist_ok=True)
        _write_qwen2(directory / QWEN2_FOLDER)


def _write_ranks(path: Path, count: int) -> None:
    """The vocabulary first, then other pairs of bytes, and last the empty string, as published."""
    known = frozenset(entries())
    pairs = (bytes(pair) for pair in product(range(256), repeat=2))
    ranked = chain(entries(), (pair for pair in pairs if pair not in known))
    lines = [
        f"{base64.b64encode(entry).decode()} {rank}" for rank, entry in enumerate(islice(ranked, count - 1))
    ]
    assert len(lines) == count - 1, f"{count} ranks asked for, {len(lines)} entries"
    path.write_text("\n".join([*lines, f"= {count - 1}"]) + "\n", encoding="ascii")


def _write_qwen2(folder: Path) -> None:
    characters = _byte_characters()
    vocab = {_written(entry, characters): token_id for token_id, entry in enumerate(entries())}
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    lines = [f"{_written(left, characters)} {_written(right, characters)}" for left, right in merges()]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *lines]) + "\n", encoding="utf-8")
    tokens = {
        str(len(entries()) + index): {"content": token} | FLAGS for index, token in enumerate(BASE_TOKENS)
    }
    config = json.dumps({"added_tokens_decoder": tokens} | CONFIG, indent=2)
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")


def _byte_characters() -> dict[int, str]:
    others = [byte for byte in range(256) if byte not in PRINTABLE]
    return {byte: chr(byte) for byte in PRINTABLE} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def _written(entry: bytes, characters: dict[int, str]) -> str:
    return "".join(characters[byte] for byte in entry)
