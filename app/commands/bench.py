"""`firstword bench`: how soon and how smoothly a running server speaks under load."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from firstword.app.commands.console import CommandFailed
from firstword.app.settings import LOCAL_URL, PREFIX


def bench(
    url: Annotated[str, typer.Option(envvar=f"{PREFIX}CLIENT_URL", help="Where the server is.")] = LOCAL_URL,
    api_key: Annotated[
        str | None, typer.Option(envvar=f"{PREFIX}CLIENT_API_KEY", help="A key, if it asks for one.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="Who speaks.")] = None,
    protocols: Annotated[
        str,
        typer.Option(
            "--protocol", help="http, ws, openai, grpc, kserve-grpc, kserve-http; several with commas."
        ),
    ] = "http",
    grpc: Annotated[
        str | None, typer.Option(help="HOST:PORT of its gRPC; the host of the URL and port 8001 if left out.")
    ] = None,
    concurrency: Annotated[str, typer.Option(help="Requests at a time, load after load.")] = "1,2,4,8",
    rates: Annotated[
        str, typer.Option(help="Poisson rates, requests a second; auto: up to twice the capacity.")
    ] = "auto",
    seconds: Annotated[float, typer.Option(min=1, help="Of each load.")] = 30.0,
    json: Annotated[Path | None, typer.Option(help="Also write all figures here.")] = None,
    metrics: Annotated[
        str | None, typer.Option(help="Of the engine behind tritonserver: http://HOST:PORT/metrics.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="JSON Lines with the texts to say, as `firstword batch` reads them.")
    ] = None,
    reference: Annotated[Path | None, typer.Option(help="A recording, whose voice speaks.")] = None,
    reference_text: Annotated[str, typer.Option(help="What is said in it.")] = "",
    cold: Annotated[
        bool, typer.Option("--cold", help="No request's recording was seen by the server before.")
    ] = False,
    wav: Annotated[Path | None, typer.Option(help="Directory for one file of each text.")] = None,
    table: Annotated[
        str | None, typer.Option(help="cosyvoice: also the table of the published deployment.")
    ] = None,
    listeners: Annotated[
        str, typer.Option(help="Listeners who never stop, each asking again once it has played: 1,2,3.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Of when requests come.")] = 0,
    max_ttfa_ms: Annotated[float, typer.Option(min=1, help="What a good request may take.")] = 500.0,
    max_gap_ms: Annotated[float, typer.Option(min=0, help="The gap that a good request may have.")] = 20.0,
    any_speech: Annotated[
        bool, typer.Option("--any-speech", help="Random weights: do not judge what is said.")
    ] = False,
    plot: Annotated[Path | None, typer.Option(help="Also draw latency against load here, as a PNG.")] = None,
) -> None:
    """Measure a running server: first audio, gaps, goodput. Exit code 1 if what it says is not sound."""
    import httpx

    from firstword.app.commands.client import ask, open_client
    from firstword.bench import arguments
    from firstword.bench.latency import Plan, Sweep, VoiceChoice, measure, show_report, write
    from firstword.bench.levels import Goal

    if table not in (None, "cosyvoice"):
        raise CommandFailed(f"--table {table!r}; expected cosyvoice")
    with open_client(url, api_key) as client:
        knows_only_inference = all(name.strip().startswith("kserve") for name in protocols.split(","))
        path = "/v2" if knows_only_inference else "/v1/capabilities"
        ask(client, "GET", path)  # says in one line what is wrong with an address or a key
    try:
        plan = Plan(
            url=url,
            api_key=api_key,
            voice=VoiceChoice(speaker, reference, reference_text, cold),
            protocols=arguments.protocols(protocols),
            sweep=Sweep(
                arguments.counts(concurrency),
                arguments.counts(listeners),
                arguments.rates(rates),
                seconds,
                seed,
            ),
            goal=Goal(max_ttfa_ms / 1000, max_gap_ms / 1000),
            judges_speech=not any_speech,
            grpc_address=grpc,
            data=data,
            audio_dir=wav,
            metrics_url=metrics,
        )
        report = asyncio.run(measure(plan))
    except (httpx.HTTPError, ValueError) as error:
        raise CommandFailed(str(error)) from error
    show_report(report, table)
    write(report, json, plot)
    if not report.is_sound:
        raise typer.Exit(1)
