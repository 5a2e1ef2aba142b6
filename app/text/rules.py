"""Rules that find what a text is made of, and the choice of those that may fit."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

Around = TypeVar("Around")  # what a reader knows of the words beside a place


@dataclass(frozen=True, slots=True)
class Rule(Generic[Around]):
    """A form, how it is written, and where it is meant; None: everywhere.

    needs: characters of which whatever is so written has one; "": it needs none.
    """

    form: str
    pattern: re.Pattern[str]
    where: Callable[[re.Match[str], Around], bool] | None = None
    needs: str = ""


class Rules(Generic[Around]):
    """Rules for one kind of place, of which the first that fits is taken."""

    def __init__(self, *rules: Rule[Around]) -> None:
        self.rules = rules
        self._needs = [(rule, frozenset(rule.needs)) for rule in rules]
        self._needed = frozenset("".join(rule.needs for rule in rules))
        self._chosen = lru_cache(maxsize=512)(self._choose)

    def among(self, characters: frozenset[str]) -> tuple[Rule[Around], ...]:
        """Return those that may fit in a text of these characters, since to try them all takes longer."""
        return self._chosen(self._needed & characters)

    def _choose(self, found: frozenset[str]) -> tuple[Rule[Around], ...]:
        return tuple([rule for rule, needs in self._needs if not needs or not needs.isdisjoint(found)])


def alternatives(words: Iterable[str]) -> str:
    """Return a pattern that matches one of the words, the longest that fits."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
