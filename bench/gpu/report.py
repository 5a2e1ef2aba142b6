"""The result of a run: JSON, a page of Markdown tables, a plot."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from firstword.bench.gpu.measured import LoadRow, NetworkRow, Row
from firstword.bench.gpu.published import CLOSED, POISSON, SOURCE, published
from firstword.bench.plots import plot_first_bytes
from firstword.bench.terminal import show, show_line


@dataclass(frozen=True, slots=True)
class Part:
    """reason: why it did not end well; "" where it did."""

    name: str
    seconds: float
    rows: tuple[Row, ...]
    reason: str


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

    def as_json(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "precision": self.precision,
            "seconds": self.seconds,
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


def notes(result: Result) -> list[str]:
    """What was not measured, and why: each reason once."""
    lines = [f"{part.name}: {part.reason}" for part in result.parts if part.reason]
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in result.network_rows:
        if row.ms is None:
            reasons.setdefault((row.form, row.reason), []).append(f"{row.family} {row.what} {row.batch}")
    lines += [f"{form}: {reason} ({', '.join(where)})" for (form, reason), where in reasons.items()]
    return lines + [
        f"{row.family}, {row.amount:g} {row.load}: {row.reason}" for row in result.load_rows if row.reason
    ]


def write_result(result: Result, folder: Path) -> None:
    """gpu.json, gpu.md, and gpu.png where matplotlib is installed."""
    (folder / "gpu.json").write_text(json.dumps(result.as_json(), indent=1) + "\n", encoding="utf-8")
    tables = (network_table(result.network_rows), load_table(result.load_rows))
    pages = [f"{result.device}, {result.precision}, {result.seconds:.0f} s", *map(_markdown, tables)]
    pages.append("\n".join(f"- {line}" for line in notes(result)))
    (folder / "gpu.md").write_text("\n\n".join(page for page in pages if page) + "\n", encoding="utf-8")
    if result.load_rows:
        plot_first_bytes(result.load_rows, folder / "gpu.png")


def show_result(result: Result) -> None:
    titles = (
        "ms, the median, by streams at once",
        "first byte p50 / p95 in ms, seconds of audio a second",
    )
    tables = (network_table(result.network_rows), load_table(result.load_rows))
    for title, (names, *lines) in zip(titles, tables, strict=True):
        table = Table(title=title, title_justify="left", box=None, pad_edge=False)
        for name in names:
            table.add_column(name, no_wrap=True)
        for line in lines:
            table.add_row(*line)
        if lines:
            show(table)
    for note in (*notes(result), f"{result.device}, {result.precision}, {result.seconds:.0f} s"):
        show_line(note)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    """ "" for a table without lines."""
    names, *rest = lines
    rows = [names, ["---"] * len(names), *rest]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) if rest else ""
