"""Write the text tokenizer's files: a Hugging Face Qwen2 folder, or whisper's ranks for CosyVoice 1.

Its vocabulary is small and needs no data: the 256 bytes, and what byte-pair encoding makes of some English
words.
"""

import base64
import json
from collections import Counter
from functools import cache
from itertools import chain, islice, pairwise, product
from pathlib import Path

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


_WORDS = """
    the of and to in is it you that he was for on are with as his they be at one have this from or had by
    hot but some what there we can out other were all your when up use word how said an each she which do
    their time if will way about many then them would write like so these her long make thing see him two
    has look more day could go come did my sound no most number who over know water than call first people
    may down side been now find any new work part take get place made live where after back little only
    round man year came show every good me give our under name very through just form much great think say
    help low line before turn cause same mean differ move right boy old too does tell sentence set three
    want air well also play small end put home read hand port large spell add even land here must big high
    such follow act why ask men change went light kind off need house picture try us again animal point
    hello world voice speech listen speaker assistant helpful
"""

Merge = tuple[bytes, bytes]


@cache
def merges() -> tuple[Merge, ...]:
    """Pairs of entries in the order of their precedence, until every word is one entry.

    The most frequent pair comes first (arXiv 1508.07909, section 3.2), of several the first in the alphabet.
    """
    words = [[bytes([byte]) for byte in word.encode()] for word in sorted({*_forms()})]
    found: list[Merge] = []
    while counts := Counter(pair for word in words for pair in pairwise(word)):
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        found.append(best)
        words = [_merged(word, best) for word in words]
    return tuple(found)


@cache
def entries() -> tuple[bytes, ...]:
    """All different, in the order of their ids."""
    return (*(bytes([byte]) for byte in range(256)), *(left + right for left, right in merges()))


def _forms() -> list[str]:
    """Each word with the blank in front of it, and without."""
    words = _WORDS.split()
    return [*words, *(f" {word}" for word in words)]


def _merged(word: list[bytes], pair: Merge) -> list[bytes]:
    out: list[bytes] = []
    for part in word:
        if out and (out[-1], part) == pair:
            out[-1] += part
        else:
            out.append(part)
    return out
