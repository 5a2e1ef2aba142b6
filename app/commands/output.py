"""Writes spoken audio into a file once all of it is there, or through a pipe as it is made."""

import asyncio
import sys
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import AudioEncoder, encode_whole
from firstword.app.audio.formats import FORMATS, AudioFormat, OutputFormat, Tags
from firstword.app.commands.console import CommandFailed
from firstword.app.provenance import NO_MARKS, Provenance

STANDARD_OUTPUT: Final = "-"
_SUFFIXES: Final = {
    "ogg": "opus",
    "raw": "pcm",
    "f32": "pcm_f32",
}  # where the suffix is not the format's name


class Output(Protocol):
    tags: Tags | None  # of the file; set before the first `take`
    provenance: Provenance  # its other marks; likewise

    async def take(self, samples: Samples, sample_rate_hz: int) -> None: ...

    async def finish(self) -> None:
        """Once and last, after at least one `take`."""
        ...


class FileOutput:
    """Complete, with true sizes in its header; a file that was there stays if the speaking fails."""

    def __init__(self, path: Path, format: AudioFormat, speed: float) -> None:
        if not path.parent.is_dir():
            raise CommandFailed(f"{path} cannot be written: {path.parent} is no directory; make it first")
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
        output = OutputFormat(self._format, self._rate_hz)
        self._path.write_bytes(self.provenance.signed(content, output))


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


def open_output(where: str, format: str | None, speed: float) -> Output:
    """where: a path or `-`. format None: by the path's suffix; through a pipe pcm. Raises CommandFailed."""
    if where == STANDARD_OUTPUT:
        return PipeOutput(_known_format(format or "pcm"), speed)
    suffix = Path(where).suffix.lower().removeprefix(".")
    return FileOutput(Path(where), _known_format(format or _SUFFIXES.get(suffix, suffix)), speed)


def _known_format(name: str) -> AudioFormat:
    for known in FORMATS:
        if known == name:
            return known
    raise CommandFailed(f"no audio format is named {name!r}; give --format one of {', '.join(FORMATS)}")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
