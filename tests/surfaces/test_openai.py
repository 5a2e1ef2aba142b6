"""OpenAI's own client, unchanged, speaks with this server."""

import base64
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Literal

import numpy as np
import openai
import pytest
from openai import AsyncOpenAI

from firstword.app.errors import InvalidRequest, Overloaded, SynthesisFailed
from firstword.app.http.schemas import ErrorAnswer
from firstword.app.http.service import Service
from firstword.app.http.surface import Surface
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.speakers.interface import Description, KnownSpeaker
from firstword.app.surfaces.openai.options import PEOPLE, VOICES, OpenAIOptions
from firstword.models.checkpoint.descriptions import read_descriptions
from firstword.models.config import DESCRIPTIONS_FILE
from tests.support.fake_engine import INFO, FakeEngine, speech
from tests.support.fake_speakers import HUM, FakeSpeakers
from tests.support.serving import HELLO, MODEL_ID, error_of, in_process, make_services, make_surfaces, serving
from tests.support.sounds import decode_with_ffmpeg

pytestmark = pytest.mark.anyio

LONG = "This text is long enough to break off. " * 20


@asynccontextmanager
async def openai_client(
    services: Service, surfaces: Sequence[Surface] | None = None, api_key: str = "none"
) -> AsyncIterator[AsyncOpenAI]:
    async with (
        serving(services, surfaces=surfaces) as url,
        AsyncOpenAI(base_url=f"{url}/v1", api_key=api_key, max_retries=0) as client,
    ):
        yield client


def events_of(body: str) -> list[dict[str, object]]:
    """The events of a body that is nothing else."""
    lines = body.split("\n\n")
    assert lines.pop() == ""
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines]


def audio_of(events: list[dict[str, object]]) -> bytes:
    deltas = [event["audio"] for event in events if event["type"] == "speech.audio.delta"]
    return b"".join(base64.b64decode(str(delta)) for delta in deltas)


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac", "wav"])
async def test_the_client_creates_speech_in_every_format(format: str) -> None:
    async with openai_client(make_services()) as client:
        answer = await client.audio.speech.create(
            model="tts-1",
            voice="alloy",
            input=HELLO,
            response_format=format,  # type: ignore[arg-type]
        )
    samples, rate_hz = decode_with_ffmpeg(answer.content)
    assert len(samples) / rate_hz == pytest.approx(len(HELLO) * 0.05, abs=0.15)


async def test_speech_is_mp3_unless_told() -> None:
    async with openai_client(make_services()) as client:
        answer = await client.audio.speech.create(model="gpt-4o-mini-tts", voice="alloy", input=HELLO)
    assert answer.response.headers["content-type"] == "audio/mpeg"


async def test_the_client_streams_pcm() -> None:
    async with (
        openai_client(make_services()) as client,
        client.audio.speech.with_streaming_response.create(
            model=MODEL_ID, voice="hum", input=HELLO, response_format="pcm"
        ) as answer,
    ):
        pieces = [piece async for piece in answer.iter_bytes()]
    assert len(pieces) > 1
    samples = np.frombuffer(b"".join(pieces), "<i2") / 32768
    np.testing.assert_allclose(samples, speech(HELLO), atol=1e-4)


@pytest.mark.parametrize("format", ["mp3", "opus", "aac", "flac", "wav", "pcm"])
async def test_the_deltas_of_events_are_the_audio_that_is_streamed(format: str) -> None:
    engine = FakeEngine()
    async with openai_client(make_services(engine)) as client:
        create = client.audio.speech.create
        asked = {"model": "tts-1", "voice": "alloy", "input": HELLO, "response_format": format}
        audio = await create(**asked)  # type: ignore[arg-type]
        events = await create(**asked, stream_format="sse")  # type: ignore[arg-type]
    assert events.response.headers["content-type"].startswith("text/event-stream")
    parsed = events_of(events.text)
    assert parsed[-1] == {
        "type": "speech.audio.done",
        "usage": {
            "input_tokens": len(HELLO),
            "output_tokens": len(HELLO),
            "total_tokens": 2 * len(HELLO),
        },
    }
    spoken = audio_of(parsed)
    if format == "opus":  # each Ogg stream has a serial number of its own
        np.testing.assert_array_equal(decode_with_ffmpeg(spoken)[0], decode_with_ffmpeg(audio.content)[0])
    else:
        assert spoken == audio.content


async def test_events_that_break_off_end_in_an_error_event() -> None:
    engine = FakeEngine(failure=SynthesisFailed("/secret"), fails_after_chunks=3)
    async with openai_client(make_services(engine)) as client:
        answer = await client.audio.speech.create(
            model="tts-1", voice="alloy", input=LONG, response_format="pcm", stream_format="sse"
        )
    events = events_of(answer.text)
    assert [event["type"] for event in events] == ["speech.audio.delta"] * 3 + ["speech.audio.error"]
    ErrorAnswer.model_validate({"error": events[-1]["error"]})
    assert "secret" not in answer.text


