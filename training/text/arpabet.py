"""ARPAbet as CosyVoice writes it, `[HH][AH0][L][OW1]`, and how misaki's symbols are written in it."""

# ruff: noqa: RUF001
import re

_VOWELS_TEXT = """
    A EY I AY O OW W AW Y OY i IY u UW ɑ AA ɔ AO ɛ EH ɪ IH ʊ UH ʌ AH ə AH æ AE ᵊ AH ᵻ IH a AE ɐ AH ɒ AA Q OW
    ɜ ER e EH o OW
"""
_CONSONANTS_TEXT = """
    b B ʧ CH d D ð DH f F ɡ G h HH ʤ JH k K l L m M n N ŋ NG p P ɹ R s S ʃ SH t T θ TH v V w W j Y z Z ʒ ZH
    ɾ T T T ʔ T
"""


def _pairs(text: str) -> dict[str, str]:
    words = text.split()
    return dict(zip(words[::2], words[1::2], strict=True))


_VOWELS, _CONSONANTS = _pairs(_VOWELS_TEXT), _pairs(_CONSONANTS_TEXT)
_STRESS = {"ˈ": "1", "ˌ": "2"}
_RHOTIC = re.compile("[ɜə]ɹ")
_R_VOWEL = "ɜ"


def marks_of(symbols: str) -> tuple[str, ...] | None:
    """Misaki's symbols of one word as marks; None for a symbol that is no sound of English."""
    marks = []
    stress = "0"
    for symbol in _RHOTIC.sub(_R_VOWEL, symbols):
        if symbol in _STRESS:
            stress = _STRESS[symbol]
        elif symbol in _VOWELS:
            marks.append(f"[{_VOWELS[symbol]}{stress}]")
            stress = "0"
        elif symbol in _CONSONANTS:
            marks.append(f"[{_CONSONANTS[symbol]}]")
        elif symbol != "ː":
            return None
    return tuple(marks) or None
