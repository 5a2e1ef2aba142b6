"""`firstword store`: makes the tables of a PostgreSQL that servers share, and moves what is kept."""

from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed, to_stdout
from firstword.app.settings import load_settings, variable_of

store = typer.Typer(name="store", help="Prepare a PostgreSQL that servers share, and move what is kept.")

FROM_SETTINGS: Final = variable_of("store")
Place = Annotated[
    str, typer.Argument(help=f"A data directory, or postgresql://…; {FROM_SETTINGS}: the address set there.")
]


@store.command()
def migrate() -> None:
    """Make the tables in the PostgreSQL of FIRSTWORD_STORE, or bring them to this release's."""
    from firstword.app.postgresql import migrate, place_of

    url = _address()
    before, after = migrate(url)
    done = "has all migrations" if before == after else f"migrated from {before} to {after}"
    to_stdout().print(f"{place_of(url)}: {done}", markup=False, highlight=False)


@store.command()
def copy(source: Place, target: Place) -> None:
    """Copy speakers, consents, batches and usage to a store that is empty; no server may use either.

    Others on the machine see what stands on a command line: give FIRSTWORD_STORE for an address with a
    password.
    """
    from firstword.app.store_copy import copy_store

    copied = copy_store(*(_address() if place == FROM_SETTINGS else place for place in (source, target)))
    to_stdout().print(
        f"copied {copied.speakers} speakers, {copied.consents} consents and {copied.batches} batches, with "
        "what the keys used",
        highlight=False,
    )


def _address() -> str:
    url = load_settings().speakers.store
    if url is None:
        raise CommandFailed(f"{FROM_SETTINGS} is not set; give it the address, postgresql://…")
    return url.get_secret_value()