async def test_an_error_event_names_the_field_as_openai_does() -> None:
    engine = FakeEngine(failure=InvalidRequest("too much audio", "text"), fails_after_chunks=3)
    async with openai_client(make_services(engine)) as client:
        answer = await client.audio.speech.create(
            model="tts-1", voice="alloy", input=LONG, response_format="pcm", stream_format="sse"
        )
    assert events_of(answer.text)[-1]["error"]["param"] == "input"


async def test_audio_that_breaks_off_is_no_answer() -> None:
    engine = FakeEngine(failure=SynthesisFailed("/secret"), fails_after_chunks=3)
    async with openai_client(make_services(engine)) as client:
        with pytest.raises(openai.APIConnectionError):
            await client.audio.speech.create(model="tts-1", voice="alloy", input=LONG, response_format="pcm")


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
async def test_the_client_raises_its_own_errors(stream_format: str) -> None:
    engine = FakeEngine(refusal=Overloaded("full", 5))
    async with openai_client(make_services(engine)) as client:
        with pytest.raises(openai.InternalServerError) as refused:
            await client.audio.speech.create(
                model="tts-1",
                voice="alloy",
                input="Hi.",
                stream_format=stream_format,  # type: ignore[arg-type]
            )
    assert refused.value.status_code == 503
    assert refused.value.code == "overloaded"
    assert refused.value.response.headers["retry-after"] == "5"


async def test_the_clients_key_is_a_bearer() -> None:
    services = make_services(keys=["anna:sesame"])
    async with openai_client(services, api_key="sesame") as client:
        assert (await client.models.list()).data[0].id == MODEL_ID
        with pytest.raises(openai.AuthenticationError, match="unknown API key"):
            await client.with_options(api_key="wrong").models.list()


async def test_the_client_sees_the_models() -> None:
    async with openai_client(make_services(), make_surfaces(accepts_any_model=False)) as client:
        models = await client.models.list()
        alias = await client.models.retrieve("tts-1-hd")
        with pytest.raises(openai.NotFoundError, match=MODEL_ID) as refused:
            await client.models.retrieve("org/whisper-1")
    assert [model.id for model in models.data] == [MODEL_ID, "tts-1", "tts-1-hd", "gpt-4o-mini-tts"]
    assert (alias.id, alias.object) == ("tts-1-hd", "model")
    assert refused.value.code == "model_not_found"
    assert refused.value.param == "model"


async def test_an_unknown_model_is_refused_before_anything_is_said() -> None:
    engine = FakeEngine()
    async with openai_client(make_services(engine), make_surfaces(accepts_any_model=False)) as client:
        with pytest.raises(openai.NotFoundError):
            await client.audio.speech.create(model="whisper-1", voice="alloy", input="Hi.")
    assert not engine.streams


@pytest.mark.parametrize("model", ["TTS-1", "gpt-4o-mini-tts-2025-12-15", MODEL_ID.upper()])
async def test_a_listed_model_may_have_a_date_and_any_case(model: str) -> None:
    async with openai_client(make_services(), make_surfaces(accepts_any_model=False)) as client:
        await client.audio.speech.create(model=model, voice="alloy", input="Hi.")


@pytest.mark.parametrize("model", ["kokoro", "tts-9"])
async def test_any_model_is_accepted_unless_told_otherwise(model: str) -> None:
    async with openai_client(make_services()) as client:
        await client.audio.speech.create(model=model, voice="alloy", input="Hi.")
        assert (await client.models.retrieve(model)).id == model


@pytest.mark.parametrize(
    ("fields", "speaker"),
    [
        ({}, "hum"),
        ({"voice": "alloy"}, "hum"),
        ({"voice": "nova"}, "anna"),
        ({"voice": "Nova"}, "anna"),
        ({"voice": "anna"}, "anna"),
        ({"voice": {"id": "anna"}}, "anna"),
        ({"voice": {"id": "nova"}}, "anna"),
        ({"voice": "alloy", "speaker": "anna"}, "anna"),
    ],
)
async def test_a_voice_is_a_speaker_or_stands_for_one(fields: dict[str, object], speaker: str) -> None:
    engine = FakeEngine()
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/v1/audio/speech", json={"input": "Hi.", **fields})
    assert answer.status_code == 200
    assert engine.streams[0].speaker == speaker


def described(
    name: str,
    sex: Literal["female", "male"],
    age: Literal["child", "adult"] = "adult",
    language: str = "en-US",
) -> KnownSpeaker:
    return replace(HUM, name=name, description=Description(sex, age, "calm", "of a region", language))


def test_openais_voices_are_spread_over_ours_by_sex() -> None:
    ours = [described("ann", "female"), described("eve", "female"), described("kid", "female", "child")]
    ours += [described("bob", "male"), replace(HUM, name="unknown")]
    spread = OpenAIOptions(voices={"Nova": "kid"}).speakers_of_voices("eve", ours)
    assert tuple(spread) == VOICES
    assert (spread["alloy"], spread["nova"], spread["shimmer"], spread["coral"]) == (
        "eve",
        "kid",
        "eve",
        "ann",
    )
    assert {spread[voice] for voice, (sex, _) in PEOPLE.items() if sex == "male"} == {"bob"}
    enough = [described(f"s{number}", sex) for number, (sex, _) in enumerate(PEOPLE.values())]
    assert len(set(OpenAIOptions().speakers_of_voices("s0", enough).values())) == len(VOICES)
    assert set(OpenAIOptions().speakers_of_voices("hum", [HUM]).values()) == {"hum"}


