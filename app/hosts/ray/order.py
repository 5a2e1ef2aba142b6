"""In which order engines are asked: what Ray carries with a request, and what its router makes of it."""

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence


class Silence:
    """Which engines said nothing when they were asked last, of those that have answered before."""

    def __init__(self) -> None:
        self.replicas: tuple[str, ...] = ()
        self.late: tuple[str, ...] = ()  # those of them that did not answer in time
        self._names: dict[str, str] = {}  # of those that have answered, by their actors

    def note(self, answers: Mapping[str, str | BaseException]) -> None:
        """answers: the name that each actor gave when all were asked, or what came in its place.

        One that Ray does not ask is none of them: it ends, and finishes its streams.
        """
        said = {actor: answer for actor, answer in answers.items() if isinstance(answer, str)}
        before = {actor: name for actor, name in self._names.items() if actor in answers}
        self._names = before | said
        silent = {name: answers[actor] for actor, name in self._names.items() if actor not in said}
        self.replicas = tuple(silent)
        self.late = tuple(name for name, error in silent.items() if isinstance(error, TimeoutError))


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
