"""A request that is refused costs its server next to nothing, whatever a body of its size can hold.

The bounds of seconds are a hundred times what these take, and a hundredth of what they took.
"""

import json
import time
from contextlib import suppress

import httpx
import pytest

from firstword.app.bounded_json import MAX_FIELDS, TooManyValues, loads
from firstword.app.errors import InvalidRequest
from firstword.app.http.connection_limits import MAX_PARAMETERS
from firstword.app.surfaces.batches.store import BatchStore
from firstword.app.surfaces.websocket.messages import parse_message
from tests.support.serving import error_of, in_process, make_services, make_surfaces, serving

pytestmark = pytest.mark.anyio

MAX_S = 3.0
MIB = 1024**2
JSON = {"Content-Type": "application/json"}
URLENCODED = {"Content-Type": "application/x-www-form-urlencoded"}
WRONG_WORDS = b",".join(b'"%x":1' % number for number in range(9_000))
FIELDS = b",".join(b'"%x":1' % number for number in range(20_000))
BATCHES = "/v1/audio/batches"
TRICKY = r"\",\\"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/token2wav", b'{"tokens":[' + b'"a",' * 2_000_000 + b"1]}"),
        ("POST", "/v1/token2wav", b'{"tokens":[' + b'"a",' * 190_000 + b"1]}"),
        ("POST", "/v1/token2wav", b'{"tokens":[' + b"{}," * 90_000 + b"1]}"),
        ("POST", "/tts", b'{"text":"Hi.",' + b",".join(b'"%x":1' % one for one in range(600_000)) + b"}"),
        ("POST", "/tts", b'{"text":"Hi.",' + FIELDS + b"}"),
        ("POST", "/tts", b'{"text":"Hi.","lexicon":{' + WRONG_WORDS + b"}}"),
        ("POST", "/v1/text", b'{"text":"Hi.",' + FIELDS + b"}"),
        ("POST", "/v1/provenance/pair", b'{"text":"Hi.",' + FIELDS + b"}"),
        ("PATCH", "/speakers/anna", b'{"lexicon":{' + WRONG_WORDS + b"}}"),
        ("PATCH", "/speakers/anna", b"{" + FIELDS + b"}"),
        ("POST", BATCHES, b'{"items":[' + b"1," * 4_000_000 + b"1]}"),
        ("POST", BATCHES, b'{"items":[' + b"1," * 9_999 + b"1]}"),
        ("POST", BATCHES, b'{"items":[{"text":"Hi.",' + FIELDS + b"}]}"),
        ("POST", BATCHES, b'{"items":[{"text":"Hi.","lexicon":{' + WRONG_WORDS + b"}}]}"),
    ],
    ids=lambda given: given[:40].decode() if isinstance(given, bytes) else given,
)
async def test_faults_without_number_are_not_all_described(method: str, path: str, body: bytes) -> None:
    async with in_process(make_services()) as client:
        began_s = time.process_time()
        answer = await client.request(method, path, content=body, headers=JSON)
        took_s = time.process_time() - began_s
    assert answer.status_code == 400
    assert len(error_of(answer)["message"] or "") < 4000
    assert took_s < MAX_S


async def test_a_list_of_ten_thousand_texts_is_still_taken() -> None:
    items = [{"text": "One, two: three.", "speaker": "anna", "format": "mp3"} for _ in range(10_000)]
    async with in_process(make_services()) as client:
        answer = await client.post(BATCHES, json={"items": items})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("repeats", "more"), [(4, {}), (2, {"language": "en", "speed": 1.1, "seed": 7, "marks": False})]
)
async def test_signs_within_texts_are_no_values(repeats: int, more: dict[str, object]) -> None:
    text = "When the train left, nobody waved; the rain had stopped, and she said: it is [late]. " * repeats
    item = {"text": text, "speaker": "anna", "format": "mp3", **more}
    surfaces = make_surfaces(batches=BatchStore(None, 64 * MIB))
    async with in_process(make_services(), surfaces=surfaces) as client:
        answer = await client.post(BATCHES, json={"items": [item] * 10_000})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("text", "num_values"),
    [
        (r'["a,\\", "b,\"c,", "\\\"[,"]', 3),
        (r'{"a,": "[[", "b:\\\\": "\\"}', 4),
        (f'["{TRICKY * 1000}"]', 1),
    ],
)
def test_values_are_counted_outside_of_texts(text: str, num_values: int) -> None:
    for raw in (text, text.encode()):
        assert loads(raw, num_values) == json.loads(text)
        with pytest.raises(TooManyValues, match=f"about {num_values} values"):
            loads(raw, num_values - 1)


