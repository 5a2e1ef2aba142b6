"""Makes sentences from a grammar of alternatives, as `everyday.txt` writes one."""

import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path

_PIECE = re.compile(r"\{(\w+)\}|\[([^\]]*)\]")


class GrammarError(ValueError):
    """A grammar that cannot be read, or that names what it does not have."""


class Grammar:
    """`name = one | another`; {name} puts one in, [ ... ] is there half of the time, {a} is "a" or "an".

    `words` gives what the rules do not list (numbers, rare words): a function of the random numbers each.
    """

    def __init__(self, path: Path, words: Mapping[str, Callable[[random.Random], str]]) -> None:
        self._rules: dict[str, list[str]] = {}
        self._words = words
        text = re.sub(r"\n\s+\|", " |", path.read_text())
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, equals, alternatives = line.partition(" =")
            if not equals or not name.isidentifier():
                raise GrammarError(
                    f"{path.name}, rule {number}: expected `name = one | another`, got {line[:60]!r}"
                )
            self._rules[name] = [alternative.strip() for alternative in alternatives.split("|")]
        known = self._rules.keys() | words.keys() | {"a"}
        for name, listed in self._rules.items():
            for used in re.findall(r"\{(\w+)\}", " ".join(listed)):
                if used not in known:
                    raise GrammarError(f"{path.name}: rule {name!r} uses {{{used}}}, which no rule gives")

    def sentence(self, rng: random.Random, rule: str = "sentence") -> str:
        text = self._expand(rule, rng)
        text = re.sub(r"\ba\u0001 (?=(\w))", lambda m: "an " if m[1] in "aeiou" else "a ", text)
        return re.sub(r"\s+([.,?!]|$)", r"\1", re.sub(r"\s+", " ", text)).strip()

    def _expand(self, rule: str, rng: random.Random) -> str:
        if rule == "a":
            return "a\u0001"
        if rule in self._words:
            return self._words[rule](rng)
        return self._fill(rng.choice(self._rules[rule]), rng)

    def _fill(self, text: str, rng: random.Random) -> str:
        def one(match: re.Match[str]) -> str:
            if match[1]:
                return self._expand(match[1], rng)
            return self._fill(match[2], rng) if rng.random() < 0.5 else ""

        return _PIECE.sub(one, text)
