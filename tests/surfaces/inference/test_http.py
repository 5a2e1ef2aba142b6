"""`/v2` as plain HTTP: generate, server-sent events, errors."""

import io
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import soundfile

from firstword.app.errors import Overloaded, SynthesisFailed
from firstword.app.surfaces.inference import http
from firstword.app.surfaces.inference.http import MAX_LISTS, MAX_NUMBERS
from firstword.app.surfaces.inference.inference import Inference, InferenceRequest
from tests.support.fake_engine import FakeEngine, speech
from tests.support.serving import HELLO, in_process, make_services

pytestmark = pytest.mark.anyio

GENERATE = "/v2/models/cosyvoice2/generate"


def events(body: str) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n") if line]


async def test_generate_takes_plain_values_and_parameters() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        body = {"id": "a", "target_text": HELLO, "seed": 3, "parameters": {"speaker": "anna"}}
        answer = await client.post(GENERATE, json=body)
        reference = {"reference_wav": [0.5] * 200, "reference_wav_len": 150, "reference_text": "Hum."}
        await client.post(f"{GENERATE}", json={"target_text": HELLO, **reference})
    content = answer.json()
    assert (content["id"], content["model_name"]) == ("a", "cosyvoice2")
    np.testing.assert_allclose(content["waveform"], speech(HELLO), atol=1e-6)
    assert (engine.streams[0].speaker, engine.streams[0].request.seed) == ("anna", 3)
    reference_sent = engine.streams[1].request.voice.reference
    assert reference_sent is not None
    assert soundfile.info(io.BytesIO(reference_sent.content)).frames == 150


async def test_generate_stream_sends_an_event_for_each_chunk() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(f"{GENERATE}_stream", json={"target_text": HELLO})
    assert answer.headers["content-type"].startswith("text/event-stream")
    chunks = [event["waveform"] for event in events(answer.text)]
    assert len(chunks) == len(HELLO)
    np.testing.assert_allclose(np.concatenate(chunks), speech(HELLO), atol=1e-6)


async def test_what_fails_before_the_first_chunk_has_its_status_and_later_is_the_last_event() -> None:
    engine = FakeEngine(refusal=Overloaded("full", 9))
    async with in_process(make_services(engine)) as client:
        answer = await client.post(f"{GENERATE}_stream", json={"target_text": HELLO})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "9")
        assert answer.json() == {"error": "full", "code": "overloaded"}
        engine.refusal, engine.failure, engine.fails_after_chunks = None, SynthesisFailed("secret"), 2
        answer = await client.post(f"{GENERATE}_stream", json={"target_text": HELLO})
    first, second, last = events(answer.text)
    assert first["waveform"]
    assert second["waveform"]
    assert "secret" not in last["error"]


@pytest.mark.parametrize(
    ("path", "content", "status", "message"),
    [
        ("generate", b"no", 400, "not valid JSON"),
        ("generate", b"[]", 400, "JSON object"),
        ("generate", b"{}", 400, "`target_text`"),
        ("generate", b'{"target_text": 3}', 400, "strings"),
        ("generate", b'{"target_text": ["a", "b"]}', 400, "one request a batch"),
        ("generate", b'{"target_text": "a", "seed": -1}', 400, "seed"),
        ("infer", b'{"inputs": 3}', 400, "list of objects"),
        ("infer", b'{"inputs": [{"name": "target_text"}]}', 400, "shape"),
        ("infer", b'{"inputs": [{"name": "target_text", "shape": [1, 99999999999999]}]}', 400, "expected"),
        (
            "infer",
            b'{"inputs": [{"name": "reference_wav", "datatype": "FP32", "shape": [1, 99999999999]}]}',
            400,
            "at most",
        ),
        (
            "infer",
            b'{"inputs": [{"name": "reference_wav", "datatype": "FP32", "shape": [1, 1%s]}]}' % (b"0" * 4299),
            400,
            "at most",
        ),
        (
            "infer",
            b'{"inputs": [{"name": "target_text", "datatype": "BYTES", "shape": [1, 1],'
            b' "parameters": {"binary_data_size": 9}}]}',
            400,
            "bytes are left",
        ),
    ],
)
async def test_bodies_that_cannot_be_read_are_refused(
    path: str, content: bytes, status: int, message: str
) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(f"/v2/models/cosyvoice2/{path}", content=content)
    assert answer.status_code == status
    assert message in answer.json()["error"]


