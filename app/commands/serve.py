"""`firstword serve`: the service, until a signal ends it."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands.checks import ESSENTIAL
from app.commands.console import CommandFailed, to_stderr
from app.settings import Settings, load_settings


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="TCP port; 0 takes a free one.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda.")] = None,
    precision: Annotated[str | None, typer.Option(help="float32, bfloat16 or int8.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Directory of all that is written.")] = None,
    max_streams: Annotated[int | None, typer.Option(help="Streams that speak at once.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json.")] = None,
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
    _refuse_what_cannot_run(settings)
    import uvloop

    from app.main import serve as serve_until_signalled
    from app.telemetry.logs import configure_logging

    configure_logging(settings.log_level, settings.log_format)
    uvloop.run(serve_until_signalled(settings, _announce))


def _refuse_what_cannot_run(settings: Settings) -> None:
    """In a second, what would else come out after the networks are loaded. Raises CommandFailed."""
    for check in ESSENTIAL:
        finding = check(settings)
        if finding.state == "wrong":
            raise CommandFailed(f"{finding.said}. To mend it: {finding.mend}")


def _announce(line: str) -> None:
    to_stderr().print(line, style="green", markup=False, highlight=False, soft_wrap=True)
