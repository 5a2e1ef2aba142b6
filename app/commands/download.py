"""`firstword download`: fetches a published checkpoint from a hub, verified, into a directory."""

import os
from collections.abc import Mapping
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

# By their names: the owner at Hugging Face, and that at ModelScope.
PUBLISHED: Final[Mapping[str, tuple[str, str]]] = {
    "CosyVoice-300M": ("FunAudioLLM", "iic"),
    "CosyVoice-300M-SFT": ("FunAudioLLM", "iic"),
    "CosyVoice-300M-Instruct": ("FunAudioLLM", "iic"),
    "CosyVoice2-0.5B": ("FunAudioLLM", "iic"),
    "Fun-CosyVoice3-0.5B-2512": ("FunAudioLLM", "FunAudioLLM"),
}


def download(
    name: Annotated[str, typer.Argument(help=f"{', '.join(PUBLISHED)}, or OWNER/NAME of another.")],
    source: Annotated[str, typer.Option(help="huggingface or modelscope.")] = "huggingface",
    to: Annotated[Path | None, typer.Option(help="Directory to make; left out: models/NAME here.")] = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit; left out: the newest.")] = None,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="Succeed at once where the directory is there.")
    ] = False,
    mirror: Annotated[
        str | None,
        typer.Option(help="Address of a mirror of the source; also HF_ENDPOINT of the environment."),
    ] = None,
) -> None:
    """Download a published checkpoint: only what is read, digests verified. Run again, it goes on."""
    from firstword.app.commands.hubs import ENDPOINTS, REVISIONS, Hub, Source, free_space_for, wanted_files

    with waiting("getting ready"):
        from firstword.models.checkpoint.open import CHECKPOINT_FILES
        from firstword.models.config import YAML_FILES

    sources: dict[str, Source] = {"huggingface": "huggingface", "modelscope": "modelscope"}
    if source not in sources:
        raise CommandFailed(f"--source {source!r}; expected huggingface or modelscope")
    hub_name = sources[source]
    repository = _repository(name, hub_name)
    directory = to or Path("models") / repository.partition("/")[2]
    revision = revision or REVISIONS[hub_name]
    if directory.exists() and any(directory.iterdir()):
        if if_missing:  # it came into being whole
            return
        raise CommandFailed(f"{directory} is there already; remove it, or give another --to")
    unfinished = directory.with_name(f"{directory.name}.unfinished")
    usual = os.environ.get("HF_ENDPOINT") if hub_name == "huggingface" else None
    with Hub(hub_name, mirror or usual or ENDPOINTS[hub_name]) as hub:
        with waiting(f"asking what {repository} holds"):
            files = wanted_files(hub.files(repository, revision), [*CHECKPOINT_FILES, "LICENSE", "README.md"])
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
    typer.echo(
        f"{directory}: {len(files)} files, {total / 2**20:.0f} MiB. "
        f"Serve it: firstword serve --checkpoint {directory}"
    )


def _repository(name: str, source: str) -> str:
    owner, slash, model = name.partition("/")
    if slash and owner and model and "/" not in model:
        return name
    known = {published.lower(): published for published in PUBLISHED}
    if name.lower() not in known:
        raise CommandFailed(
            f"no published model is named {name!r}; give {', '.join(PUBLISHED)}, or OWNER/NAME"
        )
    published = known[name.lower()]
    return f"{PUBLISHED[published][source == 'modelscope']}/{published}"
