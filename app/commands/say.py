"""`firstword say`: speaks a text into a file or a pipe, in this process and without a server."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

import typer
from rich.progress import BarColumn, Progress, TextColumn

from firstword.app.audio.formats import MAX_CLEAR_SPEED, MIN_CLEAR_SPEED, synthetic_tags
from firstword.app.commands.console import CommandFailed, to_stderr, waiting
from firstword.app.settings import Settings, load_settings, variable_of

if TYPE_CHECKING:
    from firstword.app.commands.output import Output
    from firstword.app.core.interface import SynthesisStream
    from firstword.app.core.transcript import TimedWord

STANDARD_INPUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Spoken:
    """audio_s: as the engine made it, before any change of speed."""

    audio_s: float
    first_audio_s: float
    compute_s: float
    words: list["TimedWord"]

    def __str__(self) -> str:
        first_ms = round(1000 * self.first_audio_s)
        rtf = self.compute_s / self.audio_s
        return f"{self.audio_s:.2f} s of speech, the first after {first_ms} ms, real-time factor {rtf:.2f}"


def say(
    text: Annotated[str, typer.Argument(help="What is to be said; - reads it from standard input.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; - sends s16le PCM to standard output. Left out: out.wav.",
        ),
    ] = None,
    play: Annotated[
        bool, typer.Option("--play", help="Play it while it is made, instead of a file.")
    ] = False,
    speaker: Annotated[str | None, typer.Option(help="Who says it.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Such as en or en-GB; else found for each segment.")
    ] = None,
    speed: Annotated[
        float,
        typer.Option(min=MIN_CLEAR_SPEED, max=MAX_CLEAR_SPEED, help="2: twice as fast, at the same pitch."),
    ] = 1.0,
    seed: Annotated[int | None, typer.Option(min=0, help="The same one says it the same way again.")] = None,
    format: Annotated[
        str | None,
        typer.Option(help="wav, pcm, pcm_f32, mp3, opus, aac, m4a, flac, ulaw, alaw; else by the suffix."),
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Model directory.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Recording of 1 to 30 s whose voice says it, instead of --speaker.")
    ] = None,
    reference_text: Annotated[str, typer.Option(help="What is said in --reference, word for word.")] = "",
    mode: Annotated[
        str | None, typer.Option(help="zero_shot, cross_lingual, instruct or sft; else what fits.")
    ] = None,
    instruct: Annotated[str | None, typer.Option(help="How to say it, on checkpoints that take it.")] = None,
    context: Annotated[
        str, typer.Option(help="full solves each segment at once instead of in chunks.")
    ] = "chunks",
    subtitles: Annotated[
        Path | None, typer.Option(help="File for the times of the words: .json, .srt or .vtt.")
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(help="A field of POST /tts such as volume=0.5, temperature, lexicon; may come again."),
    ] = None,
) -> None:
    """Speak a text without a server."""
    from firstword.app.commands.output import PlayOutput, open_output
    from firstword.app.commands.subtitles import check_subtitles
    from firstword.app.core.request import FlowContext, VoiceMode
    from firstword.app.telemetry.logs import configure_logging

    settings = load_settings(checkpoint=checkpoint, max_streams=1)
    if play and (output is not None or format is not None):
        raise CommandFailed("--play writes no file; give it without --output and --format")
    place = "played" if play else output or "out.wav"
    audio_output = PlayOutput(speed) if play else open_output(place, format, speed)
    words = _standard_input() if text == STANDARD_INPUT else text
    configure_logging("warning", settings.log.log_format)
    if mode is not None and mode not in get_args(VoiceMode):
        raise CommandFailed(f"no mode is named {mode!r}; give --mode one of {', '.join(get_args(VoiceMode))}")
    if context not in get_args(FlowContext):
        raise CommandFailed(
            f"no context is named {context!r}; give --context one of {', '.join(get_args(FlowContext))}"
        )
    if reference is not None and not reference.is_file():
        raise CommandFailed(f"there is no file {reference}; give --reference a recording")
    voice = {
        "speaker": speaker,
        "language": language,
        "seed": seed,
        "reference": reference,
        "transcript": reference_text,
        "mode": mode,
        "instruct": instruct,
        "options": _options(option or []),
        "context": context,
        "wants_words": subtitles is not None,
    }
    if subtitles is not None:
        check_subtitles(subtitles)
    with waiting("loading and warming up the networks") as end_waiting:
        spoken = asyncio.run(_say(settings, words, voice, audio_output, end_waiting, subtitles, speed))
    to_stderr().print(f"{place}: {spoken}", markup=False, highlight=False, soft_wrap=True)


def _standard_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise CommandFailed(
            f"standard input is not {error.encoding}; convert it, such as with iconv"
        ) from None


def _options(given: list[str]) -> dict[str, object]:
    """Values are JSON, or text as it stands. Raises CommandFailed."""
    from firstword.app.speech_options import checked_options

    options: dict[str, object] = {}
    for one in given:
        name, sign, value = one.partition("=")
        if not sign:
            raise CommandFailed(f"--option {one[:60]}: expected NAME=VALUE, such as volume=0.5")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    try:
        checked_options(options)
    except ValueError as error:
        raise CommandFailed(f"--option: {error}") from None
    return options


async def _say(
    settings: Settings,
    text: str,
    voice: dict[str, Any],
    output: "Output",
    on_loaded: Callable[[], None],
    subtitles: Path | None,
    speed: float,
) -> Spoken:
    """voice: as `AsyncSynthesizer.stream` takes it. subtitles: where to write the words, at `speed` as well.

    Raises TtsError; CommandFailed where an option or the text is at fault.
    """
    from firstword.app.engine.voice_parts import checked_watermark
    from firstword.app.errors import SpeakerNotFound, TextTooLong
    from firstword.app.provenance import open_provenance
    from firstword.app.synthesizer import AsyncSynthesizer

    keeps_data = settings.speakers.data_dir.is_dir()  # nothing is left where no server was, but for a key
    output.provenance = open_provenance(
        settings.provenance, settings.speakers.data_dir, settings.server.tag_audio
    )
    async with AsyncSynthesizer(
        settings.networks,
        settings.engine,
        settings.speakers,
        settings.lm_engines,
        limits=settings.work,
        keeps_data=keeps_data,
    ) as synthesizer:
        on_loaded()
        checked_watermark(output.provenance.watermark, synthesizer.sample_rate_hz)
        sample_rate_hz = synthesizer.sample_rate_hz
        began_s = time.perf_counter()
        try:
            async with synthesizer.stream(text, speed=speed, **voice) as stream:
                spoken = await _write(stream, began_s, len(text.strip()), output)
        except SpeakerNotFound:
            known = ", ".join(synthesizer.speakers)
            raise CommandFailed(
                f"no speaker is called {voice['speaker']!r}; give --speaker one of {known}"
            ) from None
        except TextTooLong:
            if len(text) <= settings.work.max_text_chars:
                raise
            raise CommandFailed(
                f"the text has {len(text)} characters, expected {settings.work.max_text_chars} at most; "
                f"say it in parts, or set {variable_of('max_text_chars')} higher"
            ) from None
    await output.finish()
    if subtitles is not None:
        from firstword.app.commands.subtitles import write_subtitles

        write_subtitles(subtitles, text, spoken.words, sample_rate_hz * speed)
    return spoken


async def _write(stream: "SynthesisStream", began_s: float, num_characters: int, output: "Output") -> Spoken:
    from firstword.app.core.interface import Audio

    first_audio_s, num_samples = 0.0, 0
    words: list[TimedWord] = []
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rtf]}"))
    console = to_stderr()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("speaking", total=num_characters, rtf="")
        async for event in stream:
            if not isinstance(event, Audio) or not event.samples.size:
                continue
            first_audio_s = first_audio_s or time.perf_counter() - began_s
            num_samples += event.samples.size
            words += event.words
            # Who speaks is known with the first audio.
            if output.tags is None and output.provenance.tags_files:
                output.tags = synthetic_tags(
                    stream.speaker, stream.request.request_id, output.provenance.names_source
                )
            await output.take(event.samples, stream.sample_rate_hz)
            num_spoken = len(stream.spoken_text(num_samples).strip())
            rtf = stream.stats.compute_s * stream.sample_rate_hz / num_samples
            progress.update(task, completed=num_spoken, rtf=f"real-time factor {rtf:.2f}")
    if not num_samples:
        raise CommandFailed("the text has nothing that can be spoken; give it at least one word")
    return Spoken(num_samples / stream.sample_rate_hz, first_audio_s, stream.stats.compute_s, words)
