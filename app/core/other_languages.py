"""What becomes of a text in a language that the checkpoint does not speak: a warning, or a refusal."""

from collections.abc import Iterable
from typing import Final

from firstword.app.core.request import EngineInfo
from firstword.app.errors import InvalidRequest
from firstword.app.text.language import (
    DEFAULT,
    MIN_LATIN_LETTERS,
    NAMES,
    detect_language,
    is_readable,
    unspoken_languages,
)
from firstword.app.text.segment import Item, Segment

MIN_LETTERS: Final = 2  # a single one, such as a Greek one in a formula, says nothing
PUBLISHED: Final = {
    "CosyVoice2-0.5B": ("zh", "en", "ja", "yue", "ko"),
    "Fun-CosyVoice3-0.5B-2512": ("zh", "en", "ja", "yue", "ko", "de", "es", "fr", "it", "ru"),
}
"""Checkpoints that `firstword download` fetches, the smaller one first, and what they speak."""


class OtherLanguages:
    """Judges the languages of one text, segment by segment as it is read.

    Most of a text is judged, not a name or a sentence in it. English is never refused: it is what a text in
    Latin letters counts as where nothing tells its language; segments that are too short to tell it are
    judged together. Nor is a language refused that is written in the script of a spoken one, where single
    letters tell the two apart.
    """

    def __init__(self, info: EngineInfo, asked: str | None = None) -> None:
        """asked: the language that was asked for, which is not judged."""
        self._info = info
        self._asked = asked
        self._num_letters = 0
        self._short = ""  # segments in Latin letters that are not judged yet
        self._num_unspoken: dict[str, int] = {}  # letters, by language

    def read(self, spoken: str, language: str) -> list[str]:
        """Return what to warn of in a segment, in ASCII. language: of it as a whole."""
        info = self._info
        unspoken = unspoken_languages(spoken, language, info.languages)
        num_letters = _num_letters(spoken)
        self._num_letters += num_letters
        if self._asked is None and language == DEFAULT and num_letters < MIN_LATIN_LETTERS:
            self._short += f" {spoken}"
            num_letters = _num_letters(self._short)
            if num_letters >= MIN_LATIN_LETTERS:
                language = detect_language(self._short)
                unspoken += [code for code in (language,) if code not in (*info.languages, *unspoken)]
                self._short = ""
        if language in unspoken and language != DEFAULT and not is_readable(spoken, language, info.languages):
            self._num_unspoken[language] = self._num_unspoken.get(language, 0) + num_letters
        only = f"{info.checkpoint:.60} speaks {', '.join(info.languages)} only"
        return [
            f"the text seems to have {_named(code)} in it, and {only}; {remedy(code, info)}"
            for code in unspoken
        ]

    def read_all(self, items: Iterable[Item], warnings: list[str]) -> None:
        """Read the segments among the items; add what to warn of, each once."""
        for item in items:
            if isinstance(item, Segment):
                found = self.read(item.spoken, item.language)
                warnings += [warning for warning in found if warning not in warnings]

    def check(self, is_whole: bool = True) -> None:
        """Raise InvalidRequest where most of what was read is not spoken, and such a text is refused.

        is_whole: no text follows soon; else a few letters decide nothing, as a text may begin with a name.
        """
        num_unspoken = sum(self._num_unspoken.values())
        if not self._info.refuses_other_languages or num_unspoken < MIN_LETTERS:
            return
        if not is_whole and self._num_letters < MIN_LATIN_LETTERS:
            return
        if 2 * num_unspoken > self._num_letters:
            info, code = self._info, max(self._num_unspoken, key=self._num_unspoken.__getitem__)
            asked = DEFAULT if DEFAULT in info.languages else info.languages[0]
            raise InvalidRequest(
                f"the text seems to be {_named(code)}, and {info.checkpoint:.60} speaks "
                f"{', '.join(info.languages)} only; {remedy(code, info)}; if it does speak it, add {code} to "
                f"languages in its firstword.json; to hear it all the same, ask for the language {asked}, or "
                "start the server with FIRSTWORD_OTHER_LANGUAGES=warn",
                "text",
            )


def remedy(language: str, info: EngineInfo) -> str:
    """Say how to have a language spoken, by its code. In ASCII."""
    others = (name for name in PUBLISHED if name != info.checkpoint)
    name = next((name for name in others if language in PUBLISHED[name]), None)
    if name is None:
        return f"no checkpoint that is known here speaks {NAMES.get(language, language)}"
    return f"{name} does: firstword download {name}, then FIRSTWORD_CHECKPOINT=models/{name}"


def _num_letters(text: str) -> int:
    return sum(map(str.isalpha, text))


def _named(code: str) -> str:
    return f"{NAMES[code]} ({code})" if code in NAMES else code
