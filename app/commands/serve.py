"""`firstword serve` runs the service until a signal ends it; `firstword settings` lists its settings."""

import asyncio
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed, end_at_first_log_line, to_stderr, waiting
from firstword.app.commands.doctor import ESSENTIAL
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.settings import SETTINGS, Settings, load_settings, variable_of

CLOSING_S: Final = 1.2  # from the end of the streams to that of the process


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; 0 takes a free one.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16, float16, int8 or int4.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of all that is written.")] = None,
    max_streams: Annotated[int | None, typer.Option(help="Streams that speak at once.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
    over_ray: Annotated[
        bool, typer.Option("--ray", help="Let engines of Ray Serve speak, on this machine or RAY_ADDRESS.")
    ] = False,
) -> None:
    """Serve speech over HTTP and WebSocket. Options go before FIRSTWORD_ variables, those before .env."""
    settings = load_settings(
        host=host,
        port=port,
        checkpoint=checkpoint,
        device=device,
        precision=precision,
        data_dir=data_dir,
        max_streams=max_streams,
        log_level=log_level,
        log_format=log_format,
    )
    with waiting("loading and warming up the networks") as end_waiting:
        from firstword.app.main import begin_loading, serve_over_ray
        from firstword.app.main import serve as serve_here

        begin_loading()
        if not over_ray:
            _refuse_what_cannot_run(settings)
        from firstword.app.telemetry.logs import configure_logging

        def announce(line: str) -> None:
            end_waiting()
            to_stderr().print(line, style="green", markup=False, highlight=False, soft_wrap=True)

        configure_logging(settings.log.log_level, settings.log.log_format)
        end_at_first_log_line(end_waiting)
        serve_until_signalled = serve_over_ray if over_ray else serve_here
        service = serve_until_signalled(settings, announce, on_drained=partial(end_process_within, CLOSING_S))
        try:
            import uvloop
        except ModuleNotFoundError:  # there is none for Windows
            asyncio.run(service)
        else:
            uvloop.run(service)


def end_process_within(seconds: float) -> None:
    """End the process in that time, finished or not: a network that computes cannot be interrupted.

    Nothing is lost by it: what was acknowledged is on the disk.
    """

    def end() -> None:
        sys.stderr.write(f"ended without waiting for what is still computed, after {seconds:g} s\n")
        sys.stderr.flush()
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


def _refuse_what_cannot_run(settings: Settings) -> None:
    """In a second, what would else come out after the networks are loaded. Raises CommandFailed."""
    for check in ESSENTIAL:
        finding = check(settings)
        if finding.state == "wrong":
            raise CommandFailed(f"{finding.message}; fix: {finding.fix}")


_UNITS: Final = {
    "_s": "seconds",
    "_mb": "MiB",
    "_bytes": "bytes",
    "_chars": "characters",
    "_tokens": "speech tokens",
    "_per_minute": "requests a minute",
}
_HEAD: Final = """\
# Every setting of Firstword with its default. Copy this file to `.env` and take away the `# ` in front of
# what you change. The environment goes before this file; an empty value is the default.
"""


@dataclass(frozen=True, slots=True)
class SettingLine:
    variable: str
    default: str  # as one would write it; "" where it is empty, or found by the program
    unit: str
    description: str


def setting_lines() -> Iterator[SettingLine]:
    for name, setting in SETTINGS.items():
        unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
        yield SettingLine(variable_of(name), _written(setting.default), unit, setting.description)


def env_text() -> str:
    """The text of `.env.example`."""
    return _HEAD + "".join(
        f"\n# {line.description}.{f' [{line.unit}]' if line.unit else ''}\n# {line.variable}={line.default}\n"
        for line in setting_lines()
    )


def markdown_table() -> str:
    """The table of docs/configuration.md."""
    rows = (
        f"| `{line.variable}` | {f'`{line.default}`' if line.default else ''} | {line.unit} "
        f"| {line.description} |\n"
        for line in setting_lines()
    )
    return "| variable | default | unit | what |\n|---|---|---|---|\n" + "".join(rows)


def settings(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="As the table of docs/configuration.md.")
    ] = False,
) -> None:
    """List every setting with its default, ready to be a .env file."""
    typer.echo(markdown_table() if markdown else env_text(), nl=False)


def _written(default: object) -> str:
    if default is None or default == BUILTIN_CHECKPOINT or default in ((), {}):
        return ""
    return f"{default:g}" if isinstance(default, float) else str(default)
