"""What tests ask of a running server, over real sockets."""

import json
from typing import Any

import httpx
import numpy as np
import websockets
from numpy.typing import NDArray

from tests.e2e.server import Server
from tests.support.readings import series

TEXT = "The train leaves at 7:30. Do not be late."
PATIENCE_S = 120


def client(server: Server) -> httpx.AsyncClient:
    headers = {"X-API-Key": server.key} if server.key else {}
    return httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S, headers=headers)


async def spoken(server: Server, **fields: Any) -> NDArray[np.int16]:
    """What /tts says, as samples."""
    async with client(server) as http:
        answer = await http.post("/tts", json={"text": TEXT, "format": "pcm", "seed": 7, **fields})
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


async def in_pieces(
    server: Server, *pieces: str, **start: Any
) -> tuple[NDArray[np.int16], list[dict[str, Any]]]:
    """What a socket says of text in pieces: samples, and the messages that are no audio."""
    audio, messages = b"", []
    async with websockets.connect(f"{server.ws_url}/tts/stream") as socket:
        await socket.send(json.dumps({"type": "start", "seed": 7, **start}))
        for piece in pieces:
            await socket.send(json.dumps({"type": "text", "text": piece}))
        await socket.send(json.dumps({"type": "end"}))
        async for message in socket:
            if isinstance(message, bytes):
                audio += message
                continue
            event = json.loads(message)
            if event["type"] != "audio":
                messages.append(event)
            if event["type"] in ("done", "error"):
                break
    return np.frombuffer(audio, "<i2"), messages


def measured(exposition: str, name: str, **labels: str) -> float:
    """The sum over all series of that name with these labels."""
    values = [
        value
        for (series_name, series_labels), value in series(exposition).items()
        if series_name == name and labels.items() <= series_labels
    ]
    assert values, name
    return sum(values)


async def heard_before_the_end(socket: Any) -> tuple[int, dict[str, Any]]:
    """Ends the text of context a only once there is audio of it; -> bytes of audio, the last event."""
    heard, event = 0, {}
    while event.get("type") != "done":
        message = await socket.recv()
        if isinstance(message, str):
            event = json.loads(message)
            assert event["type"] != "error", event
            continue
        if heard == 0:
            await socket.send(json.dumps({"type": "end", "context": "a"}))
        heard += len(message)
    return heard, event
