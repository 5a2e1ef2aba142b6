"""Draws plots, if matplotlib is installed; nothing else imports it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstword.bench.levels import Goal, Level, goodput
from firstword.bench.terminal import show_line

if TYPE_CHECKING:
    from firstword.bench.gpu.measured import LoadRow
    from firstword.bench.stages import ChunkCost

_HOW_TO = "no plot: matplotlib is not installed (pip install 'firstword[training]')"
_STAGE_COLOURS = {"LM": "#4878a8", "flow": "#d08040", "vocoder": "#589858", "encode": "#a06080"}


def plot_latency(levels: Sequence[Level], goal: Goal, path: Path) -> bool:
    """Plot first byte and first sound over the rate of requests; below, the share of good ones."""
    points = sorted(
        (level for level in levels if level.load.kind == "poisson" and level.quantiles.ttfa),
        key=lambda level: level.load.amount,
    )
    pyplot = _pyplot()
    if pyplot is None or not points:
        return False
    figure, (upper, lower) = pyplot.subplots(
        2, 1, figsize=(7, 6), sharex=True, height_ratios=(3, 1), layout="constrained"
    )
    rates = [level.load.amount for level in points]
    for name, style, values in (
        ("first byte, p50", "o-", [level.quantiles.ttfb[0].value for level in points]),
        ("first byte, p95", "o--", [level.quantiles.ttfb[2].value for level in points]),
        ("first sound, p95", "s:", [level.quantiles.ttfa[2].value for level in points]),
    ):
        upper.plot(rates, [1000 * value for value in values], style, label=name)
    upper.axhline(1000 * goal.max_ttfa_s, color="grey", linewidth=0.8, label="goal for the first sound")
    upper.set(ylabel="ms", yscale="log")
    lower.plot(
        rates, [_percent(level.good.value if level.good else 0) for level in points], "o-", label="good"
    )
    lower.plot(
        rates,
        [_percent(level.counts.num_refused / level.counts.num_asked) for level in points],
        "x:",
        label="refused",
    )
    lower.set(ylabel="% of requests", xlabel="requests a second, Poisson", ylim=(-5, 105))
    best = goodput(points)
    if best is not None:
        for axes in (upper, lower):
            axes.axvline(best.load.amount, color="green", linewidth=1.2)
        upper.plot([], [], color="green", label=f"goodput, {best.realtime:.2g} x real time")
    for axes in (upper, lower):
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    _save(figure, path)
    return True


def plot_stages(chunks: "Sequence[ChunkCost]", title: str, path: Path) -> bool:
    """Plot milliseconds of each stage, chunk by chunk along an utterance, stacked."""
    pyplot = _pyplot()
    if pyplot is None or not chunks:
        return False
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    starts = [chunk.start_s for chunk in chunks]
    widths = [0.92 * chunk.audio_s for chunk in chunks]
    bottom = [0.0] * len(chunks)
    for name, colour in _STAGE_COLOURS.items():
        heights = [1000 * chunk.stages()[name] for chunk in chunks]
        axes.bar(starts, heights, widths, bottom, align="edge", label=name, color=colour)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set(xlabel="second of the utterance", ylabel="ms a chunk", title=title)
    axes.legend(fontsize=8, loc="upper right")
    axes.grid(alpha=0.3, axis="y")
    _save(figure, path)
    return True


def plot_first_bytes(rows: "Sequence[LoadRow]", path: Path) -> bool:
    """Plot first byte, p50 and p95, over requests at a time and Poisson rates, beside published ones."""
    from firstword.bench.gpu.published import CLOSED, POISSON, SOURCE

    pyplot = _pyplot()
    if pyplot is None:
        return False
    figure, panels = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    for axes, (load, label, table) in zip(
        panels,
        (("closed", "requests at a time", CLOSED), ("poisson", "requests a second, Poisson", POISSON)),
        strict=True,
    ):
        for family in dict.fromkeys(row.family for row in rows):
            own = [row for row in rows if row.load == load and row.family == family and row.ttfb_p50_ms]
            amounts = [row.amount for row in own]
            (line,) = axes.plot(amounts, [row.ttfb_p50_ms for row in own], "o-", label=f"{family}, p50")
            axes.plot(amounts, [row.ttfb_p95_ms for row in own], "o--", color=line.get_color(), label="p95")
        axes.plot(
            [*table], [one.p50_ms for one in table.values()], "s-", color="grey", label=f"{SOURCE}, p50"
        )
        axes.plot([*table], [one.p95_ms for one in table.values()], "s--", color="grey", label="p95")
        axes.set(xlabel=label, yscale="log")
        axes.legend(fontsize=7)
        axes.grid(alpha=0.3)
    panels[0].set(ylabel="first byte, ms")
    _save(figure, path)
    return True


def plot_engines(rows: Mapping[str, Mapping[str, float]], path: Path) -> bool:
    """Plot sound quality over the time to the first audio, a point an engine."""
    pyplot = _pyplot()
    if pyplot is None:
        return False
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for name, row in rows.items():
        at = row["first audio, ms"], row["P.808"]
        axes.scatter(*at, s=30)
        axes.annotate(f"{name} ({row['compute over audio']:.2f})", at, (5, 5), textcoords="offset points")
    axes.set(xscale="log", xlabel="first audio, ms (in brackets: compute over audio)", ylabel="DNSMOS P.808")
    _save(figure, path)
    return True


def _percent(share: float) -> float:
    return 100 * share


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        show_line(_HOW_TO)
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
