"""What a pretended GPU was asked to do: launches, replays, copies and waits by stage, recordings, faults."""

import threading
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

STAGE_OF_NOTHING = "elsewhere"
FRAMES_SHOWN = 2


@dataclass(slots=True)
class Counts:
    """Of one stage. launches: outside of replays, kernels of Triton and custom operations among them.

    nodes: kernels within the replays. waits: for the device, of which `pageable_copies` are the copies from
    memory that is not pinned. event_waits: for an event of another thread's or an earlier step's work.
    """

    launches: int = 0
    replays: int = 0
    nodes: int = 0
    waits: int = 0
    pageable_copies: int = 0
    pinned_copies: int = 0
    event_waits: int = 0
    views: int = 0

    def as_json(self) -> dict[str, int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Recording:
    stage: str
    thread: str
    nodes: int
    where: str


@dataclass(slots=True)
class Ledger:
    """faults: mixed devices, what is refused while a graph is recorded, two recordings at once."""

    stages: dict[str, Counts] = field(default_factory=lambda: defaultdict(Counts))
    operations: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    waits: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    recordings: list[Recording] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    _here: threading.local = field(default_factory=threading.local)

    @property
    def stage(self) -> str:
        """Of this thread."""
        return getattr(self._here, "stage", STAGE_OF_NOTHING)

    @property
    def now(self) -> Counts:
        return self.stages[self.stage]

    @property
    def num_waits(self) -> int:
        """Of all stages."""
        return sum(counts.waits for counts in self.stages.values())

    @contextmanager
    def staged(self, name: str) -> Iterator[Counts]:
        """What this thread does within counts for the stage."""
        before = self.stage
        self._here.stage = name
        try:
            yield self.stages[name]
        finally:
            self._here.stage = before

    def launch(self, operation: str) -> None:
        self.now.launches += 1
        self.operations[self.stage][operation] += 1

    def wait(self, why: str) -> None:
        self.now.waits += 1
        self.waits[self.stage][f"{why} at {where()}"] += 1

    def fault(self, what: str) -> str:
        self.faults.append(f"{what} at {where()}")
        return self.faults[-1]

    def as_json(self) -> dict[str, Any]:
        return {
            "stages": {name: counts.as_json() for name, counts in self.stages.items()},
            "waits": {name: dict(waits) for name, waits in self.waits.items()},
            "recordings": [asdict(one) for one in self.recordings],
            "faults": self.faults,
        }


def where() -> str:
    """Lines of this program, the innermost first, that the pretended GPU was called from."""
    frames = reversed(traceback.extract_stack(limit=60))
    ours = (f"{path}:{frame.lineno}" for frame in frames if (path := _own_path(frame.filename)))
    return " < ".join([line for line, _ in zip(ours, range(FRAMES_SHOWN), strict=False)])


def _own_path(path: str) -> str:
    """Relative to the repository; "" for what is not this program, or is the pretended GPU itself."""
    for folder, prefix in (("/firstword/", ""), ("/tests/", "tests/")):
        if folder in path and "/pretended/" not in path:
            return prefix + path.rpartition(folder)[2]
    return ""
