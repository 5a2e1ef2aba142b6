"""gRPC and the Open Inference Protocol of a real server with the built-in voice."""

import io
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
import soundfile
from anyio.to_thread import run_sync
from numpy.typing import NDArray

from firstword.app.api.grpc.messages import SPEECH, message, method_of
from firstword.app.api.kserve.models import SPEECH_TOKEN_OFFSET
from tests.e2e.server import Server
from tests.support.readme import ROOT
from tests.support.service_client import TEXT, client, measured, spoken
from tests.support.triton_clients import inferred, inferred_over_http, streamed

pytestmark = pytest.mark.anyio

SAMPLES_PER_TOKEN = 960


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        yield channel


async def recording(server: Server, speaker: str) -> dict[str, Any]:
    """Some 16 kHz of a built-in speaker, as the inputs of a model."""
    async with client(server) as http:
        fields = {"text": TEXT, "speaker": speaker, "seed": 7, "sample_rate": 16000}
        answer = await http.post("/tts", json={**fields, "stream": False})
    samples, _ = soundfile.read(io.BytesIO(answer.content), dtype="float32")
    return {"reference_wav": samples, "reference_wav_len": np.array([len(samples)], np.int32)}


async def test_a_seeded_text_is_the_same_over_grpc_kserve_and_http(
    server: Server, channel: grpc.aio.Channel
) -> None:
    request = message("firstword.v1.SynthesizeRequest")(text=TEXT, voice={"seed": 7})
    audio = b""
    async for event in method_of(channel, SPEECH, "Synthesize")(request):
        audio += event.audio.data
    samples = np.frombuffer(audio, "<i2")
    np.testing.assert_array_equal(samples, await spoken(server))
    values, seeded = {"target_text": TEXT}, {"parameters": {"seed": 7}}
    got = await run_sync(partial(streamed, server.grpc_address, "cosyvoice2", values, **seeded))
    assert len(got.audio) > 1
    np.testing.assert_allclose(np.concatenate(got.audio, axis=1)[0], samples / 32768, atol=2e-4)
    ask = partial(inferred_over_http, server.url, "cosyvoice2", values, "waveform", True, **seeded)
    np.testing.assert_allclose((await run_sync(ask))[0], samples / 32768, atol=2e-4)
    async with client(server) as http:
        exposition = (await http.get("/metrics")).text
    assert measured(exposition, "tts_requests_total", protocol="grpc", outcome="ok") >= 1
    assert measured(exposition, "tts_requests_total", protocol="kserve", outcome="ok") >= 2


async def test_words_are_spoken_while_they_come(channel: grpc.aio.Channel) -> None:
    Request = message("firstword.v1.ConverseRequest")
    call = method_of(channel, SPEECH, "Converse")()
    for word in TEXT.split():
        await call.write(Request(text=f"{word} "))
    kinds = []
    while not kinds or kinds[-1] != "audio":
        kinds.append((await call.read()).WhichOneof("event"))
    await call.write(Request(end={}))
    while (event := await call.read()) is not grpc.aio.EOF:
        kinds.append(event.WhichOneof("event"))
    assert (kinds[0], kinds[-1]) == ("started", "done")


async def test_recordings_with_equal_transcripts_are_not_taken_for_each_other(server: Server) -> None:
    async def said_like(speaker: str) -> NDArray[np.float32]:
        values = {**await recording(server, speaker), "reference_text": TEXT, "target_text": "Good morning."}
        ask = partial(inferred, server.grpc_address, "cosyvoice2", values, "waveform", parameters={"seed": 1})
        output: NDArray[np.float32] = (await run_sync(ask))[0]
        return output

    first, second = await said_like("slt"), await said_like("rms")
    again = await said_like("slt")
    np.testing.assert_array_equal(first, again)
    assert first.shape != second.shape or np.abs(first - second).max() > 0.01


async def test_the_stages_put_together_speak(server: Server) -> None:
    values = await recording(server, "slt")
    ask = partial(inferred, server.grpc_address)
    tokens = await run_sync(partial(ask, "audio_tokenizer", values, "prompt_speech_tokens"))
    assert tokens.min() >= SPEECH_TOKEN_OFFSET
    embedding = await run_sync(
        partial(ask, "speaker_embedding", {"reference_wav": values["reference_wav"]}, "prompt_spk_embedding")
    )
    assert embedding.shape == (1, 192)
    num_tokens = min(60, tokens.shape[1])
    target = {"target_speech_tokens": tokens[0, :num_tokens]}
    whole = await run_sync(partial(ask, "token2wav", target, "waveform"))
    assert whole.shape == (1, num_tokens * SAMPLES_PER_TOKEN)
    assert np.abs(whole).max() > 0.05
    prompt = {
        "prompt_speech_tokens": tokens[0, :20],
        "prompt_speech_feat": np.zeros((40, 80), np.float16) - 6,
        "prompt_spk_embedding": embedding[0],
    }
    parts = []
    for count, offset in ((18, 0), (43, 15), (num_tokens, 40)):
        given = {
            "target_speech_tokens": tokens[0, :count],
            "token_offset": np.array([offset], np.int32),
            "finalize": np.array([count == num_tokens]),
        }
        part = partial(ask, "token2wav", {**given, **prompt}, "waveform", request_id="e2e")
        parts.append((await run_sync(part)).shape[1])
    assert sum(parts) == num_tokens * SAMPLES_PER_TOKEN
    assert parts[0] > 0, "the first hop ends where the client's does"
    mel = {"mel": np.full((80, 50), -6, np.float32)}
    assert (await run_sync(partial(ask, "vocoder", mel, "tts_speech"))).shape == (1, 50 * 480)


async def test_examples_of_the_page_work(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/nvidia.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    await run_sync(partial(exec, example.replace("localhost:8001", server.grpc_address), {}))
    assert re.fullmatch(r"(\(1, \d+\)\n)+", capsys.readouterr().out)
    (path, body) = re.findall(r"curl -sN localhost:8000(/v2/\S+) -d '(.*?)'", page)[0]
    async with client(server) as http:
        answer = await http.post(path, content=body)
    assert answer.text.startswith('data: {"model_name": "cosyvoice2"')
