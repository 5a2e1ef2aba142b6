"""The server as its users meet it: text in, speech out, over real sockets."""

import asyncio
import io
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
import soundfile
import websockets

from firstword.app.audio.loudness import integrated_lufs
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.telemetry.usage import UsageStore
from tests.e2e.server import Server, serving
from tests.support.service_client import PATIENCE_S, TEXT, client, heard_before_the_end, measured, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]


async def test_a_text_becomes_a_wav_of_speech(server: Server) -> None:
    async with client(server) as http:
        answer = await http.post("/tts", json={"text": TEXT, "seed": 7})
    samples_at = answer.content.index(b"data") + 8
    samples, rate_hz = soundfile.read(
        io.BytesIO(answer.content[samples_at:]), channels=1, samplerate=24000, format="RAW", subtype="PCM_16"
    )
    assert answer.headers["content-type"] == "audio/wav"
    assert rate_hz == 24_000
    assert 2.0 < len(samples) / rate_hz < 8.0
    assert np.abs(samples).max() > 0.1
    assert "ttfb;dur=" in answer.headers["server-timing"]


async def test_streamed_speech_is_the_whole_speech(server: Server) -> None:
    streamed = await spoken(server)
    whole = await spoken(server, stream=False)
    assert len(streamed) == len(whole)
    assert np.abs(streamed.astype(int) - whole).max() <= 2


async def test_sixteen_streams_at_once_say_what_one_says_alone(server: Server) -> None:
    alone = await spoken(server)
    together = await asyncio.gather(*(spoken(server) for _ in range(16)))
    for samples in together:
        assert len(samples) == len(alone)
        assert np.abs(samples.astype(int) - alone).max() <= 2


async def test_two_streams_at_once_are_never_mixed(server: Server) -> None:
    texts = ["One red apple lies on the table.", "Nobody knows where the river ends."]
    alone = [await spoken(server, text=text) for text in texts]
    together = await asyncio.gather(*(spoken(server, text=text) for text in texts))
    for one, other in zip(alone, together, strict=True):
        assert len(one) == len(other)
        assert np.abs(one.astype(int) - other).max() <= 2


async def test_every_built_in_speaker_speaks(server: Server) -> None:
    async with client(server) as http:
        names = [speaker["name"] for speaker in (await http.get("/speakers")).json()["speakers"]]
    assert len(names) == 18
    for name in names:
        assert len(await spoken(server, text="Hello there.", speaker=name)) > 12_000


async def test_the_openai_client_works_unchanged(server: Server) -> None:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", timeout=PATIENCE_S) as api:
        async with api.audio.speech.with_streaming_response.create(
            model="tts-1", voice="alloy", input=TEXT, response_format="wav"
        ) as answer:
            chunks = [chunk async for chunk in answer.iter_bytes()]
        mp3 = await api.audio.speech.create(model="tts-1", voice="nova", input="Hello there.")
    assert len(b"".join(chunks)) > 96_000
    samples, rate_hz = soundfile.read(io.BytesIO(mp3.content))
    assert len(samples) / rate_hz > 0.4


async def test_text_that_comes_word_by_word_is_spoken_as_it_comes(server: Server) -> None:
    words = [
        "Good",
        "morning,",
        "this",
        "text",
        "is",
        "coming",
        "word",
        "by",
        "word",
        "and",
        "is",
        "spoken",
        "as",
        "it",
        "comes.",
    ]
    async with websockets.connect(f"{server.ws_url}/tts/stream", max_size=None) as socket:
        await socket.send(json.dumps({"type": "start", "context": "a", "seed": 1, "mode": "continuous"}))
        for place, word in enumerate(words):
            piece = f" {word}" if place else word
            await socket.send(json.dumps({"type": "text", "context": "a", "text": piece}))
        heard, event = await heard_before_the_end(socket)
    assert event["stats"]["characters"] == len(" ".join(words))
    assert heard / 2 / 24_000 > 2.0


async def test_metrics_tell_what_was_done(server: Server) -> None:
    async with client(server) as http:
        before = (await http.get("/metrics")).text
        await spoken(server)
        after = (await http.get("/metrics")).text

    def grew(name: str, **labels: str) -> float:
        return measured(after, name, **labels) - measured(before, name, **labels)

    assert grew("tts_requests_total", protocol="http", outcome="ok") == 1
    assert grew("tts_time_to_first_byte_seconds_count", protocol="http") == 1
    assert grew("tts_audio_seconds_total") > 2
    assert grew("tts_speech_tokens_total") > 50
    assert grew("tts_input_characters_total") == len(TEXT)
    for stage in ("normalize", "speaker", "llm_first_token", "llm_first_hop", "flow", "vocoder"):
        assert grew("tts_stage_seconds_count", stage=stage) >= 1, stage
    assert measured(after, "tts_ready") == 1


