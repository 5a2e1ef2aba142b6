"""The text tokenizer of CosyVoice 2 and 3: Qwen2's byte-level BPE with CosyVoice's special tokens.

The order of the special tokens gives their ids. Published ids, behind a base of 151643 entries: `BASE_TOKENS`
from 151643, `EXPRESSION_TOKENS` from 151646 (CosyVoice 2 ends at 151662), then CosyVoice 3's
`<|endofsystem|>` 151663, ARPAbet from 151664, pinyin from 151748 to 151923. Phonemes are written in
brackets, a Chinese syllable as initial and toned final: `[j][ǐ]`.
"""

import json
import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE

from firstword.models.config import Family
from firstword.models.tokenizer.arpabet import ARPABET_TOKENS
from firstword.models.tokenizer.interface import TokenizerError, read_text_file, replace_lone_surrogates

END_OF_PROMPT = "<|endofprompt|>"

BASE_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # Qwen2's own

EXPRESSION_TOKENS = (
    END_OF_PROMPT,
    "[breath]",
    "<strong>",
    "</strong>",
    "[noise]",
    "[laughter]",
    "[cough]",
    "[clucking]",
    "[accent]",
    "[quick_breath]",
    "<laughter>",
    "</laughter>",
    "[hissing]",
    "[sigh]",
    "[vocalized-noise]",
    "[lipsmack]",
    "[mn]",
)

END_OF_SYSTEM = "<|endofsystem|>"

_PINYIN = """
    a ai an ang ao b c ch d e ei en eng f g h i ian in ing iu ià iàn iàng iào iá ián iáng iáo iè ié iòng
    ióng iù iú iā iān iāng iāo iē iě iōng iū iǎ iǎn iǎng iǎo iǒng iǔ j k l m n o ong ou p q r s sh t u
    uang ue un uo uà uài uàn uàng uá uái uán uáng uè ué uì uí uò uó uā uāi uān uāng uē uě uī uō uǎ uǎi uǎn
    uǎng uǐ uǒ vè w x y z zh à ài àn àng ào á ái án áng áo è èi èn èng èr é éi én éng ér ì ìn ìng í ín íng
    ò òng òu ó óng óu ù ùn ú ún ā āi ān āng āo ē ēi ēn ēng ě ěi ěn ěng ěr ī īn īng ō ōng ōu ū ūn ǎ ǎi ǎn
    ǎng ǎo ǐ ǐn ǐng ǒ ǒng ǒu ǔ ǔn ǘ ǚ ǜ
"""

PINYIN_TOKENS = tuple(f"[{name}]" for name in _PINYIN.split())


QWEN2_MARKS = EXPRESSION_TOKENS[1:] + ARPABET_TOKENS + PINYIN_TOKENS
"""The special tokens that a text may hold; the others control the model."""


def special_tokens(family: Family) -> tuple[str, ...]:
    """All special tokens of a family with a Qwen2 vocabulary, in the order of their ids."""
    assert family != "cosyvoice1", "CosyVoice 1 has whisper's vocabulary"
    if family == "cosyvoice2":
        return BASE_TOKENS + EXPRESSION_TOKENS
    return BASE_TOKENS + EXPRESSION_TOKENS + (END_OF_SYSTEM,) + ARPABET_TOKENS + PINYIN_TOKENS


