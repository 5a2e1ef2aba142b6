"""Languages: by any usual name; one that the checkpoint does not speak is refused, its text warned of."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from firstword.app.http.service import Service
from tests.support.fake_engine import FakeEngine
from tests.support.serving import error_of, in_process, make_services
from tests.support.ws_client import types_of, ws_client

pytestmark = pytest.mark.anyio

RUSSIAN = "Привет, мир!"
WARNING = (
    "the text seems to have Russian (ru) in it, and fake-voice speaks en, zh only; "
    "Fun-CosyVoice3-0.5B-2512 does: firstword download Fun-CosyVoice3-0.5B-2512, "
    "then FIRSTWORD_CHECKPOINT=models/Fun-CosyVoice3-0.5B-2512"
)


async def answers_of(services: Service, text: str, **fields: Any) -> list[httpx.Response]:
    """Of every route that speaks, and of every kind of body."""
    async with in_process(services) as client:
        query = {name: value for name, value in fields.items() if value is not None}
        openai = fields | {"input": text}
        return [
            await client.post("/tts", json=fields | {"text": text}),
            await client.post("/tts", json=fields | {"text": text, "stream": False}),
            await client.get("/tts", params=query | {"text": text}),
            await client.post("/v1/audio/speech", json=openai),
            await client.post("/v1/audio/speech", json=openai | {"stream_format": "sse"}),
        ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        *[(name, "en") for name in ("en", "EN", "en-US", "en_GB", "English", "eNGLISH", " english ", "eng")],
        *[(name, "zh") for name in ("zh", "zh-CN", "zh-Hans-CN", "Chinese", "Mandarin", "cmn")],
        *[(name, None) for name in (None, "", "auto", "Auto")],
    ],
)
async def test_a_language_has_many_names(given: str | None, code: str | None) -> None:
    engine = FakeEngine()
    for answer in await answers_of(make_services(engine), "Hi.", language=given):
        assert answer.status_code == 200, answer.text
        assert "X-Firstword-Warnings" not in answer.headers
    assert [stream.language for stream in engine.streams] == [code] * 5


@pytest.mark.parametrize(
    ("given", "of_speaker", "accent"),
    [
        *[("en-GB", None, "british"), ("EN_gb", None, "british"), ("en-GB", "en-US", "british")],
        *[(name, None, "british") for name in ("eng-GB", "English-GB", "ENG_gb")],
        *[(name, None, "") for name in ("en-US", "en", "English", "eng", "en-AU", "zh-CN", "", None)],
        *[(name, "en-GB", "british") for name in (None, "", "auto", "en", "English", "eng")],
        *[(name, "en-GB", "") for name in ("en-US", "en-AU", "zh")],
    ],
)
def test_a_region_or_the_speaker_asks_for_an_accent(
    given: str | None, of_speaker: str | None, accent: str
) -> None:
    info = FakeEngine().info
    assert replace(info, accents=("british",)).accent_of(given, of_speaker) == accent
    assert info.accent_of(given, of_speaker) == ""


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("klingon", "unknown language 'klingon'"),
        ("\0", r"unknown language '\x00'"),
        ("en\0", r"unknown language 'en\x00'"),
        ("en-", "unknown language 'en-'"),
        ("xx", "unknown language 'xx'"),
        ("ｅｎ", r"unknown language '\uff45\uff4e'"),  # noqa: RUF001
        ("German", "fake-voice does not speak German"),
        ("de-AT", "fake-voice does not speak German"),
        ("rus", "fake-voice does not speak Russian"),
    ],
)
async def test_one_that_is_not_spoken_is_refused_with_the_list(given: str, reason: str) -> None:
    engine = FakeEngine()
    for answer in await answers_of(make_services(engine), "Hi.", language=given):
        error = error_of(answer)
        assert (answer.status_code, error["code"], error["param"]) == (400, "invalid_request", "language")
        assert error["message"] == f"{reason}; choose one of en (English), zh (Chinese), or leave it out"
    assert engine.streams == []


async def test_a_text_in_another_language_is_spoken_with_a_warning() -> None:
    engine = FakeEngine()
    for answer in await answers_of(make_services(engine), f"Hello. {RUSSIAN}"):
        assert (answer.status_code, answer.headers["X-Firstword-Warnings"]) == (200, WARNING)
        assert len(answer.content) > 1000
    assert len(engine.streams) == 5


async def test_a_socket_learns_it_once_where_the_text_comes() -> None:
    async with ws_client(make_services()) as client:
        await client.send("text", text="Hi.")
        await client.receive_until("audio")
        await client.send_turn(RUSSIAN * 2)
        messages = await client.receive_until("done")
    assert types_of(messages) == ["audio", "warning", "audio", "done"]
    (warning,) = [message for message in messages if message["type"] == "warning"]
    assert warning == {"type": "warning", "context": "", "message": WARNING}


async def test_a_socket_learns_at_its_start_that_a_language_is_not_spoken() -> None:
    async with ws_client(make_services()) as client:
        await client.send("start", context="a", language="klingon")
        refused = await client.receive_error()
        assert (refused["context"], refused["fatal"]) == ("a", True)
        assert refused["error"]["param"] == "language"
        await client.send_turn("Hi.", "b", language="English")
        assert "warning" not in types_of(await client.receive_until("done", "b"))
