"""`firstword backup` and `firstword restore`: the data directory, copied while it is used, and put back."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed
from firstword.app.settings import load_settings

LOCKED_S: Final = 10.0  # how long a database that somebody has locked is waited for
_DATABASE: Final = ".sqlite3"
_LEFT_OUT: Final = (".sqlite3-wal", ".sqlite3-shm", ".sqlite3-journal", ".reserve", ".lock", ".part")
_OF_THE_MACHINE: Final = frozenset({"capacity.json", "products.json"})  # measured anew on another one
Directory = Annotated[Path, typer.Argument(help="It is made; whatever is in it already is refused.")]


def backup(directory: Directory) -> None:
    """Copy the data directory, speakers, consents, batches, usage and keys, while a server may use it."""
    source = _data_directory()
    if not any(source.glob(f"*{_DATABASE}")):
        raise CommandFailed(f"{source}: no data of a server; FIRSTWORD_DATA_DIR says where it is")
    _make_empty(directory)
    typer.echo(f"{directory}: {_copied(source, directory)} files of {source}")


def restore(directory: Annotated[Path, typer.Argument(help="What `firstword backup` wrote.")]) -> None:
    """Put a backup where the data directory is to be; no server may use it, and it has to be empty."""
    from filelock import FileLock, Timeout

    from firstword.app.service import LOCK_FILE

    target = _data_directory()
    if not any(directory.glob(f"*{_DATABASE}")):
        raise CommandFailed(f"{directory}: no backup; give the directory that `firstword backup` wrote")
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with FileLock(target / LOCK_FILE, timeout=0):
            _make_empty(target)
            typer.echo(f"{target}: {_copied(directory, target)} files of {directory}")
    except Timeout:
        raise CommandFailed(f"a server uses {target}; stop it first") from None


def _data_directory() -> Path:
    options = load_settings().speakers
    if options.store is not None:
        raise CommandFailed(
            "FIRSTWORD_STORE is set: what servers share is in PostgreSQL, whose pg_dump copies it "
            "(docs/scale-out.md)"
        )
    return options.data_dir


def _make_empty(directory: Path) -> None:
    """Make a directory for what others must not read. Raise CommandFailed where something is in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = next((one for one in directory.iterdir() if not one.name.endswith(_LEFT_OUT)), None)
    except OSError as error:
        raise CommandFailed(f"{directory} cannot be used: {error.strerror}") from None
    if found is not None:
        raise CommandFailed(f"{directory} has something in it, {found.name}; give an empty directory")


def _copied(source: Path, target: Path) -> int:
    """Copy databases first, so that each file that they name is there or was deleted; return how many."""
    number = 0
    try:
        for path in sorted(_kept(source), key=lambda path: path.suffix != _DATABASE):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.suffix == _DATABASE:
                _copy_database(path, copy)
            else:
                try:
                    shutil.copy2(path, copy)
                except FileNotFoundError:
                    continue  # deleted meanwhile
            number += 1
    except (OSError, sqlite3.Error) as error:
        raise CommandFailed(f"{target} is not whole: {error}; delete it and try again") from None
    return number


def _kept(source: Path) -> Iterator[Path]:
    """Directories may be links, such as that of the batches to a larger disk. Raises OSError."""
    seen = set()
    for folder, folders, names in os.walk(source, onerror=_told_unless_deleted, followlinks=True):
        place = os.stat(folder)
        if (place.st_dev, place.st_ino) in seen:  # a link to what is above it
            folders.clear()
            continue
        seen.add((place.st_dev, place.st_ino))
        for path in (Path(folder, name) for name in names):
            if path.is_file() and not path.name.endswith(_LEFT_OUT) and path.name not in _OF_THE_MACHINE:
                yield path


def _told_unless_deleted(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _copy_database(path: Path, copy: Path) -> None:
    """By SQLite's own online backup, which waits for no writer; then look whether it is whole."""
    copy.touch(0o600)
    with (
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=LOCKED_S)) as given,
        closing(sqlite3.connect(copy)) as taken,
    ):
        given.execute("SELECT count(*) FROM sqlite_schema")  # raises where it is locked, a backup would not
        given.backup(taken)
        taken.execute("PRAGMA journal_mode=DELETE")  # a file without others beside it
        ((said,),) = taken.execute("PRAGMA quick_check(1)").fetchall()
    if said != "ok":
        raise sqlite3.DatabaseError(f"{path.name} is damaged: {said}")
