"""The targets of speed, and what a run reached of them."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.table import Table

Verdict = Literal["aim", "must", "missed", "not measured"]
Reached = dict[str, tuple[float, str]]
"""By key the figure, and in words how sure it is."""


@dataclass(frozen=True, slots=True)
class Target:
    """A promise. must, aim: the most it may be, or the least where `more_is_better`."""

    key: str
    what: str
    must: float
    aim: float
    unit: str = ""
    more_is_better: bool = False

    def verdict(self, reached: float | None) -> Verdict:
        if reached is None:
            return "not measured"
        sign = -1 if self.more_is_better else 1
        if sign * reached <= sign * self.aim:
            return "aim"
        return "must" if sign * reached <= sign * self.must else "missed"


TARGETS: tuple[Target, ...] = (
    Target("ttfb_ms", "built-in voice, one stream: first byte, p50", 150, 60, "ms"),
    Target("rtf", "same: compute time over audio time", 0.25, 0.08),
    Target("listeners", "same: listeners in real time, no gap", 4, 12, more_is_better=True),
    Target("constancy", "a second of audio at second 60 over second 2", 1.3, 1.2),
    Target("memory", "memory after 1,000 streams over after 100", 1.05, 1.01),
)


def table_of(reached: Reached) -> Table:
    table = Table(title="targets", title_justify="left", box=None, pad_edge=False)
    for name in ("", "must", "aim", "reached", "", "how sure"):
        table.add_column(
            name, justify="right" if name in ("must", "aim", "reached") else "left", no_wrap=True
        )
    colours = {"aim": "green", "must": "green", "missed": "red", "not measured": "dim"}
    for target in TARGETS:
        value, sure = reached.get(target.key, (None, ""))
        verdict = target.verdict(value)
        bound = "≥" if target.more_is_better else "≤"
        table.add_row(
            target.what,
            f"{bound} {target.must:g} {target.unit}".strip(),
            f"{bound} {target.aim:g} {target.unit}".strip(),
            "" if value is None else f"{value:.3g} {target.unit}".strip(),
            verdict,
            sure,
            style=colours[verdict],
        )
    return table


def as_json(reached: Reached) -> list[dict[str, Any]]:
    rows = []
    for target in TARGETS:
        value, sure = reached.get(target.key, (None, ""))
        rows.append(asdict(target) | {"reached": value, "how_sure": sure, "verdict": target.verdict(value)})
    return rows
