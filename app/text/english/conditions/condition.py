"""What a condition is, and those that every subject asks."""

import re
from collections.abc import Callable

from firstword.app.text.english import contexts, vocabulary
from firstword.app.text.english.context import Context

Match = re.Match[str]
Condition = Callable[[Match, Context], bool]


def behind(words: frozenset[str], count: int = 1) -> Condition:
    return lambda found, context: context.is_behind(found.start(), words, count)


def counts(ahead: str) -> bool:
    """Whether a number counts the word that follows it."""
    bare = ahead.strip(vocabulary.EDGES + ".")
    return bare.islower() and (
        bare in contexts.COUNTABLE
        or bare in ("people", "women", "men", "children", "square", "different", "new", "other")
        or (
            bare.endswith("s")
            and not bare.endswith("ss")
            and bare not in ("is", "was", "has", "as", "its", "this")
        )
    )
