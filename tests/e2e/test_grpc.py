"""gRPC and the Open Inference Protocol of a real server with the built-in voice."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from anyio.to_thread import run_sync

from firstword.app.http.rpc.messages import INFERENCE, SPEECH, message, method_of
from firstword.bench.server import Footing, OwnServer, footing
from tests.e2e.server import Server
from tests.support.readme import ROOT
from tests.support.service_client import TEXT, client, measured, spoken
from tests.support.triton_clients import inferred_over_http, streamed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def channel(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(server.grpc_address) as channel:
        yield channel


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


async def test_the_times_of_words_are_those_of_http(server: Server, channel: grpc.aio.Channel) -> None:
    async with client(server) as http:
        answer = await http.post("/tts", json={"text": TEXT, "seed": 7, "timestamps": "word", "speed": 1.25})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    expected = [word for line in lines for word in line.get("words", ())]
    assert [word["text"] for word in expected] == TEXT.replace(".", "").replace(",", "").split()
    request = message("firstword.v1.SynthesizeRequest")(
        text=TEXT, voice={"seed": 7, "speed": 1.25}, timestamps="word"
    )
    whole = [event async for event in method_of(channel, SPEECH, "Synthesize")(request)]
    assert [as_dict(word) for event in whole for word in event.audio.words] == expected
    assert whole[-1].done.word_times == lines[-1]["word_times"] == "aligned"

    Request = message("firstword.v1.ConverseRequest")
    call = method_of(channel, SPEECH, "Converse")()
    await call.write(Request(start={"timestamps": "word", "voice": {"seed": 7}}))
    for word in TEXT.split():
        await call.write(Request(text=f"{word} "))
    await call.write(Request(end={}))
    texts = []
    while (event := await call.read()) is not grpc.aio.EOF:
        texts += [word.text for word in event.audio.words]
    assert texts == [word["text"] for word in expected]


def as_dict(word: Any) -> dict[str, Any]:
    return {field.name: getattr(word, field.name) for field in word.DESCRIPTOR.fields}


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


async def test_examples_of_the_page_work(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs/nvidia.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    await run_sync(partial(exec, example.replace("localhost:8001", server.grpc_address), {}))
    assert re.fullmatch(r"(\(1, \d+\)\n)+", capsys.readouterr().out)
    (path, body) = re.findall(r"curl -sN localhost:8000(/v2/\S+) -d '(.*?)'", page)[0]
    async with client(server) as http:
        answer = await http.post(path, content=body)
    assert answer.text.startswith('data: {"model_name": "cosyvoice2"')


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="processes are read from /proc")
async def test_two_hundred_calls_leave_nothing_behind(server: Server, channel: grpc.aio.Channel) -> None:
    """Of every ten six leave at once and one after the first audio; an inference, a text, an error."""
    Request, Infer = message("firstword.v1.SynthesizeRequest"), message("inference.ModelInferRequest")
    synthesize = method_of(channel, SPEECH, "Synthesize")
    infer = method_of(channel, INFERENCE, "ModelInfer")
    text = Infer.InferInputTensor(name="target_text", datatype="BYTES", shape=[1, 1])
    inference = Infer(model_name="cosyvoice2", inputs=[text], raw_input_contents=[b"\x03\x00\x00\x00Hi."])

    async def call(number: int) -> None:
        kind = number % 10
        if kind == 0:
            assert (await infer(inference)).outputs[0].shape[1] > 1000
        elif kind == 1:
            events = [event async for event in synthesize(Request(text="Hi."))]
            assert events[-1].WhichOneof("event") == "done"
        elif kind == 2:
            with pytest.raises(grpc.aio.AioRpcError, match="INVALID_ARGUMENT"):
                await synthesize(Request(text="")).read()
        else:
            leaving = synthesize(Request(text=TEXT))
            while kind == 9 and (await leaving.read()).WhichOneof("event") != "audio":
                pass
            leaving.cancel()

    async def call_all(numbers: range) -> None:
        for first in numbers[::8]:
            await asyncio.gather(*(call(number) for number in numbers if first <= number < first + 8))

    async def settled(max_handles: int) -> Footing:
        """Once what ends soon after a call has ended; what was left would never."""
        async with asyncio.timeout(30):
            while True:
                found = await run_sync(footing, own)
                has_ended = not found.requests and found.tasks <= first.tasks
                if has_ended and found.file_handles <= max_handles:
                    return found
                await asyncio.sleep(0.05)

    own = OwnServer(server.url, server.process.pid, start_s=0.0)
    first = await run_sync(footing, own)
    await call_all(range(40))  # what is allocated once
    before = await settled(first.file_handles + 8)
    await call_all(range(40, 240))
    after = await settled(before.file_handles)
    assert (after.requests, after.contexts) == (0, 0)
    assert after.memory_mb <= 1.05 * before.memory_mb, (before, after)  # as in `bench soak`
