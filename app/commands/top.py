"""`firstword top`: a live view of a running server, from its metrics."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from firstword.app.commands.console import CommandFailed, to_stdout
from firstword.app.settings import LOCAL_URL, PREFIX

if TYPE_CHECKING:
    import httpx
    from rich.console import RenderableType

WINDOW_S: Final = 60.0
STAGES: Final = ("normalize", "speaker", "llm_first_hop", "flow", "vocoder", "encode")
_STARTED: Final = "process_start_time_seconds"
BAR_WIDTH: Final = 18  # with the longest figures beside it a line has 80 columns

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reading:
    """One scrape. samples: by a series' name and its labels."""

    at_s: float
    samples: Mapping[tuple[str, Labels], float]
    is_ready: bool
    reason: str  # why it is not

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of all series with these labels."""
        wanted = set(labels.items())
        return sum(
            value for (series, given), value in self.samples.items() if series == name and wanted <= given
        )


@dataclass(frozen=True, slots=True)
class Window:
    """What happened between two readings; first None: since the server's start."""

    first: Reading | None
    last: Reading

    @property
    def seconds(self) -> float | None:
        return None if self.first is None else self.last.at_s - self.first.at_s

    def growth(self, name: str, **labels: str) -> float:
        before = 0.0 if self.first is None else self.first.total(name, **labels)
        return self.last.total(name, **labels) - before

    def quantile(self, name: str, share: float) -> float | None:
        """Return a quantile of a histogram, linear inside its bucket; None where nothing was counted."""
        bounds = {dict(labels)["le"] for series, labels in self.last.samples if series == f"{name}_bucket"}
        below, lower = 0.0, 0.0
        total = self.growth(f"{name}_count")
        if not total:
            return None
        for bound in sorted(map(float, bounds)):
            up_to = self.growth(f"{name}_bucket", le=_label_of(bound))
            if up_to >= share * total:
                is_open = bound == float("inf")
                return (
                    lower if is_open else lower + (bound - lower) * (share * total - below) / (up_to - below)
                )
            below, lower = up_to, bound
        return lower


def top(
    url: Annotated[str, typer.Option(envvar=f"{PREFIX}CLIENT_URL", help="Where the server is.")] = LOCAL_URL,
    api_key: Annotated[
        str | None, typer.Option(envvar=f"{PREFIX}CLIENT_API_KEY", help="A key, if it asks for one.")
    ] = None,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between two readings.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one view, since the server's start.")] = False,
) -> None:
    """Watch a running server: streams, first audio, stages. Ctrl+C ends it."""
    from rich.live import Live

    from firstword.app.commands.client import ask, json_of, open_client

    console = to_stdout()
    with open_client(url, api_key) as client:
        server = json_of(ask(client, "GET", "/v1/capabilities"))
        readings = [_read(client)]
        if once or not console.is_terminal:
            console.print(_view(Window(None, readings[0]), server, url))
            return
        with (
            until_interrupted() as interruption,
            Live(_view(Window(None, readings[0]), server, url), console=console, screen=True) as live,
        ):
            while not interruption.came:
                time.sleep(every)
                last = _read(client)
                if last.total(_STARTED) != readings[-1].total(_STARTED):
                    readings = []  # all counts began anew
                recent = [reading for reading in readings if reading.at_s >= last.at_s - WINDOW_S]
                readings = [*(recent or readings[-1:]), last]
                first = readings[0] if len(readings) > 1 else None
                live.update(_view(Window(first, last), server, url))


@dataclass(slots=True)
class Interruption:
    came: bool = False


@contextmanager
def until_interrupted() -> Iterator[Interruption]:
    """Leave the block on SIGINT, and tell it too: Python drops a KeyboardInterrupt raised in a destructor."""
    interruption = Interruption()

    def interrupt(*_: object) -> None:
        interruption.came = True
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, interrupt)
        yield interruption
    except KeyboardInterrupt:
        return
    finally:
        signal.signal(signal.SIGINT, before)


