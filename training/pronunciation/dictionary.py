"""The pronouncing dictionary: misaki's American lexica (Apache-2.0), which hibari brings, as ARPAbet."""

import gzip
import json
import re
from pathlib import Path

from firstword.models.tokenizer.pronunciation import FIRST_CODE, SOUNDS, Dictionary
from training.text.arpabet import marks_of

_LEXICA = ("lexicon_us_silver.json.gz", "lexicon_us_gold.json.gz")  # the second is the better one
_WORD = re.compile(r"[A-Za-z']*[A-Za-z][A-Za-z']*")
_WEAK = {"the": "ðə", "a": "ə", "an": "ən", "to": "tə", "and": "ənd"}  # as they are said in a sentence


def collect() -> Dictionary:
    """Every word of letters; a word with several readings has its commonest."""
    import hibari

    folder = Path(hibari.__file__).parent / "assets"
    words: Dictionary = {}
    for name in _LEXICA:
        entries = json.loads(gzip.decompress((folder / name).read_bytes()))
        for word, read in (entries | _WEAK if name == _LEXICA[-1] else entries).items():
            symbols = read["DEFAULT"] if isinstance(read, dict) else read
            marks = marks_of(symbols) if symbols and _WORD.fullmatch(word) else None
            if marks is not None:
                words[word] = marks
    return words


def write_dictionary(path: Path, words: Dictionary) -> None:
    """One word a line, each mark a letter; the same words give the same bytes."""
    letters = {mark: chr(FIRST_CODE + place) for place, mark in enumerate(SOUNDS)}
    lines = [f"{word}\t{''.join(letters[mark] for mark in words[word])}\n" for word in sorted(words)]
    path.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
