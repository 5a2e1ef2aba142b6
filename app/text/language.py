"""Languages: their names, and which one a text is in, by its script, then by its words."""

# ruff: noqa: RUF001  Chinese punctuation is meant

import io
import lzma
import re
import threading
from collections import Counter
from collections.abc import Collection
from importlib.resources import files
from typing import Any, Final

MAX_EXAMINED = 512  # characters; more add nothing
MIN_LATIN_LETTERS = 24  # fewer say too little
HAN_PER_WORD = 1.0  # few: Chinese often has foreign names in it, English seldom Chinese ones
NAME_WEIGHT = 0.25  # of a capitalized word or a single letter among characters, where Chinese is spoken
MIN_LEAD = 20.0  # of log likelihood over English; names and jargon reach 17, a real sentence over 30
DEFAULT = "en"
LATIN = (
    "en",
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
    "pl",
    "sv",
    "da",
    "no",
    "fi",
    "cs",
    "hu",
    "ro",
    "tr",
    "vi",
    "id",
)

_SCRIPTS = {
    "ja": "\u3041-\u30fa\u30fc-\u30ff\uff66-\uff9d",
    "ko": "\u1100-\u11ff\u3131-\u318e\uac00-\ud7af",
    "ru": "\u0400-\u052f",
    "ar": "\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc",
    "he": "\u0590-\u05ff",
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hi": "\u0900-\u097f",
    "bn": "\u0980-\u09ff",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "th": "\u0e00-\u0e7f",
    "ka": "\u10a0-\u10ff",
    "hy": "\u0530-\u058f",
}
_WORDS = re.compile(
    "(?P<han>[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+)"
    "|(?P<latin>[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+)|"
    + "|".join(f"(?P<{language}>[{letters}]+)" for language, letters in _SCRIPTS.items())
)
_WRITTEN_IN = {"yue": {"zh"}, "ja": {"ja", "zh"}, "uk": {"ru"}, "fa": {"ar"}}  # others: their own script
NAMES: Final = {
    "en": "English",
    "zh": "Chinese",
    "yue": "Cantonese",
    "ja": "Japanese",
    "ko": "Korean",
    "de": "German",
    "fr": "French",
    "es": "Spanish",
    "it": "Italian",
    "pt": "Portuguese",
    "nl": "Dutch",
    "pl": "Polish",
    "sv": "Swedish",
    "da": "Danish",
    "no": "Norwegian",
    "fi": "Finnish",
    "cs": "Czech",
    "hu": "Hungarian",
    "ro": "Romanian",
    "tr": "Turkish",
    "vi": "Vietnamese",
    "id": "Indonesian",
    "ru": "Russian",
    "uk": "Ukrainian",
    "ar": "Arabic",
    "fa": "Persian",
    "he": "Hebrew",
    "el": "Greek",
    "hi": "Hindi",
    "bn": "Bengali",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "ka": "Georgian",
    "hy": "Armenian",
}
"""By ISO 639 code: every language that is detected, and Cantonese, which is written as Chinese."""
CODES: Final = {name.lower(): code for code, name in NAMES.items()} | {
    "mandarin": "zh",
    "cmn": "zh",
    "zho": "zh",
    "eng": "en",
    "jpn": "ja",
    "kor": "ko",
    "deu": "de",
    "fra": "fr",
    "spa": "es",
    "ita": "it",
    "rus": "ru",
}
"""By other names, in lower case."""
_ORDINAL_STOPS = frozenset(("de", "da", "no", "fi", "cs", "hu", "pl"))
_UKRAINIAN = re.compile("[іїєґІЇЄҐ]")
_PERSIAN = re.compile("[پچژگک]")
_ADDRESS = re.compile(r"[!-~]*(?:://|@|www\.)[!-~]*")
_CHINESE_MARK = re.compile("[，。！？；：、]")
_UNSAID = re.compile(r"\S*(?:://|@|www\.)\S*|<[^<>\s]*>")


_SMALL_WORDS: Final = {
    language: frozenset(words.split())
    for language, words in {
        "en": "the and is are was of to in it you that this with for on at be have not he she they we "
        "what how",
        "de": "der die das und ist nicht ich du wir ein eine kostet mit für auf von zu wie was es sind "
        "hat am im den "
        "dem preis sie er habe guten danke bitte heute morgen uhr",
        "es": "el la los las y es un una de que en con por para está son tengo cuesta hola gracias "
        "buenos días hoy "
        "mañana usted precio euros",
        "fr": "le la les et est un une de des du que dans avec pour pas je tu nous vous il elle sont "
        "bonjour merci "
        "coûte prix aujourd'hui euros",
        "it": "il lo la gli le e è un una di che in con per non sono ho costa ciao grazie buongiorno "
        "oggi domani "
        "prezzo euro",
    }.items()
}
_OWN_LETTERS: Final = {
    **dict.fromkeys("ßäöüÄÖÜ", "de"),
    **dict.fromkeys("ñ¿¡Ñ", "es"),
    **dict.fromkeys("çêœûëïÇ", "fr"),
    **dict.fromkeys("ìò", "it"),
}
_SMALL_WORD = re.compile(r"[^\W\d_]+")


