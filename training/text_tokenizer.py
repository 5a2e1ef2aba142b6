"""The text tokenizer of the voice: marks of sounds, or a small byte-pair vocabulary over small letters.

Its file says how text is read before it is cut: capitals as small letters, accents dropped, typographic
quotes and dashes as plain ones, brackets and quotation marks not at all.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, normalizers, pre_tokenizers, trainers
from tokenizers.models import BPE

from firstword.models.tokenizer.accents import accent_tokens
from firstword.models.tokenizer.pronunciation import SOUNDS
from firstword.models.tokenizer.qwen2 import PINYIN_TOKENS, SPLIT_PATTERN, Qwen2Tokenizer, special_tokens
from training import corpus
from training.settings import Settings

_READ_AS = (
    ("[\u2018\u2019\u02bc`\u00b4]", "'"),
    (r"[\"“”„«»()\[\]{}*_~^|<>#]", ""),
    ("\\s*[;:\u2026\u2013\u2014]+\\s*", ", "),
    (r"(?<=\p{L})-(?=\p{L})", " "),
)


def read_tokenizer(settings: Settings) -> Qwen2Tokenizer:
    """Made the first time; afterwards the file in <folder>/tokenizer."""
    folder = settings.path / "tokenizer"
    if not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        if settings.language_model.reads == "phonemes":
            write_tokenizer(folder, (), 0, SOUNDS)
            add_accents(folder, settings.spoken_accents)
        else:
            texts = [text for shard in corpus.plan(settings) for text in shard.texts]
            write_tokenizer(folder, texts, settings.language_model.merges)
    return Qwen2Tokenizer.from_folder(folder, special_tokens("cosyvoice2"))


def read_mandarin_tokenizer(settings: Settings) -> Qwen2Tokenizer:
    """`read_tokenizer` with the marks of pinyin behind all it has, in <folder>/tokenizer/mandarin."""
    tokenizer = read_tokenizer(settings)
    folder = settings.path / "tokenizer" / "mandarin"
    folder.mkdir(exist_ok=True)
    Tokenizer.from_str(tokenizer.with_tokens(PINYIN_TOKENS)).save(str(folder / "tokenizer.json"))
    return Qwen2Tokenizer.from_folder(folder, special_tokens("cosyvoice2"))


def exported_folder(settings: Settings) -> Path:
    """Return the folder of the tokenizer that reads all languages of the checkpoint."""
    return settings.path / "tokenizer" / ("mandarin" if "zh" in settings.languages else "")


def take_mandarin_off(folder: Path) -> None:
    """The tokenizer in a folder without the marks of pinyin, which have the highest ids."""
    path = folder / "tokenizer.json"
    whole = json.loads(path.read_text(encoding="utf-8"))
    kept = [token for token in whole["added_tokens"] if token["content"] not in PINYIN_TOKENS]
    path.write_text(json.dumps(whole | {"added_tokens": kept}, ensure_ascii=False), encoding="utf-8")


def add_accents(folder: Path, accents: Iterable[str]) -> None:
    """Their tokens behind all others, those of the family included; those that are there keep their ids."""
    tokens = [token for accent in accents for token in accent_tokens(accent)]
    if tokens:
        tokenizer = Qwen2Tokenizer.from_folder(folder, special_tokens("cosyvoice2"))
        Tokenizer.from_str(tokenizer.with_tokens(tokens)).save(str(folder / "tokenizer.json"))


def write_tokenizer(folder: Path, texts: Iterable[str], num_merges: int, marks: Sequence[str] = ()) -> None:
    """Writes `tokenizer.json`; marks: what is one token wherever it is written."""
    tokenizer = Tokenizer(BPE())
    replacements = [normalizers.Replace(Regex(pattern), said) for pattern, said in _READ_AS]
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), *replacements]
    )
    split = pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + num_merges, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens(list(marks))
    tokenizer.save(str(folder / "tokenizer.json"))
