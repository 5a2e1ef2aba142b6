"""What the commands share: output, errors and the HTTP client.

Where spoken audio goes: into a file once all of it is there, or through a pipe as it is made.

Asks a running server over HTTP, and says in one line what it answers when it refuses.

What every command shares: where it writes, and how it says that the world is not as it should be.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx
import numpy as np
from rich.console import Console
from typer import Exit
from typer.core import TyperGroup

from firstword.app.audio.dsp import Samples
from firstword.app.audio.encode import AudioEncoder, encode_whole, open_encoder
from firstword.app.audio.formats import FORMATS, AudioFormat
from firstword.app.settings import LOCAL_URL

STANDARD_OUTPUT: Final = "-"
_SUFFIXES: Final = {"ogg": "opus", "raw": "pcm"}  # where the suffix is not the format's name


class Output(Protocol):
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
        self._path.write_bytes(encode_whole(self._format, samples, self._rate_hz, speed=self._speed))


class PipeOutput:
    """A reader who is slow holds up the stream, not the event loop."""

    def __init__(self, format: AudioFormat, speed: float) -> None:
        self._format, self._speed = format, speed
        self._encoder: AudioEncoder | None = None

    async def take(self, samples: Samples, sample_rate_hz: int) -> None:
        header = b""
        if self._encoder is None:
            self._encoder = open_encoder(self._format, sample_rate_hz, speed=self._speed)
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


TIMEOUT_S: Final = 120.0  # a registration computes; everything else is quick


def open_client(url: str, api_key: str | None) -> httpx.Client:
    """Raises CommandFailed for what is no URL of a server, and for what is no key."""
    try:
        base_url = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise CommandFailed(f"{url!r} is no URL ({error}); expected one such as {LOCAL_URL}") from None
    if base_url.scheme not in ("http", "https") or not base_url.host:
        raise CommandFailed(f"{url!r} is no URL of a server; expected one such as {LOCAL_URL}")
    if api_key and not all("!" <= character <= "~" for character in api_key):
        raise CommandFailed("the API key holds characters that no header can; copy it again, without quotes")
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    return httpx.Client(base_url=base_url, headers=headers, timeout=TIMEOUT_S)


def ask(client: httpx.Client, method: str, path: str, **given: Any) -> httpx.Response:
    """given: as httpx takes it. Raises CommandFailed for no answer, and for one that is an error."""
    try:
        response = client.request(method, path, **given)
    except httpx.TimeoutException:
        raise CommandFailed(f"{client.base_url} did not answer within {TIMEOUT_S:g} s; try again") from None
    except httpx.HTTPError as error:
        raise CommandFailed(
            f"no server answers at {client.base_url} ({error}); start one with `firstword serve`,"
            " or name another with --url"
        ) from None
    if not response.is_success:
        raise CommandFailed(_refusal(response))
    return response


def json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise CommandFailed(f"{response.url} answers no JSON; is it a Firstword server?") from None


def speaker_path(name: str, *more: str) -> str:
    return "/".join(("/speakers", quote(name, safe=""), *more))


def _refusal(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        return f"{error['message']} (HTTP {response.status_code}, {error['code']})"
    except (ValueError, KeyError, TypeError):
        return f"{response.url} answers HTTP {response.status_code}; is it a Firstword server?"


class CommandFailed(Exception):
    """The message says what came, what was expected, what to do; it is all that the user sees."""


class CommandGroup(TyperGroup):
    """Ends with one line and exit code 1 on what the world can break; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            causes = list(_leaves(error))
            if not all(_is_of_the_world(cause) for cause in causes):
                raise
            line = "; ".join(" ".join(str(cause).split()) for cause in causes)
            to_stderr().print(
                f"firstword: {line}", style="red", markup=False, highlight=False, soft_wrap=True
            )
            raise Exit(1) from None


def to_stdout() -> Console:
    return Console()


def to_stderr() -> Console:
    return Console(stderr=True)


def _leaves(error: Exception) -> Iterator[Exception]:
    """The errors that a group of tasks gathered, however deep; of a single one, itself."""
    if not isinstance(error, ExceptionGroup):
        yield error
        return
    for inner in error.exceptions:
        yield from _leaves(inner)


def _is_of_the_world(error: Exception) -> bool:
    # Imported when something failed: numpy behind them would slow down every start.
    from firstword.app.engine.backend import BackendError
    from firstword.app.errors import TtsError
    from firstword.app.settings import InvalidSettings
    from firstword.app.speakers.store import SpeakerStoreError
    from firstword.models.config import CheckpointError
    from firstword.models.frontend.features import FrontendError

    known = (
        *(CommandFailed, InvalidSettings, BackendError, TtsError),
        *(SpeakerStoreError, CheckpointError, FrontendError),
    )
    # A broken pipe is no error here: whoever read our output has enough.
    return isinstance(error, (*known, OSError)) and not isinstance(error, BrokenPipeError)