def detect_language(text: str, spoken: Collection[str] = (), before: str = "") -> str:
    """Return ISO 639-1. Short text in Latin letters, and text without letters, counts as English unless its
    small words and its letters are those of another spoken language.

    spoken: by the checkpoint. before: the language of the words in front of it, which decides where the text
    says nothing.
    """
    text = text[:MAX_EXAMINED]
    weights: dict[str, float] = {}
    speaks_chinese = not _WRITTEN_IN["yue"].isdisjoint(spoken)
    for word in _WORDS.finditer(text):
        script = word.lastgroup or "latin"
        weights[script] = weights.get(script, 0.0) + (len(word[0]) / HAN_PER_WORD if script == "han" else 1.0)
    if not weights:
        if speaks_chinese and before != "ja" and _CHINESE_MARK.search(text):
            return "zh"
        return before if before in spoken else DEFAULT
    if speaks_chinese and {"han", "latin"} <= weights.keys():
        words = [word["latin"] for word in _WORDS.finditer(_ADDRESS.sub(" ", text)) if word["latin"]]
        weights["latin"] = sum(1 if len(word) > 1 and word.islower() else NAME_WEIGHT for word in words)
    if "ja" in weights and "han" in weights:
        weights["ja"] += weights.pop("han")
    script = max(weights, key=lambda name: (weights[name], name in spoken, name == "latin", name))
    if script == "latin":
        text = _UNSAID.sub(" ", text)
        if sum(character.isalpha() for character in text) < MIN_LATIN_LETTERS:
            if speaks_chinese and before != "ja" and _CHINESE_MARK.search(text):
                return "zh"
            return _by_small_words(text, spoken, before)
        ranked = _identifier().rank(text)
        language, score = ranked[0]
        if score - dict(ranked)[DEFAULT] >= MIN_LEAD:
            return str(language)
        return _by_small_words(text, spoken, before)
    if script == "ru" and _UKRAINIAN.search(text):
        return "uk"
    if script == "ar" and _PERSIAN.search(text):
        return "fa"
    return "zh" if script == "han" else script


def _by_small_words(text: str, spoken: Collection[str], before: str) -> str:
    """The spoken language most of whose small words and letters a short text has."""
    if not spoken or set(spoken) <= {DEFAULT}:
        return DEFAULT
    counts = dict.fromkeys(_SMALL_WORDS, 0.0)
    for word in _SMALL_WORD.findall(text.lower()):
        languages = [language for language, words in _SMALL_WORDS.items() if word in words]
        for language in languages:
            counts[language] += 1.0 / len(languages)
    for letter in set(text):
        if letter in _OWN_LETTERS:
            counts[_OWN_LETTERS[letter]] += 1.0
    candidates = {
        language: count for language, count in counts.items() if language in spoken or language == DEFAULT
    }
    if before in candidates:
        candidates[before] += 0.5
    best = max(
        candidates, key=lambda language: (candidates[language], language == before, language == DEFAULT)
    )
    is_sure = candidates[best] >= 0.75 or (best == before and candidates[DEFAULT] == 0)
    return best if is_sure and candidates[best] > candidates[DEFAULT] else DEFAULT


def unspoken_languages(text: str, language: str, spoken: Collection[str]) -> list[str]:
    """Return the languages of a text that are not among those spoken, as codes.

    language: of the text as a whole. A script that none of the spoken languages is written in counts as the
    best known language that is, wherever it occurs; Latin letters count for `language` alone.
    """
    scripts = set().union(*(_WRITTEN_IN.get(code, {code}) for code in spoken))
    found = {word.lastgroup.replace("han", "zh") for word in _WORDS.finditer(text) if word.lastgroup}
    found -= {"latin"} | scripts
    if language not in scripts and language not in spoken:
        found = found - _WRITTEN_IN.get(language, set()) | {language}
    return sorted(found)


def is_readable(text: str, language: str, spoken: Collection[str]) -> bool:
    """Whether a text is written in a script, other than the Latin one, of a spoken language.

    A fifth of it at most may be in another: Chinese with a の in it is readable where Chinese is spoken,
    Japanese is not.
    """
    scripts = set().union(*(_WRITTEN_IN.get(code, {code}) for code in spoken))
    if scripts.isdisjoint(_WRITTEN_IN.get(language, {language})):
        return False
    letters = Counter[str]()
    for word in _WORDS.finditer(text):
        letters[(word.lastgroup or "").replace("han", "zh")] += len(word[0])
    return 5 * sum(letters[script] for script in letters.keys() - scripts - {"latin"}) <= letters.total()


def has_ordinal_stops(*spoken: str) -> bool:
    """Whether one of the languages writes ordinals as a number with a full stop."""
    return not _ORDINAL_STOPS.isdisjoint(map(primary_language, spoken))


def primary_language(language: str) -> str:
    """Return the language without its region: "en" of "en-GB"."""
    return language.lower().replace("_", "-").partition("-")[0]


def warm_up() -> None:
    """Load what is loaded at first use: about half a second."""
    _identifier()


_loading = threading.Lock()
_loaded: list[Any] = []


def _identifier() -> Any:
    """As `LanguageIdentifier.from_model_file`, which decompresses in seven hundred pieces and waits before
    each until no other thread imports or computes.
    """
    with _loading:
        if not _loaded:
            packed = (files("py3langid") / "data" / "model.npz.xz").read_bytes()
            unpacked = io.BytesIO(lzma.decompress(packed))
            import numpy as np
            from py3langid.langid import LanguageIdentifier  # type: ignore[import-untyped]

            with np.load(unpacked, allow_pickle=False) as model:
                identifier = LanguageIdentifier(
                    model["ptc"],
                    model["pc"],
                    model["classes"].tolist(),
                    memoryview(model["nextmove"]),
                    model["out_feat"].tolist(),
                    tk_row=memoryview(model["nextmove_row"]),
                )
            identifier.set_languages(LATIN)
            _loaded.append(identifier)
        return _loaded[0]