@pytest.mark.parametrize(
    "raw",
    [
        b'["' + b'\\"' * 4 * MIB + b'"]',
        b'["' + b'\\",' * 2 * MIB,
        b'["' + b"\\" * 8 * MIB + b'"]',
        b"[" + b'"a",' * 2 * MIB,
        b'["' + b"," * 8 * MIB + b'"]',
    ],
    ids=lambda raw: raw[:6].decode(),
)
def test_counting_takes_no_longer_for_odd_texts(raw: bytes) -> None:
    began_s = time.process_time()
    with suppress(ValueError):
        loads(raw)
    assert time.process_time() - began_s < MAX_S


async def test_too_many_values_are_not_said_to_be_no_json() -> None:
    words, numbers = "{" + '"":"",' * 110_000 + '"":""}', "[" + "1," * 210_000 + "1]"
    async with in_process(make_services()) as client:
        answers = [
            await client.post("/speakers", data={"name": "bo", "lexicon": words}, files={"audio": b"RIFF"}),
            await client.post(
                "/tts", data={"text": "Hi.", "lexicon": words}, files={"reference_audio": b"RIFF"}
            ),
            await client.post("/v1/token2wav", files={"tokens": (None, numbers)}),
            await client.post("/v2/models/vocoder/infer", content=numbers * 3),
        ]
    for answer in answers:
        assert answer.status_code == 400
        assert "it has about" in answer.text
    assert "send large tensors as bytes" in answers[-1].text


async def test_a_long_url_encoded_form_is_refused() -> None:
    async with in_process(make_services()) as client:
        began_s = time.process_time()
        body = b"spk_id=anna&tts_text=" + b"%41" * (2 * MIB)
        long = await client.post("/inference_sft", content=body, headers=URLENCODED)
        took_s = time.process_time() - began_s
        fitting = await client.post("/inference_sft", content=body[:9021], headers=URLENCODED)
    assert (long.status_code, fitting.status_code) == (400, 200)
    assert "expected 262144 at most, or multipart/form-data" in (error_of(long)["message"] or "")
    assert took_s < MAX_S


async def test_an_address_with_many_parameters_is_refused() -> None:
    query = "&".join(f"p{number}=1" for number in range(MAX_PARAMETERS))
    async with serving(make_services()) as url, httpx.AsyncClient(base_url=url) as client:
        answer = await client.get(f"/tts?text=Hi.&{query}")
        fitting = await client.get("/tts?text=Hi.&seed=3")
    assert (answer.status_code, fitting.status_code) == (414, 200)


@pytest.mark.parametrize(
    "raw",
    [
        '{"type":"text","text":"Hi.",' + FIELDS[:120_000].decode().rpartition(",")[0] + "}",
        '{"type":"text","text":"Hi.",' + '"a":1,' * 20_000 + '"a":1}',
        '{"type":"start",' + FIELDS[:120_000].decode().rpartition(",")[0] + "}",
        '{"type":"start","lexicon":{' + WRONG_WORDS.decode() + "}}",
        '{"type":"start","pauses":[' + '"a",' * 9_000 + "1]}",
        "1," * 10_000,
    ],
    ids=lambda raw: raw[:40],
)
async def test_faults_of_a_message_are_not_all_described(raw: str) -> None:
    began_s = time.process_time()
    with pytest.raises(InvalidRequest) as caught:
        parse_message(raw)
    assert time.process_time() - began_s < MAX_S / 10
    assert len(caught.value.message) < 4000


async def test_a_message_of_many_words_is_read() -> None:
    lexicon = {f"w{number}": "word" for number in range(5 * MAX_FIELDS)}
    message = parse_message(json.dumps({"type": "start", "context": "a", "lexicon": lexicon}))
    assert message.type == "start"
    assert message.context == "a"
    assert message.lexicon == lexicon