async def test_leaving_after_the_first_chunk_a_hundred_times_leaves_nothing_behind(server: Server) -> None:
    async def come_and_leave() -> None:
        async with http.stream("POST", "/tts", json={"text": TEXT * 4, "format": "pcm"}) as answer:
            async for _ in answer.aiter_bytes():
                break

    async with client(server) as http:
        for _ in range(10):
            await asyncio.gather(*(come_and_leave() for _ in range(10)))  # of 16 that may speak at once
        await spoken(server, text="Still here.")
        exposition = (await http.get("/metrics")).text
    assert measured(exposition, "tts_cancelled_total", reason="disconnect") >= 100
    assert measured(exposition, "tts_queue_depth") == 0
    assert measured(exposition, "tts_requests_in_flight") == 0


async def test_two_hundred_silent_sockets_do_not_keep_anyone_from_speaking(server: Server) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    silent = [await asyncio.open_connection(host, int(port)) for _ in range(200)]
    try:
        assert len(await spoken(server, text="Hello there.")) > 12_000
    finally:
        for _, writer in silent:
            writer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the server below: its data, and its checkpoint in `voice`."""
    return tmp_path_factory.mktemp("guarded")


@pytest.fixture(scope="module")
def guarded(folder: Path) -> Iterator[Server]:
    """With keys, a phrase cache, one loudness, and a checkpoint of its own; the last test ends it."""
    checkpoint = shutil.copytree(BUILTIN_CHECKPOINT, folder / "voice")
    keys = folder / "keys.toml"
    keys.write_text(
        'anna = { key = "open-sesame", scopes = ["speak"] }\nroot = { key = "all", scopes = ["admin"] }\n'
    )
    settings = {"api_keys_file": keys, "public_lists": True, "phrase_cache_mb": 8, "loudness_lufs": -30}
    with serving(folder, max_streams=4, checkpoint=checkpoint, **settings) as server:
        server.key = "all"
        yield server


async def repeated_phrase_begins_at_once(server: Server) -> None:
    async with client(server) as http:
        body = {"text": "Please hold the line.", "seed": 3, "format": "pcm"}
        answers = [await http.post("/tts", json=body) for _ in range(6)]
        unasked = [await http.post("/tts", json=body | {"cache": False}) for _ in range(2)]
        exposition = (await http.get("/metrics")).text
    assert len({answer.content for answer in (*answers, *unasked)}) == 1
    spoken_ms, *kept_ms = (float(answer.headers["server-timing"].rsplit("dur=", 1)[1]) for answer in answers)
    assert 4 * min(kept_ms) < spoken_ms
    assert measured(exposition, "tts_phrase_cache_hits_total") == 5
    assert measured(exposition, "tts_phrase_cache_misses_total") == 1


async def test_phrases_are_kept_and_speakers_brought_to_one_loudness(guarded: Server) -> None:
    guarded.wait_for_line("a speaker was measured at", 120)
    await repeated_phrase_begins_at_once(guarded)
    said = (await spoken(guarded, text=TEXT * 2)).astype(np.float32) / 32768
    assert integrated_lufs(said, 24_000) == pytest.approx(-30, abs=1.5)


async def test_a_checkpoint_that_disappears_does_not_end_the_speech(guarded: Server, folder: Path) -> None:
    before = await spoken(guarded, cache=False)
    shutil.rmtree(folder / "voice")
    recording = io.BytesIO()
    soundfile.write(recording, before, 24_000, format="WAV")
    async with client(guarded) as http:
        answer = await http.post(
            "/speakers",
            data={"name": "echo", "transcript": TEXT},
            files={"audio": ("echo.wav", recording.getvalue())},
        )
    assert answer.status_code == 201, answer.text
    assert answer.json()["cached"]
    assert (await spoken(guarded, cache=False) == before).all()
    assert len(await spoken(guarded, speaker="echo", text="Hello there.")) > 12_000


async def test_a_term_signal_lets_streams_finish_and_keeps_what_their_key_used(
    guarded: Server, folder: Path
) -> None:
    async with (
        httpx.AsyncClient(base_url=guarded.url, timeout=PATIENCE_S) as http,
        http.stream(
            "POST",
            "/tts",
            json={"text": TEXT * 3, "format": "pcm", "seed": 1},
            headers={"X-API-Key": "open-sesame"},
        ) as answer,
    ):
        assert (await http.get("/speakers")).status_code == 200
        assert (await http.get("/v1/usage")).status_code == 401
        chunks = answer.aiter_bytes()
        first = await anext(chunks)
        guarded.process.send_signal(signal.SIGTERM)
        rest = [chunk async for chunk in chunks]
    assert len(first) + sum(map(len, rest)) > 2 * 24_000 * 6
    assert await asyncio.to_thread(guarded.process.wait, 60) == 0
    guarded.wait_for_line(f"characters={3 * len(TEXT)} .*outcome=ok")
    with closing(UsageStore.open(folder / "usage.sqlite3")) as file:
        used = file.read()["anna"]
    assert (used.requests, used.characters) == (1, 3 * len(TEXT))
    assert used.audio_s == pytest.approx((len(first) + sum(map(len, rest))) / 48_000)