def test_a_british_voice_is_a_british_speaker() -> None:
    ours = [described("ann", "female"), described("bob", "male"), described("jay", "male", language="en-GB")]
    spread = OpenAIOptions().speakers_of_voices("ann", ours)
    assert (spread["echo"], spread["ash"], spread["fable"]) == ("bob", "jay", "jay")


def test_the_page_says_which_voice_is_whose() -> None:
    """Of the built-in voice."""
    given = read_descriptions(BUILTIN_CHECKPOINT / DESCRIPTIONS_FILE)
    ours = [replace(HUM, name=name, description=Description(**asdict(one))) for name, one in given.items()]
    spread = OpenAIOptions().speakers_of_voices("wren", ours)
    page = (Path(__file__).parents[2] / "docs/api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ((?:\w+(?:, )?)+) \|$", page, re.MULTILINE)
    named = {voice: speaker for speaker, voices in rows for voice in voices.split(", ") if voice in VOICES}
    assert named == spread


async def test_a_speaker_goes_before_the_voice_of_its_name() -> None:
    engine = FakeEngine(speakers=frozenset({"hum", "alloy"}))
    speakers = FakeSpeakers({"hum": HUM, "alloy": replace(HUM, name="alloy")})
    async with in_process(make_services(engine, speakers)) as client:
        await client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "alloy"})
    assert engine.streams[0].speaker == "alloy"


async def test_an_unknown_voice_is_not_found() -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/audio/speech", json={"input": "Hi.", "voice": "nobody"})
    assert (answer.status_code, error_of(answer)["code"]) == (404, "speaker_not_found")
    assert error_of(answer)["param"] == "voice"


async def test_a_text_that_is_too_long_is_refused_as_openai_does() -> None:
    async with openai_client(make_services()) as client:
        with pytest.raises(openai.BadRequestError, match="4097") as refused:
            await client.audio.speech.create(model="tts-1", voice="alloy", input="a" * 4097)
    assert (refused.value.code, refused.value.param) == ("string_above_max_length", "input")


async def test_fields_of_other_servers_are_honoured_and_the_rest_ignored() -> None:
    engine = FakeEngine()
    body = {
        "input": "Hi.",
        "response_format": "pcm",
        "stream": False,
        "language": "en",
        "seed": 3,
        "sample_rate": 8000,
        "instructions": "gladly",
        "temperature": 0.3,
        "user": "somebody",
    }
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/v1/audio/speech", json=body)
    request = engine.streams[0].request
    assert (request.voice.language, request.seed, request.voice.instruct, request.wire) == (
        "en",
        3,
        "gladly",
        "openai",
    )
    assert answer.headers["content-length"] == str(len("Hi.") * 400 * 2)


async def test_refused_instructions_are_named_as_openai_names_them() -> None:
    engine = FakeEngine(refusal=InvalidRequest("no", "instruct"))
    async with in_process(make_services(engine)) as client:
        answer = await client.post("/v1/audio/speech", json={"input": "Hi.", "instructions": "gladly"})
    assert (answer.status_code, error_of(answer)["param"]) == (400, "instructions")


async def test_instructions_are_ignored_where_none_can_be_taken() -> None:
    engine = FakeEngine(info=replace(INFO, voice_modes=("zero_shot", "cross_lingual")))
    async with in_process(make_services(engine)) as client:
        body = {"input": "Hi.", "instructions": "gladly"}
        answer = await client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200
    assert engine.streams[0].request.voice.instruct is None


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": ""}, "input"),
        ({"input": "a" * 4097}, "input"),
        ({"speed": 0.24}, "speed"),
        ({"speed": 4.01}, "speed"),
        ({"response_format": "midi"}, "response_format"),
        ({"stream_format": "morse"}, "stream_format"),
        ({"voice": 5}, "voice"),
        ({"seed": "x"}, "seed"),
    ],
)
async def test_a_bad_value_is_named(fields: dict[str, object], param: str) -> None:
    async with in_process(make_services()) as client:
        answer = await client.post("/v1/audio/speech", json={"input": "Hi.", **fields})
    assert answer.status_code in (400, 413)
    assert error_of(answer)["param"] == param


@pytest.mark.parametrize("speed", [0.25, 4.0])
async def test_speed_goes_as_far_as_openais(speed: float) -> None:
    async with in_process(make_services()) as client:
        body = {"input": HELLO, "speed": speed, "response_format": "pcm"}
        answer = await client.post("/v1/audio/speech", json=body)
    assert len(answer.content) / 2 == pytest.approx(len(speech(HELLO)) / speed, abs=2)


async def test_voices_are_the_speakers_and_openais_names() -> None:
    async with in_process(make_services()) as client:
        voices = (await client.get("/v1/audio/voices")).json()["voices"]
    assert [voice["id"] for voice in voices] == ["hum", "anna", *VOICES]
    assert all(voice["id"] == voice["name"] for voice in voices)
