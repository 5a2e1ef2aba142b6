"""What the parts of a run found, as lines of JSON that a part writes as soon as it has them."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
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


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """What one look at the card found, by name. fault: why it is wrong, "" where it is not."""

    step: str
    of: str = ""  # family and form
    found: dict[str, Any] = field(default_factory=dict)
    fault: str = ""


Row = NetworkRow | LoadRow | ProbeRow
OnRow = Callable[[Row], None]
_KINDS: dict[str, type[Row]] = {"network": NetworkRow, "load": LoadRow, "probe": ProbeRow}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def fault_of(row: Row) -> str:
    """Why a row is the result of something wrong; a row that could not be measured is not."""
    match row:
        case ProbeRow():
            return row.fault
        case LoadRow() if row.num_failed:
            return f"{row.num_failed} of {row.num_asked} requests failed: {row.reason}"
        case _:
            return ""


def append_row(path: Path, part: str, row: Row) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"part": part, "kind": _NAMES[type(row)], **asdict(row)}) + "\n")


def end_last_line(path: Path) -> None:
    """A part that was stopped may have left half of a line."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        with path.open("a", encoding="utf-8") as file:
            file.write("\n")


def read_rows(path: Path, part: str) -> list[Row]:
    """Every whole line of a part. [] where there is no file."""
    if not path.exists():
        return []
    rows: list[Row] = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        try:
            given: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:  # half of one
            continue
        if given["part"] == part:
            kind = _KINDS[given["kind"]]
            rows.append(kind(**{one.name: given[one.name] for one in fields(kind)}))
    return rows
