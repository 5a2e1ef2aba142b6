"""How a text is read and drawn: every surface takes the same fields, within the same bounds."""

import json
from typing import Any

import pytest

from firstword.app.options import Sampling
from firstword.app.text.marks import Reading
from tests.support.fake_engine import FakeEngine
from tests.support.serving import HELLO, error_of, in_process, make_services
from tests.support.ws_client import ws_client

pytestmark = pytest.mark.anyio

OPTIONS: dict[str, Any] = {
    **{"normalize": False, "marks": False, "ssml": False, "volume": 0.5},
    **{"temperature": 0.7, "top_p": 0.9, "top_k": 50, "ras_window": 20, "ras_threshold": 0.2},
    **{"min_token_ratio": 1, "max_token_ratio": 30, "lexicon": {"Nguyen": "win"}},
}
SAMPLING = Sampling(0.7, 0.9, 50, 20, 0.2, 1, 30)


@pytest.mark.parametrize("surface", ["POST /tts", "GET /tts", "/v1/audio/speech", "socket"])
async def test_every_surface_takes_them(surface: str) -> None:
    engine = FakeEngine()
    services = make_services(engine)
    if surface == "socket":
        async with ws_client(services) as client:
            await client.send_turn(HELLO, **OPTIONS)
            await client.receive_until("done")
    else:
        async with in_process(services) as http:
            if surface == "GET /tts":
                query = {name: json.dumps(value) for name, value in OPTIONS.items()}
                answer = await http.get("/tts", params={"text": HELLO, **query})
            elif surface == "POST /tts":
                answer = await http.post("/tts", json={"text": HELLO, **OPTIONS})
            else:
                answer = await http.post("/v1/audio/speech", json={"input": HELLO, **OPTIONS})
        assert answer.status_code == 200
    request = engine.streams[0].request
    assert request.reading == Reading(normalize=False, marks=False, ssml=False, lexicon={"Nguyen": "win"})
    assert (request.sampling, request.delivery.volume) == (SAMPLING, 0.5)


async def test_what_is_left_out_is_as_the_checkpoint_has_it() -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as http:
        await http.post("/tts", json={"text": HELLO})
    request = engine.streams[0].request
    assert (request.reading, request.sampling, request.delivery.volume) == (Reading(), None, 1.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("temperature", value) for value in (0, 2.1, True, "hot")),
        *(("top_p", value) for value in (0, 1.1)),
        *(("top_k", value) for value in (0, 101, 1.5)),
        *(("ras_window", value) for value in (0, 101)),
        *(("ras_threshold", value) for value in (0, 1.5)),
        *(("min_token_ratio", value) for value in (-1, 21)),
        *(("max_token_ratio", value) for value in (0.5, 41)),
        *(("volume", value) for value in (-0.1, 4.1)),
        ("marks", "some"),
        *(("lexicon", value) for value in ("{", [], {"a": 1}, {str(number): "" for number in range(10_001)})),
    ],
)
async def test_what_is_out_of_bounds_is_refused_and_named(field: str, value: object) -> None:
    async with in_process(make_services()) as http:
        answer = await http.post("/tts", json={"text": HELLO, field: value})
    assert answer.status_code == 400
    assert error_of(answer)["param"] == field


async def test_ratios_that_cross_are_refused() -> None:
    async with in_process(make_services()) as http:
        answer = await http.post("/tts", json={"text": HELLO, "min_token_ratio": 9, "max_token_ratio": 5})
    assert answer.status_code == 400
    assert error_of(answer)["param"] == "max_token_ratio"


async def test_a_lexicon_of_a_form_that_is_no_json_says_what_to_send() -> None:
    async with in_process(make_services()) as http:
        answer = await http.post("/tts", files={"text": (None, HELLO), "lexicon": (None, "Nguyen=win")})
    assert answer.status_code == 400
    assert 'an object as {"a":"b"}' in str(error_of(answer)["message"])