async def test_every_error_of_v2_is_plain_text_and_health_needs_no_key() -> None:
    async with in_process(make_services(keys=["ann:secret"])) as client:
        assert (await client.get("/v2/health/live")).status_code == 200
        assert (await client.get("/v2/health/ready")).status_code == 200
        refused = await client.get("/v2")
        key = {"Authorization": "Bearer secret"}
        unknown = await client.get("/v2/models/nothing", headers=key)
        wrong_path = await client.get("/v2/nowhere", headers=key)
        wrong_version = await client.get("/v2/models/cosyvoice2/versions/2", headers=key)
        known = await client.get("/v2/models/cosyvoice2/versions/1", headers=key)
        server = await client.get("/v2", headers=key)
    for answer, status in ((refused, 401), (unknown, 404), (wrong_path, 404), (wrong_version, 404)):
        assert answer.status_code == status
        assert isinstance(answer.json()["error"], str)
    assert (known.status_code, server.json()["name"]) == (200, "firstword")


def test_a_body_of_as_many_numbers_as_may_be_is_read_quickly() -> None:
    """Of the event loop's time this is all: parsing lets no other thread run."""
    numbers = np.random.default_rng(1).uniform(-1, 1, MAX_NUMBERS - 100).astype(np.float32).tolist()
    raw = json.dumps({"reference_wav": numbers}).encode()
    assert http._json_object(raw) == {"reference_wav": numbers}
    assert _cpu_s(lambda: http._json_object(raw)) < _cpu_s(lambda: json.loads(raw)) / 2


def test_a_text_stays_in_no_cache_of_the_process() -> None:
    """Which also costs a body of many texts more than all else."""
    first, again = (http._json_object(b'{"target_text": "a secret"}')["target_text"] for _ in range(2))
    assert first is not again


def _cpu_s(work: Callable[[], object]) -> float:
    took_s = []
    for _ in range(3):
        began_s = time.thread_time()
        work()
        took_s.append(time.thread_time() - began_s)
    return min(took_s)


async def test_more_lists_than_a_tensor_has_rows_are_refused() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(GENERATE, content=b'{"target_text":[' + b"[]," * MAX_LISTS + b"[]]}")
    assert answer.status_code == 400
    assert f"it has about {MAX_LISTS + 3} lists, at most {MAX_LISTS} are taken" in answer.text


async def test_brackets_of_a_text_are_no_lists() -> None:
    async with in_process(make_services()) as client:
        answers = [await client.post(GENERATE, json={"target_text": sign * (MAX_LISTS + 1)}) for sign in "[("]
    assert [answer.status_code for answer in answers] == [413, 413]


async def test_a_body_may_begin_with_a_byte_order_mark() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post(GENERATE, content=b"\xef\xbb\xbf" + b'{"target_text": 7}')
    assert "not valid JSON" not in answer.text


@pytest.mark.parametrize("is_event", [False, True], ids=["whole", "event"])
async def test_while_a_long_output_is_written_others_run(is_event: bool) -> None:
    inference = Inference(make_services())
    asked = InferenceRequest(inference.find("cosyvoice2"), 'a, [] and "b"', {})
    output = np.random.default_rng(1).uniform(-1, 1, (1, 1_000_000)).astype(np.float32)
    bodies: list[bytes] = []

    def write() -> None:
        made, _ = http._generated_body(asked, output) if is_event else http._infer_body(asked, output, False)
        bodies.append(b"".join(made))

    writing = threading.Thread(target=write)
    began_s = last_s = time.perf_counter()
    longest_s = 0.0
    writing.start()
    while writing.is_alive():
        writing.join(0.001)
        now_s = time.perf_counter()
        longest_s = max(longest_s, now_s - last_s)
        last_s = now_s
    assert longest_s < (last_s - began_s) / 2
    content = json.loads(bodies[0])
    assert content["id"] == asked.id
    numbers = content["waveform"] if is_event else content["outputs"][0]["data"]
    np.testing.assert_array_equal(np.array(numbers, np.float32), output[0])
