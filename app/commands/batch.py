"""`firstword batch`: speaks a list of texts into files, several at once, and goes on where it was stopped."""

import asyncio
import csv
import io
import json
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from firstword.app.audio.formats import MAX_CLEAR_SPEED, MIN_CLEAR_SPEED
from firstword.app.commands.console import CommandFailed, to_stderr
from firstword.app.settings import load_settings
from firstword.files import write_whole

if TYPE_CHECKING:
    from firstword.app.core.interface import SynthesisStream
    from firstword.app.provenance import Provenance

MAX_ITEMS: Final = 100_000
TABLE: Final = "table.csv"
TEXT_FIELDS: Final = (
    *("text", "speaker", "reference", "transcript", "mode", "instruct", "language", "context", "name"),
)


@dataclass(frozen=True, slots=True)
class Item:
    name: str  # of its file, without the suffix
    text: str
    voice: Mapping[str, Any]  # as `AsyncSynthesizer.stream` takes it
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Seconds are compute time but for audio_s and total_s, which is the clock's.

    at_once: how many texts were spoken at the same time.
    """

    name: str
    characters: int = 0
    audio_s: float = 0.0
    lm_s: float = 0.0
    flow_s: float = 0.0
    vocoder_s: float = 0.0
    total_s: float = 0.0
    rtf: float = 0.0
    at_once: int = 0
    error: str = ""


def batch(
    source: Annotated[Path, typer.Argument(help=".jsonl, .csv with a header, or plain lines.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Directory of the files and the table.")],
    format: Annotated[str, typer.Option(help="wav or flac.")] = "wav",
    at_once: Annotated[int, typer.Option(min=1, max=256, help="Texts spoken at the same time.")] = 4,
    speaker: Annotated[str | None, typer.Option(help="Who says it, where a line does not.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Of every line that has none.")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory.")] = None,
) -> None:
    """Speak a list of texts into files. What is there already is not spoken again."""
    from firstword.app.telemetry.logs import configure_logging

    if format not in ("wav", "flac"):
        raise CommandFailed(f"no format of files is named {format!r}; give --format wav or flac")
    defaults = {"speaker": speaker, "seed": seed}
    items = list(read_items(source, {name: value for name, value in defaults.items() if value is not None}))
    settings = load_settings(checkpoint=checkpoint, max_streams=at_once)
    configure_logging("warning", settings.log.log_format)
    output.mkdir(parents=True, exist_ok=True)
    rows = asyncio.run(_speak_all(settings, items, output, "flac" if format == "flac" else "wav", at_once))
    spoken = [row for row in rows if not row.error]
    if failed := [row for row in rows if row.error]:
        raise CommandFailed(
            f"{len(failed)} texts were not spoken, the first {failed[0].name}: {failed[0].error}; see {TABLE}"
        )
    if spoken:
        audio_s = sum(row.audio_s for row in spoken)
        parts = {name: sum(getattr(row, name) for row in spoken) for name in ("lm_s", "flow_s", "vocoder_s")}
        by_stage = ", ".join(f"{name.removesuffix('_s')} {seconds:.1f}" for name, seconds in parts.items())
        typer.echo(
            f"{len(spoken)} of {len(items)} texts, {audio_s:.1f} s of speech; compute: {by_stage} s; "
            f"real-time factor {sum(parts.values()) / audio_s:.3f} with {at_once} at once"
        )


def read_items(source: Path, defaults: Mapping[str, Any]) -> Iterator[Item]:
    """Raises CommandFailed that names the line."""
    try:
        text = source.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandFailed(f"{source} cannot be read: {error}") from None
    reader = {".jsonl": _json_lines, ".csv": _csv_lines}.get(source.suffix.lower(), _plain_lines)
    seen: dict[str, str] = {}  # names by what a file system without case makes of them
    for number, given in reader(source, text):
        if len(seen) >= MAX_ITEMS:
            raise CommandFailed(f"{source}: more than {MAX_ITEMS} texts; split the file")
        item = _item(f"{source}:{number}", number, {**defaults, **given})
        file = unicodedata.normalize("NFC", item.name).casefold()
        if file in seen:
            alike = "" if item.name == seen[file] else f" as {seen[file]!r}, the same file where case is none"
            raise CommandFailed(
                f"{source}:{number}: the name {item.name!r} came before{alike}; give each its own"
            )
        seen[file] = item.name
        yield item


def _json_lines(source: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                given = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise CommandFailed(f"{source}:{number}: not JSON: {error}") from None
            if not isinstance(given, dict):
                raise CommandFailed(f'{source}:{number}: expected an object such as {{"text": "Hello."}}')
            yield number, {name: value for name, value in given.items() if value is not None}


def _csv_lines(source: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    try:
        for row in reader:
            if reader.restkey in row:
                raise CommandFailed(
                    f"{source}:{reader.line_num}: more fields than the header has; put a text with commas "
                    "into quotation marks"
                )
            yield reader.line_num, {str(name): value for name, value in row.items() if value}
    except csv.Error as error:
        raise CommandFailed(f"{source}:{reader.line_num}: not CSV: {error}") from None


def _plain_lines(source: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, {"text": line}


def _item(where: str, number: int, given: dict[str, Any]) -> Item:
    from firstword.app.speech_options import SpeechOptions, checked_options

    known = (*TEXT_FIELDS, "seed", "speed", *SpeechOptions.model_fields)
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise CommandFailed(f"{where}: unknown field {unknown!r}; there are {', '.join(known)}")
    for name in TEXT_FIELDS:
        if not isinstance(given.get(name, ""), str):
            raise CommandFailed(f"{where}: {name} is {given[name]!r}; expected a text")
    if not given.get("text", "").strip():
        raise CommandFailed(f"{where}: there is no text; give each line one")
    name = given.pop("name", f"{number:05}")
    if not name.isprintable() or not name or name != Path(name).name or name.startswith("."):
        raise CommandFailed(
            f"{where}: {name!r} cannot be the name of a file; give a printable one, without directories"
        )
    try:
        seed = {"seed": int(given["seed"])} if "seed" in given else {}
    except (TypeError, ValueError, OverflowError):
        raise CommandFailed(f"{where}: seed is {given['seed']!r}; expected a whole number") from None
    speed = _speed(where, given)
    options = {name: given.pop(name) for name in SpeechOptions.model_fields if name in given}
    if options:
        given["options"] = options
        try:
            checked_options(options)
        except ValueError as error:
            raise CommandFailed(f"{where}: {error}") from None
    if "reference" in given:
        given.pop("speaker", None)
        if not Path(given["reference"]).is_file():
            raise CommandFailed(f"{where}: there is no file {given['reference']}")
    return Item(name, given.pop("text"), {**given, **seed}, speed)


def _speed(where: str, given: dict[str, Any]) -> float:
    """Take it out of a line; 0 is no number."""
    try:
        speed = float(given.pop("speed", 1.0))
    except (TypeError, ValueError):
        speed = 0.0
    if not MIN_CLEAR_SPEED <= speed <= MAX_CLEAR_SPEED:
        raise CommandFailed(f"{where}: speed has to be {MIN_CLEAR_SPEED:g} to {MAX_CLEAR_SPEED:g}")
    return speed


async def _speak_all(
    settings: Any, items: list[Item], output: Path, format: Literal["wav", "flac"], at_once: int
) -> list[Row]:
    """Returns the rows of this run. Each is in the table when its file is."""
    from firstword.app.engine.voice_parts import checked_watermark
    from firstword.app.provenance import open_provenance
    from firstword.app.synthesizer import AsyncSynthesizer

    keeps_data = settings.speakers.data_dir.is_dir()  # nothing is left where no server was, but for a key
    provenance = open_provenance(settings.provenance, settings.speakers.data_dir, settings.server.tag_audio)
    missing = [item for item in items if not (output / f"{item.name}.{format}").exists()]
    rows: list[Row] = []
    if not missing:
        return rows
    columns = (TextColumn("speaking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = to_stderr()
    waiting = iter(missing)
    async with AsyncSynthesizer(
        settings.networks,
        settings.engine,
        settings.speakers,
        settings.lm_engines,
        limits=settings.work,
        keeps_data=keeps_data,
    ) as synthesizer:
        checked_watermark(provenance.watermark, synthesizer.sample_rate_hz)
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
            task = progress.add_task("speaking", total=len(items), completed=len(items) - len(missing))

            async def work() -> None:
                for item in waiting:
                    path = output / f"{item.name}.{format}"
                    row = await _speak(synthesizer.stream, item, path, format, at_once, provenance)
                    rows.append(row)
                    _add_row(output / TABLE, row)  # in no thread: two of them would both write the header
                    progress.advance(task)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(at_once):
                    tasks.create_task(work())
    return rows


async def _speak(
    open_stream: Callable[..., AbstractAsyncContextManager["SynthesisStream"]],
    item: Item,
    path: Path,
    format: Literal["wav", "flac"],
    at_once: int,
    provenance: "Provenance",
) -> Row:
    """open_stream: takes a text and a voice."""
    import numpy as np

    from firstword.app.audio.encode import encode_whole
    from firstword.app.audio.formats import synthetic_tags
    from firstword.app.core.interface import Audio
    from firstword.app.errors import TtsError

    began_s = time.perf_counter()
    try:
        async with open_stream(item.text, **item.voice) as stream:
            pieces = [event.samples async for event in stream if isinstance(event, Audio)]
    except (TtsError, ValueError) as error:
        return Row(item.name, len(item.text), error=str(error), at_once=at_once)
    if not pieces:
        return Row(item.name, len(item.text), error="nothing in it can be spoken", at_once=at_once)
    samples, stats = np.concatenate(pieces), stream.stats
    tags = None
    if provenance.tags_files:
        tags = synthetic_tags(stream.speaker, stream.request.request_id, provenance.names_source)

    def write() -> None:
        rate_hz, marks = stream.sample_rate_hz, provenance.watermark
        content = encode_whole(format, samples, rate_hz, speed=item.speed, tags=tags, watermark=marks)
        write_whole(path, provenance.signed(content, format))  # a file that is there counts as done

    await asyncio.to_thread(write)
    audio_s = len(samples) / stream.sample_rate_hz
    networks_s = stats.networks_s
    total_s = time.perf_counter() - began_s
    return Row(
        name=item.name,
        characters=len(item.text),
        audio_s=round(audio_s, 3),
        lm_s=round(networks_s["lm"], 3),
        flow_s=round(networks_s["flow"], 3),
        vocoder_s=round(networks_s["vocoder"], 3),
        total_s=round(total_s, 3),
        rtf=round(sum(networks_s.values()) / audio_s, 3),
        at_once=at_once,
    )


def _add_row(table: Path, row: Row) -> None:
    is_new = not table.exists()
    with table.open("a", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        if is_new:
            writer.writeheader()
        writer.writerow(asdict(row))
