"""Another accent: words that it reads otherwise, and text tokens of its own for R and the vowels before it.

Of these tokens alone a language model learns how the accent says them; all others mean what they meant. Words
that differ in more than that stand in a table.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from firstword.models.tokenizer.heteronyms import (
    TOKEN,
    Heteronyms,
    length_of_open_word,
    with_sounds,
)
from firstword.models.tokenizer.interface import TextTokenizer, TokenizerError
from firstword.models.tokenizer.pronunciation import (
    MAX_LISTED,
    SOUNDS,
    SortedDictionary,
    forms_of,
    with_endings,
)

_POSSESSIVE: Final = "'s"
_R: Final = "[R]"
_VOWELS: Final = tuple(sound for sound in SOUNDS if sound[-2].isdigit())
_WITH_R: Final = {"[ER0]": "[AH0]", "[ER1]": "[ER1]", "[ER2]": "[ER2]"}  # and what each is nearest to


def accent_file(accent: str) -> str:
    """The name of its table, in the checkpoint's folder of pronunciations."""
    return f"{accent}.gz"


def accent_tokens(accent: str) -> tuple[str, ...]:
    """What a checkpoint's text tokenizer has for it: `[british:ER1]`, `[british:AA1+R]`, `[british:+R]`.

    Vowels with an R in them, each vowel in front of an R that no vowel follows, and that R.
    """
    return (
        *(_token(accent, sound) for sound in _WITH_R),
        *(_before_r(accent, vowel) for vowel in _VOWELS),
        _last_r(accent),
    )


class AccentTokens:
    """Text ids of sounds as those of an accent, one for one. Threads may share one."""

    def __init__(self, tokenizer: TextTokenizer, accent: str) -> None:
        """Raises TokenizerError for a tokenizer without the accent's tokens."""

        def id_of(token: str) -> int:
            ids = tokenizer.encode(token)
            if len(ids) != 1:
                raise TokenizerError(
                    f"the text tokenizer has no token {token}, which the accent {accent!r} needs; "
                    "does tokenizer.json belong to this checkpoint?"
                )
            return ids[0]

        self._r, self._last_r = id_of(_R), id_of(_last_r(accent))
        self._ids = {id_of(sound): id_of(_token(accent, sound)) for sound in _WITH_R}
        self._before_r = {id_of(vowel): id_of(_before_r(accent, vowel)) for vowel in _VOWELS}
        self._nearest = tuple(id_of(sound) for sound in _WITH_R.values())

    @property
    def usual_ids(self) -> tuple[int, ...]:
        """What `accent_tokens` are nearest to, in that order."""
        return (*self._nearest, *self._before_r, self._r)

    def read(self, ids: Sequence[int]) -> tuple[int, ...]:
        """ids: of whole words; most stay as they are."""
        read = []
        for index, id in enumerate(ids):
            if self._is_last_r(ids, index):
                read.append(self._last_r)
            elif id in self._before_r and self._is_last_r(ids, index + 1):
                read.append(self._before_r[id])
            else:
                read.append(self._ids.get(id, id))
        return tuple(read)

    def _is_last_r(self, ids: Sequence[int], index: int) -> bool:
        """Whether there is an R that no vowel of its word follows."""
        if index == len(ids) or ids[index] != self._r:
            return False
        return index + 1 == len(ids) or ids[index + 1] not in self._before_r


class AccentedWords:
    """The table of an accent. Threads may share one."""

    def __init__(self, path: Path, heteronyms: Heteronyms | None = None) -> None:
        """heteronyms: of the checkpoint, read first. Raises TokenizerError."""
        self._words = SortedDictionary(path)
        self._heteronyms = heteronyms

    def find(self, text: str, before: str = "") -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Where a word begins and ends that is not read as the dictionary has it, and its sounds.

        before: the text in front of it, of which the last words are enough.
        """
        heteronyms = [] if self._heteronyms is None else self._heteronyms.find(text, before)
        others = {start: sounds for start, _, sounds in heteronyms}
        for token in TOKEN.finditer(text):
            sounds = others.get(token.start()) or self._read(token[0].replace("\u2019", "'"))
            if sounds is not None:
                yield token.start(), token.end(), sounds

    def num_open(self, text: str) -> int:
        """How many characters at the end of a text may be read otherwise once more comes."""
        return length_of_open_word(text)

    def write(self, text: str) -> str:
        """Replace each of these words by its sounds."""
        return with_sounds(text, self.find(text))

    def _read(self, word: str) -> tuple[str, ...] | None:
        end, num_endings = len(word), 0
        while (sounds := self._listed(word, end)) is None:
            ending = word[max(0, end - len(_POSSESSIVE)) : end]
            if end <= len(_POSSESSIVE) or ending.lower() != _POSSESSIVE:
                return None
            end, num_endings = end - len(_POSSESSIVE), num_endings + 1
        return with_endings(sounds, num_endings)

    def _listed(self, word: str, end: int) -> tuple[str, ...] | None:
        """Return the sounds of the word up to there."""
        if end > MAX_LISTED:
            return None
        forms = (self._words.get(form) for form in forms_of(word[:end]))
        return next((sounds for sounds in forms if sounds is not None), None)


def _token(accent: str, sound: str) -> str:
    return f"[{accent}:{sound[1:-1]}]"


def _before_r(accent: str, vowel: str) -> str:
    return f"[{accent}:{vowel[1:-1]}+R]"


def _last_r(accent: str) -> str:
    return f"[{accent}:+R]"
