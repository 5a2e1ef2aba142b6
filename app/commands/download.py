"""`firstword download`: fetches a published checkpoint from a hub, verified, into a directory."""

import os
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from firstword.app.commands.console import CommandFailed, to_stderr, waiting
from firstword.app.commands.published import Published, Source, read_published

PUBLISHED: Final = read_published()


def download(
    name: Annotated[str, typer.Argument(help=f"{', '.join(PUBLISHED)}, or OWNER/NAME of another.")],
    source: Annotated[str, typer.Option(help="huggingface or modelscope.")] = "huggingface",
    to: Annotated[Path | None, typer.Option(help="Directory to make; left out: models/NAME here.")] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            help="Branch, tag or commit, verified by the hub's digests; left out: this release's, or the "
            "newest."
        ),
    ] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Succeed at once where the directory is there.")
    ] = False,
    mirror: Annotated[
        str | None,
        typer.Option(help="Address of a mirror of the source; also HF_ENDPOINT of the environment."),
    ] = None,
    plain_http: Annotated[
        bool,
        typer.Option(
            "--plain-http",
            help="Take an http:// address too: whoever is on the way sees HF_TOKEN, and what comes is only "
            "as true as its digests.",
        ),
    ] = False,
) -> None:
    """Download a published checkpoint: only what is read, digests verified. Run again, it goes on."""
    from firstword.app.commands.hubs import ENDPOINTS, REVISIONS, Hub, free_space_for, wanted_files

    with waiting("getting ready"):
        from firstword.models.config import YAML_FILES

        names = names_of_files()

    sources: dict[str, Source] = {"huggingface": "huggingface", "modelscope": "modelscope"}
    if source not in sources:
        raise CommandFailed(f"--source {source!r}; expected huggingface or modelscope")
    hub_name = sources[source]
    published = _published(name, hub_name)
    repository = published.repository
    if revision is not None:
        published = Published(repository, revision)
    directory = to or Path("models") / repository.partition("/")[2]
    if directory.name in ("", ".."):
        raise CommandFailed(f"{directory} cannot be made; give --to a directory that is not there yet")
    revision = published.revision or REVISIONS[hub_name]
    if directory.exists() and any(directory.iterdir()):
        if if_missing:  # it came into being whole
            return
        raise CommandFailed(f"{directory} is there already; remove it, or give another --to")
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    usual = os.environ.get("HF_ENDPOINT") if hub_name == "huggingface" else None
    with Hub(hub_name, mirror or usual or ENDPOINTS[hub_name], plain_http) as hub:
        with waiting(f"asking what {repository} holds"):
            files = published.checked(wanted_files(hub.files(repository, revision), names))
        if not {file.path for file in files} & set(YAML_FILES):
            raise CommandFailed(f"{repository} is no CosyVoice model: it has none of {', '.join(YAML_FILES)}")
        total = sum(file.size for file in files)
        there = sum(path.stat().st_size for path in unfinished.rglob("*") if path.is_file())
        free_space_for(total - there, directory)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        console = to_stderr()
        with Progress(
            *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal
        ) as progress:
            task = progress.add_task(repository, total=total)
            for file in files:
                progress.update(task, description=file.path)
                hub.fetch(
                    hub.url_of(repository, revision, file.path),
                    file,
                    unfinished / file.path,
                    lambda num_bytes: progress.advance(task, num_bytes),
                )
    if directory.exists():
        directory.rmdir()  # empty, as was seen above
    unfinished.rename(directory)
    known = "as this release knows them" if published.sha256 else "verified by the hub's own digests alone"
    typer.echo(
        f"{directory}: {len(files)} files, {total / 2**20:.0f} MiB, {known}. "
        f"Serve it: firstword serve --checkpoint {directory}"
    )


def names_of_files() -> list[str]:
    """Return the files of a checkpoint that are fetched, where it has them."""
    from firstword.models.checkpoint.open import CHECKPOINT_FILES

    return [*CHECKPOINT_FILES, "LICENSE", "README.md"]


def _published(name: str, source: Source) -> Published:
    owner, slash, model = name.partition("/")
    if slash and owner and model and "/" not in model:
        return next(
            (hubs[source] for hubs in PUBLISHED.values() if hubs[source].repository == name), Published(name)
        )
    known = {published.lower(): published for published in PUBLISHED}
    if name.lower() not in known:
        raise CommandFailed(
            f"no published model is named {name!r}; give {', '.join(PUBLISHED)}, or OWNER/NAME"
        )
    return PUBLISHED[known[name.lower()]][source]