def _read(client: "httpx.Client") -> Reading:
    """Raises CommandFailed where there is no server, or where it has its metrics elsewhere."""
    import httpx
    from prometheus_client.parser import text_string_to_metric_families

    from firstword.app.commands.client import ask

    try:
        response = client.get("/metrics")
        ready = client.get("/readyz").json()
    except (httpx.HTTPError, ValueError):
        response = ask(client, "GET", "/metrics")  # again, for its words about what is wrong
        raise CommandFailed(
            f"{client.base_url} answers /readyz with no JSON; is it a Firstword server?"
        ) from None
    if response.status_code == 404:
        raise CommandFailed(
            f"{client.base_url} has no /metrics: {PREFIX}METRICS_PORT has moved them to a port of their own; "
            "look at them with Prometheus and Grafana (deploy/compose)"
        )
    if not response.is_success:
        ask(client, "GET", "/metrics")
    samples = {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }
    return Reading(time.monotonic(), samples, ready.get("ready") is True, str(ready.get("reason", "")))


def _view(window: Window, server: Mapping[str, Any], url: str) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    last = window.last
    state = Text("ready", "green") if last.is_ready else Text(f"not ready: {last.reason}", "red")
    head = Text.assemble(
        ("firstword ", "bold"), f"{url}  {server['checkpoint']} on {server['backend']}  ", state, "\n"
    )
    waiting = last.total("tts_queue_depth") + last.total("tts_file_queue_depth")
    running = max(0.0, last.total("tts_requests_in_flight") - waiting)  # listings of tokens wait, too
    slots = last.total("tts_max_streams")
    table = Table.grid(padding=(0, 2))
    table.add_row(
        "streams",
        _bar(running, slots),
        f"{running:.0f} of {slots:.0f}, {waiting:.0f} waiting",
    )
    hits, misses = (
        window.growth("tts_speaker_cache_hits_total"),
        window.growth("tts_speaker_cache_misses_total"),
    )
    table.add_row("speaker cache", _bar(hits, hits + misses), _percent(hits, hits + misses))
    table.add_row()
    over = "since the start" if window.seconds is None else f"last {window.seconds:.0f} s"
    table.add_row(Text(over, "dim"))
    ended = {
        name: window.growth("tts_requests_total", outcome=name)
        for name in ("ok", "rejected", "failed", "cancelled")
    }
    table.add_row("requests", "", ", ".join(f"{count:.0f} {name}" for name, count in ended.items()))
    table.add_row("first byte", "", _quantiles(window, "tts_time_to_first_byte_seconds", 1000, " ms", 0))
    table.add_row("real-time factor", "", _quantiles(window, "tts_real_time_factor", 1, "", 2))
    table.add_row("underruns", "", _quantiles(window, "tts_underrun_seconds", 1000, " ms", 0))
    table.add_row("audio", "", f"{window.growth('tts_audio_seconds_total'):.1f} s")
    table.add_row()
    spent = {stage: window.growth("tts_stage_seconds_sum", stage=stage) for stage in STAGES}
    for stage, seconds in spent.items():
        table.add_row(stage, _bar(seconds, sum(spent.values())), _percent(seconds, sum(spent.values())))
    table.add_row()
    memory = last.total("process_resident_memory_bytes") / 2**20
    table.add_row("memory", "", f"{memory:.0f} MiB, {last.total('tts_ws_connections'):.0f} WebSockets")
    return Group(head, table)


def _bar(value: float, total: float) -> str:
    filled = round(BAR_WIDTH * min(1.0, value / total)) if total > 0 else 0
    return "█" * filled + "░" * (BAR_WIDTH - filled)


def _percent(value: float, total: float) -> str:
    return f"{value / total:.0%}" if total else "nothing yet"


def _quantiles(window: Window, name: str, factor: float, unit: str, digits: int) -> str:
    found = [
        (label, window.quantile(name, share))
        for label, share in (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99))
    ]
    shown = [f"{label} {factor * value:.{digits}f}{unit}" for label, value in found if value is not None]
    return ", ".join(shown) or "nothing yet"


def _label_of(bound: float) -> str:
    """As prometheus_client writes it."""
    return "+Inf" if bound == float("inf") else str(bound)
