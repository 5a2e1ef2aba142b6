"""Writes spoken audio into a file once all of it is there, or through a pipe as it is made."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.files import check_place
from firstword.app.audio.formats import FORMATS, SUFFIXES, AudioFormat, FileFormat, Tags
from firstword.app.commands.console import CommandFailed
from firstword.app.provenance import NO_MARKS, Provenance
from firstword.files import write_whole

STANDARD_OUTPUT: Final = "-"
PLAYERS: Final[Mapping[str, Sequence[str]]] = {
    "pw-play": ("--format=s16", "--rate={rate}", "--channels=1", "-"),
    "paplay": ("--raw", "--format=s16le", "--rate={rate}", "--channels=1"),
    "aplay": ("-q", "-t", "raw", "-f", "S16_LE", "-r", "{rate}", "-c", "1"),
    "play": ("-q", "-t", "raw", "-e", "signed", "-b", "16", "-r", "{rate}", "-c", "1", "-"),
    "ffplay": ("-nodisp", "-autoexit", "-loglevel", "error", "-f", "s16le", "-ar", "{rate}", "-"),
}
"""Commands that play s16le of one channel from their standard input, and their options."""


class Output(Protocol):
    tags: Tags | None  # of the file; set before the first `take`
    provenance: Provenance  # its other marks; likewise

    async def take(self, samples: Samples, sample_rate_hz: int) -> None: ...

    async def finish(self) -> None:
        """Once and last, after at least one `take`."""
        ...


class FileOutput:
    """Complete, with true sizes in its header; a file that was there stays if the speaking fails."""

    def __init__(self, path: Path, format: FileFormat, speed: float) -> None:
        try:
            check_place(path)
        except OSError as error:
            raise CommandFailed(str(error)) from None
        self._path, self._format, self._speed = path, format, speed
        self.tags: Tags | None = None
        self.provenance = NO_MARKS
        self._pieces: list[Samples] = []
        self._rate_hz = 0

    async def take(self, samples: Samples, sample_rate_hz: int) -> None:
        self._pieces.append(samples)
        self._rate_hz = sample_rate_hz

    async def finish(self) -> None:
        assert self._pieces, "finish before anything was taken"
        await asyncio.to_thread(self._save)

    def _save(self) -> None:
        samples = np.concatenate(self._pieces)
        content = encode_whole(
            self._format,
            samples,
            self._rate_hz,
            speed=self._speed,
            tags=self.tags,
            watermark=self.provenance.watermark,
        )
        write_whole(self._path, self.provenance.signed(content, self._format))


class PipeOutput:
    """A reader who is slow holds up the stream, not the event loop."""

    def __init__(self, format: AudioFormat, speed: float) -> None:
        self.tags: Tags | None = None
        self.provenance = NO_MARKS
        self._format, self._speed = format, speed
        self._encoder: AudioEncoder | None = None

    async def take(self, samples: Samples, sample_rate_hz: int) -> None:
        header = b""
        if self._encoder is None:
            self._encoder = AudioEncoder(
                self._format,
                sample_rate_hz,
                speed=self._speed,
                tags=self.tags,
                watermark=self.provenance.watermark,
            )
            header = self._encoder.start()
        await asyncio.to_thread(_write, header + self._encoder.encode(samples))

    async def finish(self) -> None:
        assert self._encoder is not None, "finish before anything was taken"
        await asyncio.to_thread(_write, self._encoder.finish())


class PlayOutput:
    """Through a player that this machine has, which reads samples while they are made."""

    def __init__(self, speed: float) -> None:
        self._name = next(filter(shutil.which, PLAYERS), "")
        if not self._name:
            raise CommandFailed(
                f"no player was found, of {', '.join(PLAYERS)}; install one (apt-get install alsa-utils), or "
                "write a file with --output"
            )
        self.tags: Tags | None = None
        self.provenance = NO_MARKS
        self._speed = speed
        self._encoder: AudioEncoder | None = None
        self._player: subprocess.Popen[bytes] | None = None

    async def take(self, samples: Samples, sample_rate_hz: int) -> None:
        if self._encoder is None:
            self._encoder = AudioEncoder(
                "pcm", sample_rate_hz, speed=self._speed, watermark=self.provenance.watermark
            )
            self._encoder.start()
            command = [self._name, *(word.format(rate=sample_rate_hz) for word in PLAYERS[self._name])]
            self._player = await asyncio.to_thread(_player, command)
        await asyncio.to_thread(self._write, self._encoder.encode(samples))

    async def finish(self) -> None:
        assert self._encoder is not None, "finish before anything was taken"
        await asyncio.to_thread(self._write, self._encoder.finish(), True)

    def _write(self, data: bytes, is_last: bool = False) -> None:
        player = self._player
        assert player is not None, "written before it was opened"
        assert player.stdin is not None, "opened with a pipe"
        try:
            player.stdin.write(data)
            player.stdin.flush()
            if is_last:
                player.stdin.close()
        except BrokenPipeError:
            is_last = True
        if is_last and player.wait():
            raise CommandFailed(f"{self._name} could not play it; write a file with --output")


def _player(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)


def open_output(where: str, format: str | None, speed: float) -> Output:
    """where: a path or `-`. format None: by the path's suffix; through a pipe pcm. Raises CommandFailed."""
    if where == STANDARD_OUTPUT:
        return PipeOutput(_streamed_format(format or "pcm"), speed)
    path = Path(where)
    if format is None:
        suffix = path.suffix.lower()
        return FileOutput(path, SUFFIXES.get(suffix) or _streamed_format(suffix.removeprefix(".")), speed)
    return FileOutput(path, "m4a" if format == "m4a" else _streamed_format(format), speed)


def _streamed_format(name: str) -> AudioFormat:
    for known in FORMATS:
        if known == name:
            return known
    if name == "m4a":
        raise CommandFailed("m4a has its index in front and needs a file; give --format aac for a pipe")
    raise CommandFailed(f"no audio format is named {name!r}; give --format one of {', '.join(FORMATS)}, m4a")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
