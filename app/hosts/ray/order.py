"""In which order engines are asked: what Ray carries with a request, and what its router makes of it."""

import hashlib
import random
from collections.abc import Iterable, Sequence
from typing import Final

FORGOTTEN_S: Final = 60.0  # without an answer: Ray has ended an engine by then


class Silence:
    """Which engines said nothing when they were asked last, of those that have answered before."""

    def __init__(self) -> None:
        self.replicas: tuple[str, ...] = ()
        self._answered_s: dict[str, float] = {}  # when an engine last said how it is

    def note(self, answering: set[str], now_s: float) -> None:
        """answering: those that said how they are when all were asked."""
        self._answered_s |= dict.fromkeys(answering, now_s)
        for replica in [one for one, at_s in self._answered_s.items() if now_s - at_s > FORGOTTEN_S]:
            del self._answered_s[replica]
        self.replicas = tuple(self._answered_s.keys() - answering)


def session_of(key: str, nth: int, silent: Iterable[str]) -> str:
    """Return what Ray carries from a handle to its router: "nth|silent|key"."""
    return f"{nth}|{','.join(silent)}|{key}"


def ordered(replicas: Sequence[str], session: str) -> list[str]:
    """Return engines in the order that a session's key gives, from the nth on; without a key in any order.

    Rendezvous hashing: an engine that comes or goes moves no speaker but its own. Those that are silent stand
    behind all others, whichever is the nth; where all are, it is as if none were.
    """
    nth, _, silent_and_key = session.partition("|")
    named, _, key = silent_and_key.partition("|")

    def weight(replica: str) -> bytes:
        return hashlib.sha256(f"{replica} {key}".encode()).digest()

    found = sorted(replicas, key=weight, reverse=True) if key else random.sample(replicas, len(replicas))
    answering = [one for one in found if one not in named.split(",")] or found
    silent = [one for one in found if one not in answering]
    start = int(nth or 0) % max(1, len(answering))
    return answering[start:] + answering[:start] + silent