SPLIT_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class Qwen2Tokenizer:
    """Text is split at the special tokens, exactly as written; what lies between goes through NFC and BPE."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer
        self._vocab_size = tokenizer.get_vocab_size(with_added_tokens=True)
        self._added = {
            token_id: token.content for token_id, token in tokenizer.get_added_tokens_decoder().items()
        }
        longest_first = sorted(self._added.values(), key=len, reverse=True)
        self._special = re.compile("|".join(re.escape(token) for token in longest_first) or "(?!)")

    @classmethod
    def from_folder(cls, folder: Path, special_tokens: Sequence[str]) -> "Qwen2Tokenizer":
        """`tokenizer.json` if there is one, else vocab.json and merges.txt, with tokenizer_config.json.

        `special_tokens` the files do not know get the ids from the base length on, in their order. Raises
        TokenizerError, naming the file, if one is missing, malformed or cut short.
        """
        whole = folder / "tokenizer.json"
        if whole.is_file():
            text = read_text_file(whole)
            try:
                tokenizer = Tokenizer.from_str(text)
            except Exception as error:  # the library raises bare Exception
                why = f"not a tokenizer of the `tokenizers` library ({error})"
                raise TokenizerError(f"{whole}: {why}") from error
            tokenizer.no_truncation()
            tokenizer.no_padding()
            _check_alphabet(tokenizer.get_vocab(with_added_tokens=False), whole)
        else:
            tokenizer = _build(folder / "vocab.json", folder / "merges.txt")
        config = folder / "tokenizer_config.json"
        if config.is_file() or not whole.is_file():
            _add_configured_tokens(tokenizer, config)
        tokenizer.add_special_tokens(
            [AddedToken(token, normalized=False, special=True) for token in special_tokens]
        )
        _check_ids(tokenizer.get_vocab(with_added_tokens=True), folder)
        return cls(tokenizer)

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def end_of_prompt_id(self) -> int | None:
        return self._tokenizer.token_to_id(END_OF_PROMPT)

    @property
    def speech_marks(self) -> tuple[str, ...]:
        added = set(self._added.values())
        return tuple(mark for mark in QWEN2_MARKS if mark in added)

    def with_tokens(self, tokens: Sequence[str]) -> str:
        """Return it as a `tokenizer.json` in which these special tokens have the ids from its size on."""
        whole = Tokenizer.from_str(self._tokenizer.to_str())
        whole.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in tokens])
        return str(whole.to_str())

    def encode_text(self, text: str) -> list[int]:
        ids: list[int] = []
        start = 0
        if "<" in text or "[" in text:
            for found in self._special.finditer(text):
                middle = found.start() + 1  # cut behind its first character, it is no special token
                ids += self.encode(text[start:middle])
                start = middle
        return ids + self.encode(text[start:])

    def encode(self, text: str) -> list[int]:
        return self._tokenizer.encode(replace_lone_surrogates(text), add_special_tokens=False).ids

    def decode(self, ids: Sequence[int]) -> str:
        unknown = [token_id for token_id in ids if not 0 <= token_id < self.vocab_size]
        if unknown:
            raise TokenizerError(f"text token {unknown[0]} is not in the vocabulary of {self.vocab_size}")
        runs = groupby(ids, key=self._added.__contains__)
        parts: list[str] = []
        for is_added, run in runs:
            if is_added:  # the byte decoder would read the `ā` of `[ā]` as a byte
                parts += [self._added[token_id] for token_id in run]
            else:
                parts.append(self._tokenizer.decode(list(run), skip_special_tokens=False))
        return "".join(parts)


def _build(vocab_path: Path, merges_path: Path) -> Tokenizer:
    vocab = _read_json_object(vocab_path)
    if not all(type(token_id) is int for token_id in vocab.values()):
        raise TokenizerError(f"{vocab_path}: expected an object of text to integer id")
    try:
        "".join(vocab).encode("utf-8")
    except UnicodeEncodeError as error:  # `"\ud800"`
        raise TokenizerError(f"{vocab_path}: an entry is half a surrogate pair, no text") from error
    _check_ids(vocab, vocab_path)
    merges = _read_merges(merges_path)
    _check_alphabet(vocab, vocab_path)
    _check_merges(vocab, merges, vocab_path, merges_path)
    tokenizer = Tokenizer(BPE(vocab=vocab, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _read_merges(path: Path) -> list[tuple[str, str]]:
    lines = read_text_file(path).split("\n")
    merges: list[tuple[str, str]] = []
    for number, line in enumerate((line.rstrip("\r") for line in lines), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        pair = tuple(line.split(" "))
        if len(pair) != 2 or not all(pair):
            raise TokenizerError(
                f"{path}: line {number} is {line!r}, expected two pieces; is the file cut short?"
            )
        merges.append((pair[0], pair[1]))
    return merges


def _read_json_object(path: Path) -> dict[str, Any]:
    text = read_text_file(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # the latter: `[[[[...`
        raise TokenizerError(f"{path}: not JSON ({error}); is the file cut short?") from error
    if not isinstance(value, dict):
        raise TokenizerError(f"{path}: holds a {type(value).__name__}, expected an object")
    return value


def _add_configured_tokens(tokenizer: Tokenizer, path: Path) -> None:
    """Adds `added_tokens_decoder` of tokenizer_config.json, each token at the id the file says."""
    entries = _read_json_object(path).get("added_tokens_decoder", {})
    flag_names = ("lstrip", "normalized", "rstrip", "single_word")
    tokens: list[tuple[int, AddedToken]] = []
    try:
        for token_id, entry in entries.items():
            flags = {name: bool(entry.get(name, False)) for name in flag_names}
            is_special = bool(entry.get("special", True))
            token = AddedToken(str(entry["content"]), special=is_special, **flags)
            tokens.append((int(token_id), token))
        tokens.sort()
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise TokenizerError(f"{path}: added_tokens_decoder is malformed ({error!r})") from error
    for expected_id, token in tokens:
        tokenizer.add_tokens([token])
        token_id = tokenizer.token_to_id(token.content)
        if token_id != expected_id:
            raise TokenizerError(
                f"{path}: {token.content} has id {expected_id}, the vocabulary puts it at {token_id}"
            )


def _check_alphabet(vocab: dict[str, int], path: Path) -> None:
    missing = [character for character in pre_tokenizers.ByteLevel.alphabet() if character not in vocab]
    if missing:
        raise TokenizerError(
            f"{path}: {len(missing)} of the 256 byte characters are missing, text would be lost"
        )


def _check_merges(
    vocab: dict[str, int], merges: list[tuple[str, str]], vocab_path: Path, merges_path: Path
) -> None:
    """Every merge makes an entry, and every long entry comes from a merge: so a file cut short is noticed."""
    made = {left + right for left, right in merges}
    for left, right in merges:
        if not {left, right, left + right} <= vocab.keys():
            raise TokenizerError(f"{merges_path}: {left!r} + {right!r} is not in {vocab_path.name}")
    unmade = [entry for entry in vocab if len(entry) > 1 and entry not in made]
    if unmade:
        raise TokenizerError(
            f"{merges_path}: {len(unmade)} entries of {vocab_path.name} come from no merge, "
            f"the first {unmade[0]!r}; is the file cut short?"
        )


def _check_ids(vocab: dict[str, int], path: Path) -> None:
    if sorted(vocab.values()) != list(range(len(vocab))):
        raise TokenizerError(
            f"{path}: {len(vocab)} vocabulary entries do not have the ids 0 to {len(vocab) - 1}"
        )
