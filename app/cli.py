"""The command line `firstword`: what there is, and nothing of how it is done."""

from importlib.metadata import version
from typing import Annotated, Final

import typer

from firstword.app.commands.alignment_heads import alignment_heads
from firstword.app.commands.backup import backup, restore
from firstword.app.commands.batch import batch
from firstword.app.commands.bench import bench
from firstword.app.commands.console import CommandGroup
from firstword.app.commands.doctor import doctor
from firstword.app.commands.download import download
from firstword.app.commands.export import export
from firstword.app.commands.keys import keys
from firstword.app.commands.provenance import provenance
from firstword.app.commands.reward import reward
from firstword.app.commands.say import say
from firstword.app.commands.serve import serve, settings
from firstword.app.commands.speakers import speakers
from firstword.app.commands.store import store
from firstword.app.commands.tensorrt import tensorrt
from firstword.app.commands.tensorrt_llm import tensorrt_llm
from firstword.app.commands.top import top
from firstword.app.commands.train import train
from firstword.app.commands.triton import triton

cli: Final = typer.Typer(
    name="firstword",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # they may hold keys, and text that people speak
)
commands = (serve, say, batch, doctor, top, download, settings, bench, alignment_heads)
for command in (*commands, backup, restore, export, reward, tensorrt, tensorrt_llm):
    cli.command()(command)
cli.add_typer(speakers)
cli.add_typer(keys)
cli.add_typer(provenance)
cli.add_typer(store)
cli.add_typer(train)
cli.add_typer(triton)


def print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"firstword {version('firstword')}")
        raise typer.Exit


@cli.callback()
def options(
    shows_version: Annotated[
        bool,
        typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """Text to speech with CosyVoice-architecture models, the first word soon."""


def main() -> None:
    """The entry point that pyproject.toml names."""
    cli()
