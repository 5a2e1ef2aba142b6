"""The result of a run: JSON, a page of Markdown tables, a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from firstword.bench.gpu.measured import LoadRow, NetworkRow, ProbeRow, Row, fault_of
from firstword.bench.gpu.published import CLOSED, POISSON, SOURCE, published
from firstword.bench.plots import plot_first_bytes
from firstword.bench.terminal import show, show_line


@dataclass(frozen=True, slots=True)
class Part:
    """reason: why it did not end well; "" where it did. has_failed: that is not for want of a package."""

    name: str
    seconds: float
    rows: tuple[Row, ...]
    reason: str
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    device: str
    precision: str
    seconds: float
    parts: tuple[Part, ...]

    @property
    def network_rows(self) -> list[NetworkRow]:
        return [row for part in self.parts for row in part.rows if isinstance(row, NetworkRow)]

    @property
    def load_rows(self) -> list[LoadRow]:
        return [row for part in self.parts for row in part.rows if isinstance(row, LoadRow)]

    @property
    def probe_rows(self) -> list[ProbeRow]:
        return [row for part in self.parts for row in part.rows if isinstance(row, ProbeRow)]

    @property
    def faults(self) -> list[str]:
        """What is wrong: results that are not the CPU's, graphs that could not be recorded, lost requests."""
        rows = [(part.name, row) for part in self.parts for row in part.rows]
        return [f"{name}, {_name_of(row)}: {fault}" for name, row in rows if (fault := fault_of(row))]

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "precision": self.precision,
            "seconds": self.seconds,
            "faults": self.faults,
            "parts": [asdict(part) for part in self.parts],
            "published": {
                "source": SOURCE,
                "closed": {amount: asdict(one) for amount, one in CLOSED.items()},
                "poisson": {amount: asdict(one) for amount, one in POISSON.items()},
            },
        }


def network_table(rows: Sequence[NetworkRow]) -> list[list[str]]:
    """A line of each network and form, a column of each batch: the median in ms, "-" where there is none."""
    batches = sorted({row.batch for row in rows})
    lines = [["family", "what", "form", *(f"{batch}" for batch in batches)]]
    found = {(row.family, row.what, row.form, row.batch): row for row in rows}
    for key in dict.fromkeys(key[:3] for key in found):
        cells = [found.get((*key, batch)) for batch in batches]
        if any(cell is not None and cell.ms is not None for cell in cells):
            lines.append([*key, *("-" if c is None or c.ms is None else f"{c.ms:.3g}" for c in cells)])
    return lines


def load_table(rows: Sequence[LoadRow]) -> list[list[str]]:
    """A line of each load: first byte p50 / p95 in ms and x real time of each family, and as published."""
    families = list(dict.fromkeys(row.family for row in rows))
    found = {(row.load, row.amount, row.family): row for row in rows}
    lines = [["load", *families, SOURCE]]
    for load, amount in dict.fromkeys((row.load, row.amount) for row in rows):
        name = f"{amount:g} at a time" if load == "closed" else f"{amount:g}/s Poisson"
        cells = [_load_cell(found.get((load, amount, family))) for family in families]
        one = published(load, amount)
        last = "-" if one is None else f"{one.p50_ms:g} / {one.p95_ms:g}"
        lines.append([name, *cells, last + (f", {one.realtime:g} x" if one and one.realtime else "")])
    return lines


def _load_cell(row: LoadRow | None) -> str:
    if row is None or row.ttfb_p50_ms is None or row.ttfb_p95_ms is None:
        return "-"
    cell = f"{row.ttfb_p50_ms:.0f} / {row.ttfb_p95_ms:.0f}, {row.realtime:.1f} x (n={row.num_asked}"
    bad = [(row.num_refused, "refused"), (row.num_failed, "failed"), (row.num_stalled, "stalled")]
    return cell + "".join(f", {count} {what}" for count, what in bad if count) + ")"


def probe_table(rows: Sequence[ProbeRow]) -> list[list[str]]:
    """A line of each look at the card, in the order of looking."""
    lines = [["step", "of", "found"]]
    for row in rows:
        found = ", ".join(f"{name} {value}" for name, value in row.found.items())
        lines.append([row.step, row.of, f"{found} WRONG" if row.fault else found])
    return lines


def _name_of(row: Row) -> str:
    match row:
        case ProbeRow():
            return f"{row.step} {row.of}".strip()
        case LoadRow():
            return f"{row.amount:g} {row.load}"
        case NetworkRow():
            return f"{row.what} {row.form}"


def notes(result: Result) -> list[str]:
    """What was wrong, how long each part took, what was not measured and why: each reason once."""
    lines = [f"WRONG: {fault}" for fault in result.faults]
    lines += [f"{part.name}: {part.seconds:.0f} s, {part.reason or 'whole'}" for part in result.parts]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in result.network_rows:
        if row.ms is None:
            reasons.setdefault((row.form, row.reason), []).append(f"{row.family} {row.what} {row.batch}")
    lines += [f"{form}: {reason} ({', '.join(where)})" for (form, reason), where in reasons.items()]
    return lines + [
        f"{row.family}, {row.amount:g} {row.load}: {row.reason}" for row in result.load_rows if row.reason
    ]


def write_result(result: Result, folder: Path) -> None:
    """Write gpu.json, gpu.md, and gpu.png where matplotlib is installed."""
    (folder / "gpu.json").write_text(json.dumps(result.as_json(), indent=1) + "\n", encoding="utf-8")
    verdict = "".join(f"**WRONG**: {fault}\n" for fault in result.faults)
    pages = [f"{result.device}, {result.precision}, {result.seconds:.0f} s", verdict]
    pages += map(_markdown, _tables(result))
    pages.append("\n".join(f"- {line}" for line in notes(result)))
    (folder / "gpu.md").write_text("\n\n".join(page for page in pages if page) + "\n", encoding="utf-8")
    if result.load_rows:
        plot_first_bytes(result.load_rows, folder / "gpu.png")


def show_result(result: Result) -> None:
    titles = (
        "the card, and what was looked at on it",
        "first byte p50 / p95 in ms, seconds of audio a second",
        "ms, the median, by streams at once",
    )
    for title, (names, *lines) in zip(titles, _tables(result), strict=True):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for name in names:
            table.add_column(name, overflow="fold")
        for line in lines:
            table.add_row(*line)
        if lines:
            show(table)
    for note in (*notes(result), f"{result.device}, {result.precision}, {result.seconds:.0f} s"):
        show_line(note)


def _tables(result: Result) -> tuple[list[list[str]], ...]:
    tables = (load_table(result.load_rows), network_table(result.network_rows))
    return (probe_table(result.probe_rows), *tables)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """ "" for a table without lines."""
    names, *rest = lines
    rows = [names, ["---"] * len(names), *rest]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) if rest else ""
