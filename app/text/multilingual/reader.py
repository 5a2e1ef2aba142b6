"""Read a phrase in one of the languages: its numbers in words, everything else as it is."""

from firstword.app.text.multilingual import LANGUAGES
from firstword.app.text.multilingual.locales import LOCALES
from firstword.app.text.multilingual.tagger import Tag, tag
from firstword.app.text.multilingual.verbalizer import verbalize
from firstword.app.text.phrases import Phrase

_WAVES = tuple("~〜\uff5e")


def say_other(text: str, phrase: Phrase, language: str) -> str:
    """Return how a phrase is spoken. text: the phrase, cleaned; language: one of LANGUAGES."""
    assert language in LANGUAGES, language
    if text in _WAVES and phrase.previous[-1:].isdecimal() and phrase.following[:1].isdecimal():
        return LOCALES[language].to
    if not any(character.isdecimal() for character in text):
        return text
    spoken, written = "", ""
    is_spaced = language != "ja"
    for part in tag(text, phrase, language):
        source = part.text if isinstance(part, Tag) else part
        previous = (written.split() or [phrase.previous])[-1]
        more = (
            verbalize(part, language, previous, _following(text[len(written) + len(source) :], phrase))
            if isinstance(part, Tag)
            else part
        )
        is_joined = _is_ending(part) or more == LOCALES["ko"].to
        if is_spaced and spoken[-1:].isalnum() and more[:1].isalnum() and not is_joined:
            spoken += " "
        spoken += more
        written += source
    return " ".join(spoken.split())


def _following(rest: str, phrase: Phrase) -> str:
    return (rest.split() or ["" if rest else phrase.following])[0].strip(".,;:!?")


def _is_ending(part: Tag | str) -> bool:
    """Whether what stands behind a number is written to it, such as a Korean counter or ending."""
    return isinstance(part, str)
