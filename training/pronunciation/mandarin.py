"""The file of Mandarin's phrases: pypinyin's, with its readings of single characters (MIT), and the
simplified forms of traditional characters from OpenCC's tables, as opencc-python-reimplemented (both
Apache-2.0) brings them.
"""

import gzip
import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from firstword.models.tokenizer.mandarin import HAN, pinyin_marks

Readings = dict[str, tuple[str, ...]]
"""The syllables of characters and phrases, one for each character."""

CORRECTIONS: Final = Path(__file__).with_name("mandarin_corrections.txt")

_CHARACTER = re.compile("[\u3007\u4e00-\u9fff]")  # those that have a line of their own
_PHRASE = re.compile(f"[{HAN}]{{2,}}")
_WITH_VOWEL = {"n": "en", "ng": "en", "m": "mu", "hm": "heng", "hng": "heng"}  # 嗯 and the like
_DEFAULTS = {  # more often than pypinyin's, and of traditional ones that are simplified ones as well
    **{"长": "chang2", "得": "de", "嗯": "en4"},
    **{"乾": "gan1", "著": "zhe", "瞭": "liao3"},
}
_SLOTS = {
    "{n}": tuple("一两二三四五六七八九十几这那哪每百半整"),
    "{p}": (*"我你他她您咱谁", "我们", "你们", "他们", "她们", "咱们", "大家"),
}
_DOUBLED = re.compile(r"(.)\1|.(.)\2|(.)\3(.)\4")  # 慢慢, 静悄悄, 高高兴兴


def write_phrases(path: Path, corrects: bool = True) -> None:
    """The same packages give the same bytes. corrects: False, as pypinyin reads.

    Raises ModuleNotFoundError.
    """
    characters, phrases = collect()
    simplified = traditional_characters()
    if corrects:
        characters |= _DEFAULTS
        phrases |= _corrections(characters, phrases)
        phrases |= _adverbs(phrases) | _with_traditional_zhe(phrases)
    else:
        simplified = {one: other for one, other in simplified.items() if one not in _DEFAULTS}
    table = str.maketrans(simplified)
    lines = {
        f"{one}\t{simplified.get(one, read)}" for one, read in characters.items() if _CHARACTER.match(one)
    }
    for phrase, syllables in phrases.items():
        own = [characters.get(simplified.get(one, one), "") for one in phrase]
        read = ["" if one == other else one for one, other in zip(syllables, own, strict=True)]
        lines.add(f"{phrase.translate(table)}\t{' '.join(read) if any(read) else ''}")
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in sorted(lines)).encode(), 9, mtime=0))


def collect() -> tuple[dict[str, str], Readings]:
    """The first reading of each character, and the phrases'. Raises ModuleNotFoundError."""
    if find_spec("pypinyin") is None:
        raise ModuleNotFoundError("pypinyin is missing; fix: pip install -e '.[voice]'")
    from pypinyin.constants import PHRASES_DICT, PINYIN_DICT
    from pypinyin.contrib.tone_convert import to_tone3

    characters = {chr(code): _syllable(to_tone3(read.split(",")[0])) for code, read in PINYIN_DICT.items()}
    phrases = {
        phrase: tuple(_syllable(to_tone3(one[0])) for one in read)
        for phrase, read in PHRASES_DICT.items()
        if _PHRASE.fullmatch(phrase) and len(read) == len(phrase)
    }
    return characters, phrases


def traditional_characters() -> dict[str, str]:
    """The simplified form of each, but of those that stand in simplified text as well.

    Raises ModuleNotFoundError.
    """
    package = find_spec("opencc")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("opencc is missing; fix: pip install -e '.[voice]'")
    table = (Path(package.origin).parent / "dictionary" / "TSCharacters.txt").read_text(encoding="utf-8")
    pairs = (line.split("\t") for line in table.splitlines())
    forms = {one: forms.split(" ")[0] for one, forms in pairs}
    return {
        one: form
        for one, form in forms.items()
        if one != form and _CHARACTER.match(one) and _CHARACTER.match(form) and one not in _DEFAULTS
    }


def _syllable(read: str) -> str:
    """A mark of the voice has to be there for it. Raises ValueError."""
    plain, tone = read.rstrip("1234").replace("ê", "ei"), read.lstrip("abcdefghijklmnopqrstuvwxyzê")
    syllable = _WITH_VOWEL.get(plain, plain) + tone
    pinyin_marks(syllable)
    return syllable


def _corrections(characters: Mapping[str, str], known: Readings) -> Readings:
    phrases = {}
    for line in CORRECTIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            written, *syllables = line.split(" ")
            slot, words = next(
                ((slot, words) for slot, words in _SLOTS.items() if slot in written), ("", [""])
            )
            for word in words:
                phrase = written.replace(slot, word) if slot else written
                read = ["-"] * (len(word) - 1 if slot else 0) + syllables
                usual = known.get(phrase, tuple(characters[one] for one in phrase))
                phrases[phrase] = tuple(
                    one if syllable == "-" else syllable for one, syllable in zip(usual, read, strict=True)
                )
    return phrases


def _adverbs(phrases: Readings) -> Readings:
    """Doubled words with the 地 that makes adverbs of them: 高高兴兴地."""
    return {
        f"{phrase}地": (*syllables, "de")
        for phrase, syllables in phrases.items()
        if _DOUBLED.fullmatch(phrase)
    }


def _with_traditional_zhe(phrases: Readings) -> Readings:
    """Those with 着 that is not read "zhe", as traditional text writes them: 睡著."""
    return {
        phrase.replace("着", "著"): syllables
        for phrase, syllables in phrases.items()
        if any(one == "着" and read != "zhe" for one, read in zip(phrase, syllables, strict=True))
    }
