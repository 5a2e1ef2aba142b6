"""What stands around a place in an English phrase, and a tag of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from firstword.app.text.english import vocabulary
from firstword.app.text.phrases import Phrase

Fields = Mapping[str, str | None]

CLASSES: Final = (
    *("cardinal", "ordinal", "digits", "date", "time", "duration", "money", "measure", "range", "telephone"),
    *("serial", "fraction", "roman", "address", "electronic", "formula", "abbreviation", "initialism"),
)


@dataclass(frozen=True, slots=True)
class Tag:
    """form: the class and one of its forms, such as "date.day_first". fields: what the pattern found."""

    form: str
    text: str
    fields: dict[str, str | None]

    @property
    def kind(self) -> str:
        """One of CLASSES."""
        return self.form.partition(".")[0]


def value_of(fields: Fields, name: str) -> str:
    """A field that the form's pattern always has."""
    value = fields[name]
    assert value is not None, name
    return value


_ASIDE = re.compile(
    r"(?<!\w)\([nNp]\s?=\s?[\d.,]+\)"
)  # "(n=512)", which makes no formula of what stands before it


class Context:
    """What stands around a place in a phrase."""

    def __init__(self, text: str, phrase: Phrase) -> None:
        self.text = text
        self.phrase = phrase

    @cached_property
    def characters(self) -> frozenset[str]:
        """Those of the text, and "0" where it has any digit."""
        found = frozenset(self.text)
        return found if found.isdisjoint("123456789") else found | {"0"}

    @cached_property
    def has_equals(self) -> bool:
        if "=" in (self.phrase.previous, self.phrase.following):
            return True
        return "=" in self.text and "=" in _ASIDE.sub("", self.text)

    def behind(self, start: int, count: int = 1) -> list[str]:
        """The last words before a place, the nearest first, without punctuation; a sentence's end "
        "stops it."""
        words: list[str] = []
        for word in reversed(f"{self.phrase.before} {self.text[:start]}".split()):
            if len(words) == count or (word[-1] in ".?!" and not vocabulary.is_abbreviation(word)):
                break
            words.append(word.strip(vocabulary.EDGES + "."))
        return words

    def is_behind(self, start: int, words: frozenset[str], count: int = 1) -> bool:
        """Whether one of the last words, in small letters, is one of `words`."""
        return not words.isdisjoint(word.lower() for word in self.behind(start, count))

    def ahead(self, end: int) -> str:
        """The next word, as it is written; "" where the phrase is closed or nothing follows."""
        rest = self.text[end:]
        word = rest.split(maxsplit=1)[0] if rest.strip() else ""
        if word and not rest[0].isspace():
            return ""
        return word or (self.phrase.following if rest == "" or rest.isspace() else "")

    def is_alone(self, start: int, end: int) -> bool:
        """Whether a place is all of the text but for punctuation."""
        around = (self.text[:start], self.text[end:], self.phrase.previous, self.phrase.following)
        return not any(part.strip(vocabulary.EDGES + ". ") for part in around)

    def is_ahead(self, end: int, words: frozenset[str]) -> bool:
        return self.ahead(end).strip(vocabulary.EDGES + ".").lower() in words
