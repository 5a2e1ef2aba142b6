"""Words that a British speaker reads otherwise than an American one, in the sounds of ARPAbet, from misaki's
British lexica (Apache-2.0), which hibari brings.

ARPAbet is American. A language model that knows the accent reads [AA][R] as the vowel of "start" and "bath",
and says [R] only before a vowel; so only words that differ in more are here, none for the vowel of "lot".
"""

# ruff: noqa: RUF001
import gzip
import json
import re
from pathlib import Path

from firstword.models.tokenizer.pronunciation import Dictionary
from training.pronunciation.dictionary import WEAK
from training.text.arpabet import marks_of

_LEXICA = ("lexicon_gb_silver.json.gz", "lexicon_gb_gold.json.gz")  # the second is the better one
_WORD = re.compile("[A-Za-z']*[A-Za-z][A-Za-z']*")

# Misaki's British symbols, and the American ones of which `marks_of` makes the marks above.
_AMERICAN = (
    *(("ɑːɹ", "ɑɹ"), ("ɑː", "ɑɹ"), ("ɜːɹ", "ɜ"), ("ˈɪəɹ", "ˈɪɹ"), ("ˈɪə", "ˈɪɹ"), ("ɪə", "iə")),
    *(("ɛːɹ", "ɛɹ"), ("ɛː", "ɛɹ"), ("ʊəɹ", "ʊɹ"), ("ʊə", "ʊɹ"), ("Q", "O"), ("ː", "")),
)

_VOWEL = re.compile("(?P<vowel>[A-Z]{2})(?P<stress>[0-2])")
_WEAK = frozenset(("AH", "IH", "EH", "UH", "ER", "AE", "AA", "AO", "IY"))  # alike where they have no stress
_BEFORE_R = {
    "AA": "start",
    "AO": "AO",
    "IH": "near",
    "IY": "near",
    "EH": "square",
    "AE": "square",
    "UH": "cure",
}


def readings(american: Dictionary) -> Dictionary:
    """Of the words of a dictionary those that a British speaker reads otherwise."""
    import hibari

    folder = Path(hibari.__file__).parent / "assets"
    british: Dictionary = {}
    for name in _LEXICA:
        for word, read in json.loads(gzip.decompress((folder / name).read_bytes())).items():
            symbols = read["DEFAULT"] if isinstance(read, dict) else read
            marks = british_marks(symbols) if symbols and _WORD.fullmatch(word) else None
            usual = None if word.lower() in WEAK else american.get(word)
            if marks is not None and usual is not None and said(marks) != said(usual):
                british[word] = marks
            else:
                british.pop(word, None)
    return british


def british_marks(symbols: str) -> tuple[str, ...] | None:
    """Misaki's British symbols of one word as marks; None for a symbol that is no sound of English."""
    for british, american in _AMERICAN:
        symbols = symbols.replace(british, american)
    return marks_of(symbols)


def said(marks: tuple[str, ...]) -> tuple[str, ...]:
    """What a British speaker says of marks: alike for those that come to the same."""
    names = [mark.strip("[]") for mark in marks]
    sounds: list[str] = []
    for place, name in enumerate(names):
        found = _VOWEL.fullmatch(name)
        behind = names[place + 1] if place + 1 < len(names) else ""
        is_last_r = name == "R" and not _VOWEL.fullmatch(behind)
        if found is None:
            sounds += [] if is_last_r else [name]
            continue
        vowel, is_stressed = found["vowel"], found["stress"] == "1"
        following = names[place + 2] if place + 2 < len(names) else ""
        if behind == "R" and not _VOWEL.fullmatch(following):
            vowel = _BEFORE_R.get(vowel, vowel)
        elif not is_stressed and vowel in _WEAK:
            vowel = "weak"
        elif vowel == "AA":
            vowel = "AO"
        sounds.append(f"{vowel}{int(is_stressed)}")
    return tuple(sounds)
