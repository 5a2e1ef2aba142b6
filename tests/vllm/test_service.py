"""A real server over vLLM, as its users meet it; at last its engine is killed."""

import asyncio
import base64
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import websockets

from tests.e2e.server import Server, serving
from tests.support.service_client import PATIENCE_S, TEXT, client, heard_before_the_end, measured, spoken

pytestmark = [pytest.mark.vllm, pytest.mark.anyio, pytest.mark.timeout(600)]

BACK_WITHIN_S = 240


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    data_dir = tmp_path_factory.mktemp("data")
    with serving(data_dir, backend="vllm", max_streams=16, vllm_memory_share=0.05) as server:
        yield server


async def metrics_of(server: Server) -> str:
    async with client(server) as http:
        return (await http.get("/metrics")).text


async def test_text_is_spoken(server: Server) -> None:
    samples = await spoken(server)
    assert 2.0 < len(samples) / 24_000 < 8.0
    assert np.abs(samples).max() > 3000
    async with client(server) as http:
        assert (await http.get("/v1/capabilities")).json()["backend"] == "vllm"


async def test_sixteen_streams_at_once_say_what_one_says_alone(server: Server) -> None:
    alone = await spoken(server)
    together = await asyncio.gather(*(spoken(server) for _ in range(16)))
    for samples in together:
        assert len(samples) == len(alone)
        assert np.abs(samples.astype(int) - alone).max() <= 2


async def opened(server: Server) -> Any:
    socket = await websockets.connect(f"{server.ws_url}/tts/stream", max_size=None)
    await socket.send(json.dumps({"type": "start", "context": "a", "seed": 1, "mode": "continuous"}))
    return socket


async def push(socket: Any, text: str) -> None:
    await socket.send(json.dumps({"type": "text", "context": "a", "text": text}))


async def test_text_that_comes_word_by_word_is_spoken_as_it_comes(server: Server) -> None:
    hits = measured(await metrics_of(server), "vllm:prefix_cache_hits_total")
    async with await opened(server) as socket:
        for word in TEXT.split():
            await push(socket, f"{word} ")
        heard, _ = await heard_before_the_end(socket)
    assert heard / 2 / 24_000 > 2.0
    assert measured(await metrics_of(server), "vllm:prefix_cache_hits_total") > hits


async def test_times_of_words_come_from_the_model_and_change_no_sample(server: Server) -> None:
    async with client(server) as http:
        body = {"text": TEXT, "format": "pcm", "seed": 1}
        plain = await http.post("/tts", json=body)
        timed = await http.post("/tts", json={**body, "timestamps": "word"})
    lines = [json.loads(line) for line in timed.text.splitlines()]
    assert lines[-1] == {"word_times": "aligned"}
    audio = b"".join(base64.b64decode(line["audio"]) for line in lines[:-1])
    assert np.abs(np.subtract(pcm_of(audio), pcm_of(plain.content))).max() <= 2
    words = [word for line in lines[:-1] for word in line.get("words", ())]
    assert [TEXT[word["char_start"] : word["char_end"]] for word in words] == [word["text"] for word in words]
    starts = [word["start_ms"] for word in words]
    assert len(words) == len(TEXT.split())
    assert starts == sorted(starts)
    assert starts[-1] < len(audio) / 48


def pcm_of(audio: bytes) -> list[int]:
    return np.frombuffer(audio, "<i2").astype(int).tolist()


async def test_a_client_who_leaves_leaves_nothing_in_the_engine(server: Server) -> None:
    async with client(server) as http:
        for _ in range(8):
            async with http.stream("POST", "/tts", json={"text": TEXT * 10, "format": "pcm"}) as answer:
                async for _ in answer.aiter_bytes():
                    break
    await spoken(server)  # its steps tell the figures anew
    exposition = await metrics_of(server)
    assert measured(exposition, "vllm:num_requests_running") == 0
    assert measured(exposition, "vllm:num_requests_waiting") == 0
    assert measured(exposition, "vllm:kv_cache_usage_perc") == 0


async def test_a_killed_engine_is_told_and_comes_back(server: Server) -> None:
    async with await opened(server) as socket:
        await push(socket, TEXT * 20)
        while not isinstance(await socket.recv(), bytes):
            pass
        os.kill(engine_process(server.process.pid), signal.SIGKILL)
        event: dict[str, Any] = {}
        while event.get("type") != "error":
            message = await asyncio.wait_for(socket.recv(), PATIENCE_S)
            event = json.loads(message) if isinstance(message, str) else {}
    assert event["error"]["code"] == "restarting", event
    async with client(server) as http:
        unready = await http.get("/readyz")
        assert unready.status_code == 503
        assert "engine died" in unready.json()["reason"]
        refused = await http.post("/tts", json={"text": TEXT})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "restarting")
        assert (await http.get("/livez")).status_code == 200
        await until_ready(http)
        assert measured(await metrics_of(server), "tts_engine_restarts_total") == 1
    assert len(await spoken(server)) > 48_000


async def until_ready(http: httpx.AsyncClient) -> None:
    deadline = time.monotonic() + BACK_WITHIN_S
    while (await http.get("/readyz")).status_code != 200:
        assert time.monotonic() < deadline, "the engine did not come back"
        await asyncio.sleep(0.5)  # as a load balancer asks


def engine_process(parent: int) -> int:
    """The child that vLLM names so."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_text()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == parent and "EngineCore" in command:
            return int(stat.parent.name)
    raise AssertionError("the server has no engine process")
