"""Shows a measurement on the terminal: a bar while it runs, then a table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from firstword.bench.estimates import Quantile
from firstword.bench.levels import Goal, Level, goodput

MAX_LAG_S = 0.05  # of the measuring process; beyond it its figures are doubtful


@contextmanager
def progress_of(total: float) -> Iterator["Bar"]:
    """Draw a progress bar if standard error is a terminal. total: in any unit."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description:40}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield Bar(progress, progress.add_task("", total=total))


class Bar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def say(self, what: str) -> None:
        self._progress.update(self._task, description=what)

    def advance(self, amount: float) -> None:
        self._progress.advance(self._task, amount)


def show(table: Table, *lines: str) -> None:
    """Print a table and lines, as wide as needed if standard output is no terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)
    for line in lines:
        show_line(line)


def show_line(line: str) -> None:
    Console().print(line, markup=False, highlight=False, soft_wrap=True)


def level_table(levels: Sequence[Level], goal: Goal) -> Table:
    title = (
        "ms, p50 / p90 / p95 / p99; ≥: the largest of too few; queue + compute: the server's own means."
        f" Good: heard within {1000 * goal.max_ttfa_s:g} ms and no gap over {1000 * goal.max_gap_s:g} ms"
    )
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("load", "n", "no/bad", "first byte", "first sound", "2nd chunk", "worst gap", "stalls"):
        table.add_column(name, justify="left" if name == "load" else "right", no_wrap=True)
    for name in ("RTF", "all of it", "queue + compute", "x real time", "good"):
        table.add_column(name, justify="right", no_wrap=True)
    for level in levels:
        table.add_row(*_cells(level), style="red" if level.counts.num_failed else None)
    return table


def cosyvoice_table(levels: Sequence[Level], uses_speaker_cache: bool) -> tuple[Table, str]:
    """Return the table of the published deployment's streaming client, also as Markdown."""
    names = ("Mode", "Concurrency", "Avg Latency (ms)", "P50 Latency (ms)", "RTF")
    table = Table(title="First chunk latency", title_justify="left", box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name == "Mode" else "right", no_wrap=True)
    lines = [f"| {' | '.join(names)} |", "|---|---|---|---|---|"]
    for level in levels:
        if level.mean_ttfb_s is None:
            continue
        mode = f"Streaming, use_spk2info_cache={uses_speaker_cache}, {level.load.protocol}"
        at_once = f"{level.load.amount:g}{'/s' if level.load.kind == 'poisson' else ''}"
        row = (
            *(
                mode,
                at_once,
                f"{1000 * level.mean_ttfb_s:.2f}",
                f"{1000 * level.quantiles.ttfb[0].value:.2f}",
            ),
            f"{1 / level.realtime:.4f}",
        )
        table.add_row(*row)
        lines.append(f"| {' | '.join(row)} |")
    return table, "\n".join(lines)


def verdict_lines(levels: Sequence[Level], goal: Goal) -> list[str]:
    """Return goodput, delays of refusals, faults with their numbers, and whether this client was too slow."""
    best = goodput(levels)
    lines = []
    if any(level.load.kind == "poisson" for level in levels):
        lines.append(
            "goodput: below the lowest rate that was tried"
            if best is None
            else f"goodput: {best.load.amount:.3g} requests/s, {best.realtime:.3g} x real time"
            f" ({best.counts.num_asked} requests)"
        )
    for level in levels:
        if level.refused_after_s is not None:
            lines.append(
                f"{level.load}: {level.counts.num_refused} refused, "
                f"after {level.refused_after_s:.2f} s at most"
            )
        if level.lag_s > MAX_LAG_S:
            lines.append(f"{level.load}: this client was up to {1000 * level.lag_s:.0f} ms late itself")
        lines += [f"FAILED {count} times, {level.load}: {why}" for why, count in level.counts.faults.items()]
    return lines


def milliseconds(quantiles: Sequence[Quantile]) -> str:
    """Return the quantiles that so few values resolve, and one more as a bound."""
    shown = []
    for one in quantiles:
        shown.append(f"{'' if one.is_resolved else '≥'}{1000 * one.value:.0f}")
        if not one.is_resolved:
            break
    return " / ".join(shown) or "-"


def _cells(level: Level) -> tuple[str, ...]:
    rtf = f"{level.quantiles.rtf[0].value:.2f}" if level.quantiles.rtf else "-"
    return (
        str(level.load),
        str(level.counts.num_asked),
        f"{level.counts.num_refused}/{level.counts.num_failed}",
        milliseconds(level.quantiles.ttfb),
        milliseconds(level.quantiles.ttfa),
        milliseconds(level.quantiles.second_chunk[:1]),
        f"{1000 * level.worst_underrun_s:.0f}",
        str(level.counts.num_stalled),
        rtf,
        milliseconds(level.quantiles.total[:1]),
        _server_times(level),
        f"{level.realtime:.2f}",
        "-" if level.good is None else f"{100 * level.good.value:.0f} %",
    )


def _server_times(level: Level) -> str:
    """Return means by the server's own account."""
    if level.server is None:
        return "-"
    return f"{1000 * level.server.queue_s:.0f} + {1000 * level.server.compute_s:.0f}"
