"""Takes named values out of a mapping one by one; refuses what is missing, left over or of the wrong kind."""

from typing import Any

from models.errors import CheckpointError
from models.hyperyaml import HyperYaml, Tagged

MAX_SIZE = 1 << 20
MAX_LAYERS = 64
MAX_LIST = 16


class Fields:
    """The arguments of one `!new:` of a checkpoint's yaml, or one object of a JSON file.

    Every `take` removes a field; `done` raises CheckpointError for whatever nobody took.
    """

    def __init__(self, file: HyperYaml, place: str, values: Any):
        if not isinstance(values, dict):
            raise file.error(f"{place}: expected named values, found {values!r:.80}")
        self._file = file
        self._place = place
        self._values = dict(values)

    def size(self, name: str, default: int | None = None, maximum: int = MAX_SIZE) -> int:
        """A positive whole number that a real network can have."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= maximum:
            raise self.error(f"{name} is {value!r:.80}; expected a whole number from 1 to {maximum}")
        return value

    def count(self, name: str) -> int:
        """How many of something are built one by one."""
        return self.size(name, maximum=MAX_LAYERS)

    def size_or_zero(self, name: str) -> int:
        """A whole number that may be 0, and is 0 where it is not there."""
        value = self._take(name, 0)
        return 0 if value == 0 else Fields(self._file, self._place, {name: value}).size(name)

    def sizes(self, name: str) -> tuple[int, ...]:
        values = self._list(name)
        return tuple(
            Fields(self._file, f"{self._place}.{name}", {"entry": value}).size("entry") for value in values
        )

    def size_lists(self, name: str) -> tuple[tuple[int, ...], ...]:
        values = self._list(name)
        return tuple(
            Fields(self._file, f"{self._place}.{name}", {"entry": value}).sizes("entry") for value in values
        )

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number; `1e-06`, which YAML 1.1 reads as text, is one too."""
        value = self._take(name, default)
        try:
            number = (
                float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
            )
        except (ValueError, OverflowError):
            number = None
        if number is None or not abs(number) < 1e12:
            raise self.error(f"{name} is {value!r:.80}; expected a number")
        return number

    def flag(self, name: str, default: bool | None = None) -> bool:
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise self.error(f"{name} is {value!r:.80}; expected true or false")
        return value

    def optional_number(self, name: str, default: float | None) -> float | None:
        value = self._take(name, default, is_optional=True)
        return None if value is None else Fields(self._file, self._place, {name: value}).number(name)

    def choice(self, name: str, *accepted: Any) -> Any:
        """One of the values that this implementation computes; the first where the field is not there."""
        value = self._take(name, accepted[0])
        if value not in accepted or isinstance(value, bool) != isinstance(accepted[0], bool):
            raise self.error(f"{name} is {value!r:.80}; only {' or '.join(map(repr, accepted))} is supported")
        return value

    def ignore(self, *names: str) -> None:
        """Fields of training, which the network's function does not depend on."""
        for name in names:
            self._values.pop(name, None)

    def tagged(self, name: str, *targets: str) -> tuple[str, "Fields"]:
        """A `!new:` or `!name:` value: the last part of its target, one of `targets`, and its arguments."""
        value = self._take(name, None)
        found = value.target.rpartition(".")[2] if isinstance(value, Tagged) else None
        if found not in targets:
            raise self.error(f"{name} is {found or value!r:.80}; expected {' or '.join(targets)}")
        return found, Fields(self._file, f"{self._place}.{name}", value.arguments)

    def inner(self, name: str) -> "Fields":
        """A plain mapping."""
        return Fields(self._file, f"{self._place}.{name}", self._take(name, None))

    def has(self, name: str) -> bool:
        return name in self._values

    def done(self) -> None:
        if self._values:
            raise self.error(f"unknown: {', '.join(sorted(map(str, self._values)))[:300]}")

    def error(self, problem: str) -> CheckpointError:
        return self._file.error(f"{self._place}: {problem}")

    def _list(self, name: str) -> list[Any]:
        value = self._take(name, None)
        if not isinstance(value, list) or not 0 < len(value) <= MAX_LIST:
            raise self.error(f"{name} is {value!r:.80}; expected a list of 1 to {MAX_LIST} entries")
        return value

    def _take(self, name: str, default: Any, is_optional: bool = False) -> Any:
        if name not in self._values and default is None and not is_optional:
            raise self.error(f"{name} is missing")
        return self._file.resolve(self._values.pop(name, default))
