"""`firstword doctor --openai URL`: asks a running server what OpenAI's clients ask of it, and times it."""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import httpx

from firstword.app.commands.client import ask, json_of, open_client
from firstword.app.commands.console import CommandFailed
from firstword.app.commands.doctor import Finding

TEXT: Final = "Hello. This is what your client will hear."
MODELS: Final = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")
VOICES: Final = ("alloy", "Nova")  # in any case, as people write them
_STARTS: Final = {"mp3": (b"ID3", b"\xff"), "wav": (b"RIFF",), "opus": (b"OggS",), "flac": (b"fLaC",)}
_SPEECH: Final = "/v1/audio/speech"


def openai_findings(url: str, api_key: str | None) -> list[Finding]:
    """url: with or without the `/v1` that OpenAI's clients are given. Raises CommandFailed for no URL."""
    address = url.rstrip("/").removesuffix("/v1")
    found = []
    with open_client(address, api_key) as client:
        for subject, check in _checks(client):
            try:
                found.append(Finding(subject, "ok", check()))
            except CommandFailed as error:
                found.append(Finding(subject, "wrong", str(error), f"the server's log, for {address}"))
                if found[0].state != "ok":
                    return found  # nobody is there, or nobody lets this key in
    key = api_key or "any"
    found.append(
        Finding("for clients", "ok", f"OPENAI_BASE_URL={address}/v1 OPENAI_API_KEY={'…' if api_key else key}")
    )
    return found


def _checks(client: httpx.Client) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "models", partial(_models, client)
    yield "first audio", partial(_first_audio, client)
    for model in MODELS:
        yield f"model {model}", partial(_spoken, client, model, VOICES[0])
    yield f"voice {VOICES[1]}", partial(_spoken, client, MODELS[0], VOICES[1])
    for format in _STARTS:
        yield f"format {format}", partial(_in_format, client, format)
    yield "events", partial(_events, client)


def _models(client: httpx.Client) -> str:
    return ", ".join(model["id"] for model in json_of(ask(client, "GET", "/v1/models"))["data"])


def _first_audio(client: httpx.Client) -> str:
    began_s = time.perf_counter()
    asked = {"model": MODELS[0], "voice": VOICES[0], "input": TEXT, "response_format": "pcm"}
    with client.stream("POST", _SPEECH, json=asked) as answer:
        if not answer.is_success:
            raise CommandFailed(f"{_SPEECH} answers HTTP {answer.status_code}: {answer.read()[:300]!r}")
        pieces = answer.iter_bytes()
        num_bytes = len(next(pieces, b""))
        first_s = time.perf_counter() - began_s
        num_bytes += sum(map(len, pieces))
    if num_bytes < 4800:
        raise CommandFailed(f"{num_bytes} bytes of audio came for a sentence; expected a second and more")
    return f"after {1000 * first_s:.0f} ms, {num_bytes / 48_000:.1f} s of speech"


def _spoken(client: httpx.Client, model: str, voice: str) -> str:
    ask(client, "POST", _SPEECH, json={"model": model, "voice": voice, "input": "Yes."})
    return "spoken"


def _in_format(client: httpx.Client, format: str) -> str:
    asked = {"model": MODELS[0], "voice": VOICES[0], "input": "Yes.", "response_format": format}
    content = ask(client, "POST", _SPEECH, json=asked).content
    if not content.startswith(_STARTS[format]):
        raise CommandFailed(f"{format} begins with {content[:8]!r}; expected a {format}")
    return f"{len(content)} bytes"


def _events(client: httpx.Client) -> str:
    asked = {"model": MODELS[2], "voice": VOICES[0], "input": "Yes.", "stream_format": "sse"}
    lines = ask(client, "POST", _SPEECH, json=asked).text.split("\n\n")
    kinds = [json.loads(line.removeprefix("data: "))["type"] for line in lines if line]
    if kinds[-1] != "speech.audio.done":
        raise CommandFailed(f"the events end with {kinds[-1]}; expected speech.audio.done")
    return f"{len(kinds) - 1} with audio, then {kinds[-1]}"
