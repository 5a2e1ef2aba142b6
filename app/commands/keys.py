"""`firstword keys`: makes API keys for the file that FIRSTWORD_API_KEYS_FILE names."""

import hashlib
import json
import re
import secrets
from typing import Annotated, Final

import typer

from firstword.app.clients import ACCESSES, SCOPES
from firstword.app.commands.console import CommandFailed, to_stderr
from firstword.app.settings import variable_of

KEY_BYTES: Final = 32
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")  # needs no quotes in TOML

keys = typer.Typer(name="keys", help="Make API keys for a server's file of keys.")


@keys.callback()
def group() -> None:
    """Typer takes a single command for the group itself without this."""


@keys.command()
def new(
    name: Annotated[str, typer.Argument(help="Whose key it is: 1 to 64 of A-Z a-z 0-9 . _ @ and -.")],
    scope: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(SCOPES)}; give it several times for several.")
    ] = None,
    speakers: Annotated[
        str, typer.Option(help=f"What the speakers it registers are: {', '.join(ACCESSES)}.")
    ] = "shared",
) -> None:
    """Print a new key to standard error, and what the server's file needs of it to standard output."""
    from firstword.app.http.keys import parse_keys

    key = secrets.token_urlsafe(KEY_BYTES)
    text = (
        f"\n[{name if _BARE.fullmatch(name) else json.dumps(name)}]\n"
        f'sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'
        f"scopes = {json.dumps(scope or ['speak'])}\n"
        f"speakers = {json.dumps(speakers)}\n"
    )
    try:
        parse_keys(text, "the new key")
    except ValueError as error:
        raise CommandFailed(f"{error}; see firstword keys new --help") from None
    typer.echo(text, nl=False)
    to_stderr().print(
        f"The key of {name}, which is stored nowhere: {key}\n"
        f"Add what stands on standard output to the file that {variable_of('api_keys_file')} names.",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
