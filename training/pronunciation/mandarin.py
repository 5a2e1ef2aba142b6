"""The file of Mandarin's phrases: pypinyin's, with its readings of single characters (MIT), and the
simplified forms of traditional characters from OpenCC's tables, as opencc-python-reimplemented (both
Apache-2.0) brings them.
"""

import gzip
import re
import unicodedata
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
_TONED_ALIKE = {"一": "yi1", "不": "bu4"}
_TONE_MARKS = "\u0304\u0301\u030c\u0300"
_CHILDREN = (  # in which 儿 is a child, or a syllable of its own for another reason
    *("女儿", "男儿", "婴儿", "幼儿", "少儿", "小儿", "孤儿", "孙儿", "侄儿", "妻儿", "胎儿", "健儿", "乞儿"),
    *("低能儿", "早产儿", "混血儿", "弄潮儿", "宁馨儿", "伯道无儿", "倒绷孩儿", "虎不食儿", "燕儿"),
)
_SLOTS = {
    "{n}": tuple("一两二三四五六七八九十几这那哪每百半整"),
    "{p}": (*"我你他她您咱谁", "我们", "你们", "他们", "她们", "咱们", "大家"),
}
_DOUBLED = re.compile(r"(.)\1|.(.)\2|(.)\3(.)\4")  # 慢慢, 静悄悄, 高高兴兴


def write_phrases(path: Path) -> None:
    """The same packages give the same bytes. Raises ModuleNotFoundError."""
    characters, phrases = collect()
    simplified = traditional_characters()
    characters |= _DEFAULTS
    phrases = _with_dictionary_tones(phrases)
    phrases |= _endings(phrases)
    corrections = _corrections(characters, phrases)
    phrases |= corrections
    phrases |= _adverbs(phrases) | corrections | _with_traditional_zhe(phrases)
    phrases = _with_own_tones(characters, phrases)
    lines = {one: simplified.get(one, read) for one, read in characters.items() if _CHARACTER.match(one)}
    table = str.maketrans(simplified)
    # simplified phrases last: they count where a traditional one is written alike
    for phrase in sorted(phrases, key=lambda one: (one.translate(table) == one, one)):
        own = [characters.get(simplified.get(one, one), "") for one in phrase]
        read = ["" if one == other else one for one, other in zip(phrases[phrase], own, strict=True)]
        lines[phrase.translate(table)] = " ".join(read) if any(read) else ""
    content = "".join(f"{line}\n" for line in sorted(f"{one}\t{read}" for one, read in lines.items()))
    path.write_bytes(gzip.compress(content.encode(), 9, mtime=0))


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
        one: forms.get(form, form)  # one form is traditional itself
        for one, form in forms.items()
        if one != form and _CHARACTER.match(one) and _CHARACTER.match(form) and one not in _DEFAULTS
    }


def _syllable(read: str) -> str:
    """A mark of the voice has to be there for it. Raises ValueError."""
    plain, tone = read.rstrip("1234").replace("ê", "ei"), read.lstrip("abcdefghijklmnopqrstuvwxyzê")
    syllable = _WITH_VOWEL.get(plain, plain) + tone
    pinyin_marks(syllable)
    return syllable


def _with_dictionary_tones(phrases: Readings) -> Readings:
    """一 as yi1 and 不 as bu4 unless light; pypinyin writes them as the character behind changes them."""
    return {
        phrase: tuple(
            _TONED_ALIKE[one] if read[:-1] == _TONED_ALIKE.get(one, "")[:-1] and read[-1].isdigit() else read
            for one, read in zip(phrase, syllables, strict=True)
        )
        for phrase, syllables in phrases.items()
    }


def _endings(phrases: Readings) -> Readings:
    """Those at whose end pypinyin gives 儿 a syllable of its own though it is an ending: 哪儿."""
    return {
        phrase: (*syllables[:-1], "er")
        for phrase, syllables in phrases.items()
        if phrase.endswith("儿") and not phrase.endswith(_CHILDREN)
    }


def _with_own_tones(characters: Mapping[str, str], phrases: Readings) -> Readings:
    """The character's own tone where CosyVoice has no mark for a light one: 漂亮 as piao4 liang4."""
    return {
        phrase: tuple(
            characters[one] if _lacks_light_mark(read) and characters[one][:-1] == read else read
            for one, read in zip(phrase, syllables, strict=True)
        )
        for phrase, syllables in phrases.items()
    }


def _lacks_light_mark(syllable: str) -> bool:
    """Whether a syllable without a tone gets a mark with one."""
    toned = any(tone in unicodedata.normalize("NFD", pinyin_marks(syllable)[-1]) for tone in _TONE_MARKS)
    return toned and syllable[-1].isalpha()


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
