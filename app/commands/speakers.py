"""`firstword speakers`: registers, shows and moves the speakers of a running server."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from firstword.app.commands.console import CommandFailed, to_stdout, waiting
from firstword.app.settings import LOCAL_URL, PREFIX
from firstword.files import write_whole

if TYPE_CHECKING:
    import httpx

speakers = typer.Typer(name="speakers", help="Register, show and move the speakers of a running server.")

COLUMNS = ("name", "kind", "owner", "access", "seconds", "language", "who")  # of the list, where one has it
Name = Annotated[str, typer.Argument(help="The speaker's name: letters, digits, _ and -, at most 64.")]
Url = Annotated[str, typer.Option("--url", envvar=f"{PREFIX}CLIENT_URL", help="Where the server is.")]
ApiKey = Annotated[
    str | None, typer.Option("--api-key", envvar=f"{PREFIX}CLIENT_API_KEY", help="A key, if it asks for one.")
]
OtherAccess = Annotated[
    str | None, typer.Option("--access", help="shared, read-only or private; left out: as the key says.")
]


@speakers.command()
def add(
    name: Name,
    recording: Annotated[Path, typer.Argument(help="wav, flac, mp3 or ogg, 1 to 30 s of one voice.")],
    transcript: Annotated[str, typer.Option(help="What is said in it, word for word.")] = "",
    language: Annotated[str | None, typer.Option(help="Such as en.")] = None,
    lexicon: Annotated[
        typer.FileText | None, typer.Option(help="JSON file of what it says for a word.", encoding="utf-8")
    ] = None,
    access: OtherAccess = None,
    url: Url = LOCAL_URL,
    api_key: ApiKey = None,
) -> None:
    """Register a speaker from a recording."""
    form = {"name": name, "transcript": transcript} | ({"language": language} if language else {})
    form |= {"access": access} if access else {}
    try:
        form |= {"lexicon": lexicon.read()} if lexicon else {}
    except UnicodeDecodeError as error:
        raise CommandFailed(f"the lexicon is not UTF-8 ({error}); save it as UTF-8") from None
    _show(_sent(url, api_key, "/speakers", form, "audio", recording))


@speakers.command(name="list")
def list_all(url: Url = LOCAL_URL, api_key: ApiKey = None) -> None:
    """List all speakers."""
    from firstword.app.commands.client import ask, json_of, open_client

    with open_client(url, api_key) as client:
        known = json_of(ask(client, "GET", "/speakers"))["speakers"]
    rows = [_row(speaker) for speaker in known]
    used = [column for column in COLUMNS if any(row[column] for row in rows)]
    table = Table(box=None)
    for column in used:
        table.add_column(column, no_wrap=column not in ("name", "who"), overflow="fold")
    for row in rows:
        table.add_row(*(_plain(row[column]) for column in used))
    to_stdout().print(table)


def _row(speaker: dict[str, Any]) -> dict[str, str]:
    """One line of the list; `show` has the rest."""
    about = speaker.get("description") or {}
    is_registered = speaker["kind"] == "registered"
    return {
        "name": speaker["name"],
        "kind": speaker["kind"],
        "owner": speaker.get("owner") or "",
        "access": speaker.get("access", "") if is_registered else "",
        "seconds": f"{speaker['duration_s']:.1f}" if is_registered else "",
        "language": speaker["language"] or about.get("language") or "",
        "who": ", ".join(about[part] for part in ("sex", "age", "manner", "accent") if about.get(part)),
    }


@speakers.command()
def show(name: Name, url: Url = LOCAL_URL, api_key: ApiKey = None) -> None:
    """Show one speaker, and how good its recording is."""
    from firstword.app.commands.client import ask, json_of, open_client, speaker_path

    with open_client(url, api_key) as client:
        _show(json_of(ask(client, "GET", speaker_path(name))))


@speakers.command()
def rm(name: Name, url: Url = LOCAL_URL, api_key: ApiKey = None) -> None:
    """Delete a registered speaker; what it is saying it says to the end."""
    from firstword.app.commands.client import ask, open_client, speaker_path

    with open_client(url, api_key) as client:
        ask(client, "DELETE", speaker_path(name))
    typer.echo(f"{name} is deleted")


@speakers.command()
def export(
    name: Annotated[str | None, typer.Argument(help="The speaker's name; left out with --all.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Left out: NAME.safetensors. With --all a directory, left out: this one; of speakers of one "
            "name each is NAME.OWNER.safetensors, and one that differs from another in case alone "
            "NAME(2).safetensors.",
        ),
    ] = None,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Every registered speaker that the key sees.")
    ] = False,
    url: Url = LOCAL_URL,
    api_key: ApiKey = None,
) -> None:
    """Save a speaker as one file, which another server with the same checkpoint imports."""
    from firstword.app.commands.client import ask, json_of, open_client

    if (name is None) is not all_of_them:
        raise CommandFailed("give the name of one speaker, or --all")
    with open_client(url, api_key) as client:
        if not all_of_them:
            _export(client, str(name), {}, output or Path(f"{name}.safetensors"))
            return
        folder = output or Path()
        folder.mkdir(parents=True, exist_ok=True)
        known = [
            one for one in json_of(ask(client, "GET", "/speakers"))["speakers"] if one["kind"] == "registered"
        ]
        sharing = Counter(one["name"] for one in known)  # several owners may have a private one of a name
        owners = [
            {"owner": one["owner"]} if sharing[one["name"]] > 1 and one.get("owner") else {} for one in known
        ]
        stems = _distinct(
            [".".join((one["name"], *owner.values())) for one, owner in zip(known, owners, strict=True)]
        )
        failed = []
        for one, owner, stem in zip(known, owners, stems, strict=True):
            try:
                _export(client, one["name"], owner, folder / f"{stem}.safetensors")
            except CommandFailed as error:
                failed.append(f"{stem}: {error}")
    if not known:
        typer.echo("no speaker is registered")
    if failed:
        raise CommandFailed(
            f"{len(failed)} of {len(known)} speakers were not exported, the first {failed[0]}"
        )


def _distinct(stems: list[str]) -> list[str]:
    """Number those that a file system without case takes for one before them."""
    numbers = Counter[str]()
    distinct: list[str] = []
    for stem in stems:
        numbers[stem.lower()] += 1
        distinct.append(stem if numbers[stem.lower()] == 1 else f"{stem}({numbers[stem.lower()]})")
    return distinct


def _export(client: "httpx.Client", name: str, owner: dict[str, str], path: Path) -> None:
    from firstword.app.commands.client import ask, speaker_path

    bundle = ask(client, "GET", speaker_path(name, "export"), params=owner).content
    write_whole(path, bundle)
    typer.echo(f"{path}: {len(bundle)} bytes")


@speakers.command(name="import")
def import_bundle(
    bundle: Annotated[Path, typer.Argument(help="A file that `firstword speakers export` wrote.")],
    name: Annotated[str | None, typer.Option(help="Another name than the one it had.")] = None,
    access: OtherAccess = None,
    url: Url = LOCAL_URL,
    api_key: ApiKey = None,
) -> None:
    """Register a speaker from an exported file."""
    form = ({"name": name} if name else {}) | ({"access": access} if access else {})
    _show(_sent(url, api_key, "/speakers/import", form, "bundle", bundle))


def _sent(url: str, api_key: str | None, path: str, form: dict[str, str], field: str, file: Path) -> Any:
    from firstword.app.commands.client import ask, json_of, open_client

    sent_name = file.name.encode(errors="replace").decode()  # which may be no UTF-8
    sending = waiting(f"{sent_name}: sent, and computed by the server")
    with open_client(url, api_key) as client, file.open("rb") as content, sending:
        response = ask(client, "POST", path, data=form, files={field: (sent_name, content)})
    return json_of(response)


def _show(speaker: dict[str, Any]) -> None:
    quality = speaker.get("quality") or {}
    warnings = quality.get("warnings", [])
    figures = {name: value for name, value in quality.items() if name != "warnings"}
    for name, value in ({key: speaker[key] for key in speaker if key != "quality"} | figures).items():
        shown = "" if value is None else round(value, 3) if isinstance(value, float) else value
        typer.echo(f"{name}: {_plain(shown)}")
    for warning in warnings:
        typer.echo(f"warning: {_plain(warning)}")


def _plain(value: object) -> str:
    """What a server sends cannot steer the terminal."""
    return "".join(character if character.isprintable() else "?" for character in str(value))
