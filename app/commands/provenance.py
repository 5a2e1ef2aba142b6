"""`firstword provenance`: looks for the marks of origin in a file, without a server."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from firstword.app.commands.console import CommandFailed
from firstword.app.settings import load_settings, variable_of

MAX_CHECKED_S: Final = 3600.0  # about 1 MB of memory for each of them

provenance = typer.Typer(name="provenance", help="Marks of origin in speech and its files.")


@provenance.callback()
def group() -> None:
    """Typer takes a single command for the group itself without this."""


@provenance.command()
def check(
    file: Annotated[Path, typer.Argument(help="Recording to look at, in any format.")],
    key_file: Annotated[
        Path | None, typer.Option(help="File of the watermark's key; else the server's own.")
    ] = None,
    speeds: Annotated[
        bool, typer.Option("--speeds", help="Search up to 4 % faster and slower as well: some seconds.")
    ] = False,
    in_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Say which marks of origin a recording shows. Ends with 1 where there are none."""
    from firstword.app.audio.decode import RecordingTooLong, UndecodableAudio
    from firstword.app.audio.watermark_detector import Detector
    from firstword.app.provenance import KEY_FILE, Provenance, read_key

    settings = load_settings()
    options = settings.provenance
    path = key_file or options.provenance_key_file or settings.speakers.data_dir / KEY_FILE
    if key_file is not None and not key_file.is_file():
        raise CommandFailed(
            f"there is no file {key_file}; give --key-file the key that speech was marked with"
        )
    try:
        content = file.read_bytes()
        detector = Detector(read_key(path), options.provenance_bits) if path.is_file() else None
        found = Provenance(detector=detector).evidence(content, speeds, MAX_CHECKED_S)
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror}; give a recording") from None
    except (UndecodableAudio, RecordingTooLong, ValueError) as error:
        raise CommandFailed(f"{file}: {error}") from None
    mark, manifest = found.watermark, found.manifest
    is_marked = mark is not None and mark.payload is not None
    if in_json:
        watermark = None
        if mark is not None:
            watermark = {
                "found": is_marked,
                "payload": mark.payload,
                "score": mark.score,
                "speed": mark.speed,
            }
        report = {"watermark": watermark, "source_type": found.source_type, "c2pa": manifest}
        typer.echo(json.dumps(report | {"tags": dict(found.tags)}))
    else:
        if mark is None:
            typer.echo(
                f"watermark: not looked for; there is no key at {path} ({variable_of('provenance_key_file')})"
            )
        elif is_marked:
            typer.echo(
                f"watermark: found, payload {mark.payload:#x}, score {mark.score:.1f} over "
                f"{mark.threshold:.1f}, speed {mark.speed:.4f}"
            )
        else:
            typer.echo(f"watermark: none of this key; score {mark.score:.1f} under {mark.threshold:.1f}")
        typer.echo(f"source type: {'trainedAlgorithmicMedia' if found.source_type else 'none'}")
        typer.echo(f"c2pa: {'none' if manifest is None else json.dumps(manifest)}")
    if not (is_marked or found.source_type or (manifest is not None and manifest["is_synthetic"])):
        raise typer.Exit(1)
