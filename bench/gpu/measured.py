"""What the parts of a run measured, as lines of JSON that a part writes as soon as it has them."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

Form = Literal["service", "eager", "compiled", "graphs", "tensorrt"]


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """A network's run. what: "LM step", "LM prefill", "flow chunk" or "vocoder second".

    form: "service" is what the server calls, Python included; the others run at fixed shapes. batch: streams
    at once. ms: the median of `num_runs`; None: it was not measured, for the `reason`.
    """

    family: str
    precision: str
    what: str
    form: Form
    batch: int
    ms: float | None = None
    best_ms: float | None = None
    num_runs: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LoadRow:
    """The service under one load: `amount` requests at a time ("closed"), or a second ("poisson").

    Milliseconds to the first byte. realtime: seconds of audio served in a second. None: nobody was served.
    """

    family: str
    precision: str
    load: str
    amount: float
    num_asked: int
    num_refused: int
    num_failed: int
    num_stalled: int
    ttfb_p50_ms: float | None
    ttfb_p95_ms: float | None
    realtime: float
    reason: str = ""


Row = NetworkRow | LoadRow
OnRow = Callable[[Row], None]
_KINDS: dict[str, type[NetworkRow] | type[LoadRow]] = {"network": NetworkRow, "load": LoadRow}


def append_row(path: Path, row: Row) -> None:
    kind = "network" if isinstance(row, NetworkRow) else "load"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"kind": kind, **asdict(row)}) + "\n")


def read_rows(path: Path) -> list[Row]:
    """Every whole line: a part that was stopped may have left half of one. [] where there is no file."""
    if not path.exists():
        return []
    rows: list[Row] = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.endswith("\n"):
            given: dict[str, Any] = json.loads(line)
            kind = _KINDS[given.pop("kind")]
            rows.append(kind(**{field.name: given[field.name] for field in fields(kind)}))
    return rows
