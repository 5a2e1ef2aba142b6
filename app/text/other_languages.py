"""What becomes of a text in a language that the checkpoint does not speak: a warning, or a refusal."""

from dataclasses import dataclass
from typing import Final

from firstword.app.errors import InvalidRequest
from firstword.app.text.language import (
    DEFAULT,
    MIN_LATIN_LETTERS,
    NAMES,
    detect_language,
    is_readable,
    unspoken_languages,
)
from firstword.app.text.segment import Item, ItemFeed, Segment

MIN_LETTERS: Final = 2  # a single one, such as a Greek one in a formula, says nothing
PUBLISHED: Final = {
    "CosyVoice2-0.5B": ("zh", "en", "ja", "yue", "ko"),
    "Fun-CosyVoice3-0.5B-2512": ("zh", "en", "ja", "yue", "ko", "de", "es", "fr", "it", "ru"),
}
"""Checkpoints that `firstword download` fetches, the smaller one first, and what they speak."""


@dataclass(frozen=True, slots=True)
class SpokenLanguages:
    """The languages that a checkpoint speaks, as codes, and what becomes of a text in another one."""

    checkpoint: str  # its name
    codes: tuple[str, ...]
    refuses_others: bool = False  # else such a text is spoken, with a warning


class OtherLanguages:
    """Judges the languages of one text, segment by segment as it is read.

    Most of a text is judged, not a name or a sentence in it. English is never refused: it is what a text in
    Latin letters counts as where nothing tells its language; segments that are too short to tell it are
    judged together. Nor is a language refused that is written in the script of a spoken one, where single
    letters tell the two apart.
    """

    def __init__(self, known: SpokenLanguages, asked: str | None = None) -> None:
        """asked: the language that was asked for, which is not judged."""
        self._known = known
        self._asked = asked
        self._num_letters = 0
        self._short = ""  # segments in Latin letters that are not judged yet
        self._num_unspoken: dict[str, int] = {}  # letters, by language

    def read(self, spoken: str, language: str) -> list[str]:
        """Return what to warn of in a segment, in ASCII. language: of it as a whole."""
        known = self._known
        unspoken = unspoken_languages(spoken, language, known.codes)
        num_letters = _num_letters(spoken)
        self._num_letters += num_letters
        if self._asked is None and language == DEFAULT and num_letters < MIN_LATIN_LETTERS:
            self._short += f" {spoken}"
            num_letters = _num_letters(self._short)
            if num_letters >= MIN_LATIN_LETTERS:
                language = detect_language(self._short)
                unspoken += [code for code in (language,) if code not in (*known.codes, *unspoken)]
                self._short = ""
        if language in unspoken and language != DEFAULT and not is_readable(spoken, language, known.codes):
            self._num_unspoken[language] = self._num_unspoken.get(language, 0) + num_letters
        only = f"{known.checkpoint:.60} speaks {', '.join(known.codes)} only"
        return [
            f"the text seems to have {_named(code)} in it, and {only}; {remedy(code, known.checkpoint)}"
            for code in unspoken
        ]

    def check(self, is_whole: bool = True) -> None:
        """Raise InvalidRequest where most of what was read is not spoken, and such a text is refused.

        is_whole: no text follows soon; else a few letters decide nothing, as a text may begin with a name.
        """
        known, num_unspoken = self._known, sum(self._num_unspoken.values())
        if not known.refuses_others or num_unspoken < MIN_LETTERS:
            return
        if not is_whole and self._num_letters < MIN_LATIN_LETTERS:
            return
        if 2 * num_unspoken > self._num_letters:
            code = max(self._num_unspoken, key=self._num_unspoken.__getitem__)
            asked = DEFAULT if DEFAULT in known.codes else known.codes[0]
            raise InvalidRequest(
                f"the text seems to be {_named(code)}, and {known.checkpoint:.60} speaks "
                f"{', '.join(known.codes)} only; {remedy(code, known.checkpoint)}; if it does speak it, add "
                f"{code} to languages in its firstword.json; to hear it all the same, ask for the language "
                f"{asked}, or start the server with FIRSTWORD_OTHER_LANGUAGES=warn",
                "text",
            )


class JudgedFeed:
    """An `ItemFeed` whose text is judged by its languages as it is read."""

    def __init__(self, feed: ItemFeed, languages: OtherLanguages, warnings: list[str], refuses: bool) -> None:
        """warnings: gets what is not spoken, each once. refuses: False, it is warned of and never refused."""
        self._feed = feed
        self._languages = languages
        self._warnings = warnings
        self._refuses = refuses

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        items = self._feed.read(piece, flushes, is_end)
        for item in items:
            if isinstance(item, Segment):
                found = self._languages.read(item.spoken, item.language)
                self._warnings += [warning for warning in found if warning not in self._warnings]
        if self._refuses:
            self._languages.check(is_whole=flushes)
        return items


def remedy(language: str, checkpoint: str) -> str:
    """Say how to have a language spoken, by its code, that a checkpoint does not speak. In ASCII."""
    others = (name for name in PUBLISHED if name != checkpoint)
    name = next((name for name in others if language in PUBLISHED[name]), None)
    if name is None:
        return f"no checkpoint that is known here speaks {NAMES.get(language, language)}"
    return f"{name} does: firstword download {name}, then FIRSTWORD_CHECKPOINT=models/{name}"


def _num_letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _named(code: str) -> str:
    return f"{NAMES[code]} ({code})" if code in NAMES else code
