# ruff: noqa: RUF001, RUF002  letters of IPA are meant
"""Write pronunciations in IPA, ARPAbet and pinyin as CosyVoice's phoneme marks."""

import re
import unicodedata
from typing import Final

ALPHABETS: Final = ("ipa", "x-cmu-arpabet", "pinyin")
MAX_PHONEMES = 100  # of one word

_IPA = {
    **{"ɑ": "AA", "ɒ": "AA", "æ": "AE", "a": "AA", "ʌ": "AH", "ə": "AH", "ɐ": "AH", "ɔ": "AO", "aʊ": "AW"},
    **{"aɪ": "AY", "ɛ": "EH", "e": "EH", "ɝ": "ER", "ɜ": "ER", "ɚ": "ER", "eɪ": "EY", "ɪ": "IH", "i": "IY"},
    **{"oʊ": "OW", "əʊ": "OW", "o": "OW", "ɔɪ": "OY", "ʊ": "UH", "u": "UW", "b": "B", "tʃ": "CH", "d": "D"},
    **{"ð": "DH", "f": "F", "ɡ": "G", "g": "G", "h": "HH", "dʒ": "JH", "k": "K", "l": "L", "ɫ": "L"},
    **{"m": "M", "n": "N", "ŋ": "NG", "p": "P", "r": "R", "ɹ": "R", "ɾ": "D", "s": "S", "ʃ": "SH", "t": "T"},
    **{"θ": "TH", "v": "V", "w": "W", "j": "Y", "z": "Z", "ʒ": "ZH"},
}
_IPA_UNIT = re.compile("|".join(sorted(map(re.escape, _IPA), key=len, reverse=True)) + r"|[ˈˌ'ː.ʔ‿ ͡]")
_ARPABET = re.compile(r"(AA|AE|AH|AO|AW|AY|EH|ER|EY|IH|IY|OW|OY|UH|UW)([0-2]?)|[A-Z]{1,2}")
_INITIALS = "zh|ch|sh|b|p|m|f|d|t|n|l|g|k|h|j|q|x|r|z|c|s|y|w"
_SYLLABLE = re.compile(rf"(?P<initial>{_INITIALS})?(?P<final>[a-zü]+)(?P<tone>[0-5])?")
_TONES = {1: "\u0304", 2: "\u0301", 3: "\u030c", 4: "\u0300"}
_TONED_VOWEL = re.compile(r"[ae]|o(?=u)|[iouü](?![aeiouü])")


def phoneme_marks(alphabet: str, pronunciation: str) -> tuple[str, ...]:
    """alphabet: one of ALPHABETS. Raise ValueError that says what is not one of its sounds.

    >>> phoneme_marks("x-cmu-arpabet", "M AY0")
    ('[M]', '[AY0]')
    """
    if alphabet == "ipa":
        sounds = _of_ipa(pronunciation)
    elif alphabet == "x-cmu-arpabet":
        sounds = _of_arpabet(pronunciation)
    elif alphabet == "pinyin":
        sounds = _of_pinyin(pronunciation)
    else:
        raise ValueError(f"alphabet {alphabet[:40]!r} is unknown; choose one of {', '.join(ALPHABETS)}")
    if not 1 <= len(sounds) <= MAX_PHONEMES:
        raise ValueError(f"{len(sounds)} sounds; expected 1 to {MAX_PHONEMES}")
    return tuple(f"[{sound}]" for sound in sounds)


def _of_ipa(text: str) -> list[str]:
    """English sounds; a vowel behind ˈ is stressed, or the only one."""
    text = unicodedata.normalize("NFC", text.strip().strip("/[]"))
    sounds: list[str] = []
    position, stress = 0, ""
    while position < len(text):
        found = _IPA_UNIT.match(text, position)
        if found is None:
            raise ValueError(f"{text[position]!r} is no English sound of IPA")
        position = found.end()
        if found[0] in ("ˈ", "'", "ˌ"):
            stress = "2" if found[0] == "ˌ" else "1"
        elif found[0] in _IPA:
            sound = _IPA[found[0]]
            if sound[0] in "AEIOU":
                sound += stress or "0"
                stress = ""
            sounds.append(sound)
    if sum(sound[-1].isdigit() for sound in sounds) == 1:
        sounds = [sound.replace("0", "1") for sound in sounds]
    return sounds


def _of_arpabet(text: str) -> list[str]:
    sounds = text.upper().replace("-", " ").replace(".", " ").split()
    for sound in sounds:
        if not _ARPABET.fullmatch(sound):
            raise ValueError(f"{sound[:20]!r} is no sound of ARPAbet")
    return sounds


def _of_pinyin(text: str) -> list[str]:
    """Syllables with a number or a mark for their tone, such as ji3 or jǐ."""
    sounds: list[str] = []
    for syllable in text.lower().replace("u:", "ü").replace("'", " ").split():
        plain = unicodedata.normalize("NFD", syllable.replace("v", "ü"))
        tones = [number for number, tone in _TONES.items() if tone in plain]
        plain = unicodedata.normalize("NFC", "".join(one for one in plain if one not in _TONES.values()))
        found = _SYLLABLE.fullmatch(plain)
        if found is None:
            raise ValueError(f"{syllable[:20]!r} is no syllable of pinyin")
        final = found["final"]
        tone = tones[0] if tones else int(found["tone"] or 0)
        vowel = _TONED_VOWEL.search(final)
        if tone in _TONES and vowel:
            final = final[: vowel.end()] + _TONES[tone] + final[vowel.end() :]
        final = unicodedata.normalize("NFC", final).replace("üè", "vè")  # as that mark is spelled
        sounds += [*filter(None, [found["initial"]]), final]
    return sounds
