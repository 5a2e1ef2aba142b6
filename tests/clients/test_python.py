"""The Python client against a real server over fakes."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.support.fake_engine import FakeEngine, speech
from tests.support.fake_speakers import HUM, FakeSpeakers
from tests.support.serving import HELLO, PATIENCE_S, make_services, serving
from tests.support.ws_client import pcm_of

sys.path.insert(0, str(Path(__file__).parents[2] / "clients/python"))

from firstword_client import AsyncClient, AsyncSpeech, Client, ConnectionLost, FirstwordError, Interrupted
from firstword_client.speech import MAX_BEGINNINGS

pytestmark = pytest.mark.anyio


async def heard_of(spoken: AsyncSpeech) -> bytes:
    """All audio of a speech that is entered and left here."""
    async with spoken:
        return b"".join([piece.pcm async for piece in spoken])


async def pieces(*given: str | None) -> AsyncIterator[str | None]:
    for piece in given:
        yield piece


async def held_back(goes_on: asyncio.Event) -> AsyncIterator[str]:
    yield HELLO
    await goes_on.wait()
    yield "What nobody hears."


def written(*given: str | None) -> Iterator[str | None]:
    yield from given


@pytest.mark.parametrize(
    "text",
    [HELLO, ["Hello, ", "you."], written("Hello, ", None, "you."), pieces("Hello, ", None, "you.")],
    ids=["whole", "list", "generator", "async generator"],
)
async def test_a_text_is_spoken_however_it_comes(text: Any) -> None:
    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        spoken = client.speak(text)
        audio = await heard_of(spoken)
    assert spoken.sample_rate_hz == 24_000
    assert audio == pcm_of(speech(HELLO))
    assert spoken.stats is not None
    assert spoken.stats.characters == len(HELLO)


@pytest.mark.parametrize("text", [None, 42])
async def test_what_is_no_text_is_a_type_error(text: Any) -> None:
    with pytest.raises(TypeError, match="text has to be a str or an iterable"):
        AsyncClient("http://127.0.0.1:1").speak(text)


async def test_a_piece_that_is_no_text_is_a_type_error() -> None:
    wrong: Any = ["Hello, ", 42]
    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(TypeError, match="a piece of text has to be a str, not int"):
            await heard_of(client.speak(wrong))


async def test_two_speeches_share_a_socket() -> None:
    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        heard = await asyncio.gather(heard_of(client.speak(HELLO)), heard_of(client.speak("And you?")))
    assert heard == [pcm_of(speech(HELLO)), pcm_of(speech("And you?"))]


async def test_an_interrupted_speech_says_what_was_heard() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=6)
    async with (
        serving(make_services(engine)) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(HELLO) as spoken,
    ):
        async for piece in spoken:
            spoken.note_played(len(piece.pcm))
            if spoken.played_ms >= 300:
                break
        said = await spoken.interrupt()
    assert said.spoken_text + said.remaining_text == HELLO
    assert said.spoken_text.startswith("Hello")
    assert not engine.open_streams


async def test_a_speech_that_has_come_whole_is_interrupted_where_it_was_played() -> None:
    async with (
        serving(make_services()) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(HELLO) as spoken,
    ):
        pieces = [piece.pcm async for piece in spoken]
        assert spoken.stats is not None
        spoken.note_played(2 * sum(map(len, pieces)) // 3)
        said = await spoken.interrupt()
        assert await spoken.interrupt() == said
    assert said.spoken_text == "Hello,"
    assert said.spoken_text + said.remaining_text == HELLO


async def test_leaving_a_speech_frees_its_stream() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    async with serving(make_services(engine)) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        async with client.speak(HELLO) as spoken:
            async for _ in spoken:
                break
        async with client.speak("And you?") as after:  # the socket goes on
            assert after is not None
        while engine.open_streams:  # noqa: ASYNC110  the server's work is not ours to announce
            await asyncio.sleep(0.001)


async def test_errors_are_the_server_s_own() -> None:
    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(FirstwordError) as refused:
            await heard_of(client.speak(HELLO, speaker="nobody"))
        assert refused.value.code == "speaker_not_found"
        with pytest.raises(FirstwordError) as refused:
            await client.render(HELLO, speaker="nobody")
        assert refused.value.code == "speaker_not_found"


async def test_a_wrong_key_is_said() -> None:
    async with serving(make_services(keys=["alice:secret"])) as url, asyncio.timeout(PATIENCE_S):
        async with AsyncClient(url, "wrong") as client:
            with pytest.raises(FirstwordError) as refused:
                await heard_of(client.speak(HELLO))
            assert refused.value.code == "invalid_api_key"
        async with AsyncClient(url, "secret") as client, client.speak(HELLO) as spoken:
            assert [piece async for piece in spoken]


async def test_a_lost_connection_begins_again_before_the_first_audio_and_ends_after_it() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=0)
    async with serving(make_services(engine)) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        async with client.speak(HELLO) as spoken:
            await engine.has_opened.wait()
            connection = client._socket._connection
            assert connection is not None
            connection.transport.abort()
            engine.pause = None
            assert b"".join([piece.pcm async for piece in spoken]) == pcm_of(speech(HELLO))
        engine.pause, engine.pauses_after_chunks = asyncio.Event(), 1
        async with client.speak(HELLO) as spoken:
            audio_of = aiter(spoken)
            assert (await anext(audio_of)).pcm
            connection = client._socket._connection
            assert connection is not None
            connection.transport.abort()
            with pytest.raises(ConnectionLost):
                await anext(audio_of)


async def test_what_is_written_while_the_connection_is_lost_is_spoken_once() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=0)

    async def written(client: AsyncClient) -> AsyncIterator[str]:
        yield "Hello, "
        lost = client._socket._connection
        assert lost is not None
        lost.transport.abort()
        while client._socket._connection is lost:  # noqa: ASYNC110  no event says so
            await asyncio.sleep(0)
        engine.pause = None
        yield "you."

    async with serving(make_services(engine)) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        assert await heard_of(client.speak(written(client))) == pcm_of(speech(HELLO))


async def test_a_lost_speech_leaves_the_next_connection_alone() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=1)
    goes_on = asyncio.Event()

    async with (
        serving(make_services(engine)) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(held_back(goes_on)) as lost,
    ):
        audio_of = aiter(lost)
        assert (await anext(audio_of)).pcm
        connection = client._socket._connection
        assert connection is not None
        connection.transport.abort()
        with pytest.raises(ConnectionLost, match="while the speech was coming"):
            await anext(audio_of)
        engine.pause = None
        assert await heard_of(client.speak(HELLO)) == pcm_of(speech(HELLO))
        goes_on.set()
        assert await lost.interrupt() == Interrupted("", "", 0.0)
        assert await heard_of(client.speak(HELLO)) == pcm_of(speech(HELLO))
    assert len(engine.streams) == 3


async def test_an_error_of_the_text_is_no_loss_of_the_connection() -> None:
    async def written() -> AsyncIterator[str]:
        yield "Hello, "
        raise ConnectionError("the language model is gone")

    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(ConnectionError, match="the language model is gone"):
            await heard_of(client.speak(written()))


async def test_a_server_that_closes_every_connection_is_given_up() -> None:
    connections = 0

    async def close(connection: ServerConnection) -> None:
        nonlocal connections
        connections += 1

    async with serve(close, "127.0.0.1", 0) as server, asyncio.timeout(PATIENCE_S):
        port = next(iter(server.sockets)).getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            with pytest.raises(ConnectionLost, match="4 times before the speech began"):
                await heard_of(client.speak(HELLO))
    assert connections == MAX_BEGINNINGS


async def test_another_task_interrupts_whoever_listens() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=6)

    async def listen(spoken: AsyncSpeech) -> None:
        async for piece in spoken:
            spoken.note_played(len(piece.pcm))

    async with (
        serving(make_services(engine)) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(HELLO) as spoken,
    ):
        listening = asyncio.create_task(listen(spoken))
        while spoken.played_ms < 300:  # noqa: ASYNC110  no event says so
            await asyncio.sleep(0.001)
        said = await spoken.interrupt()
        await listening
    assert said.spoken_text + said.remaining_text == HELLO


async def test_nothing_is_written_behind_an_interruption() -> None:
    engine, goes_on = FakeEngine(), asyncio.Event()

    async with (
        serving(make_services(engine)) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(held_back(goes_on)) as spoken,
    ):
        async for piece in spoken:
            spoken.note_played(len(piece.pcm))
            break
        await spoken.interrupt()
        goes_on.set()
        await heard_of(client.speak(HELLO))  # behind all that was written before it
        assert spoken.text == HELLO
    assert len(engine.streams) == 2


async def test_a_speech_is_interrupted_behind_a_lost_connection() -> None:
    async with (
        serving(make_services()) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
        client.speak(HELLO) as spoken,
    ):
        assert [piece async for piece in spoken]
        await client._socket.aclose()
        said = await spoken.interrupt()
    assert spoken.stats is not None
    assert said == Interrupted("", "", spoken.stats.audio_ms)


async def test_the_client_without_async_speaks_in_a_thread() -> None:
    heard: list[bytes] = []
    rendered: list[bytes] = []

    def use(url: str) -> None:
        with Client(url) as client:
            with client.speak(written("Hello, ", "you.")) as spoken:
                heard.extend(piece.pcm for piece in spoken)
            rendered.append(client.render(HELLO, format="pcm"))
            assert "hum" in {speaker["name"] for speaker in client.speakers()}

    async with serving(make_services()) as url, asyncio.timeout(PATIENCE_S):
        await asyncio.to_thread(use, url)  # the loop's own threads are there from here on
        heard.clear()
        before = threading.active_count()
        await asyncio.to_thread(use, url)
        after = threading.active_count()
    assert b"".join(heard) == rendered[0] == pcm_of(speech(HELLO))
    assert after <= before + 1  # the loop may have added one of its own


async def test_proxies_are_told_the_speaker() -> None:
    seen: list[tuple[str, str | None]] = []
    async with serving(make_services()) as url, AsyncClient(url) as client, asyncio.timeout(PATIENCE_S):
        client._http.event_hooks["request"] = [noted(seen)]
        await client.render(HELLO, speaker="anna")
        await client.render(HELLO)
        await heard_of(client.speak(HELLO, speaker="anna"))
        connection = client._socket._connection
        assert connection is not None
        assert connection.request is not None
        seen.append((connection.request.path, connection.request.headers.get("X-Speaker")))
    assert seen == [("/tts", "anna"), ("/tts", None), ("/tts/stream", "anna")]


async def test_speakers_may_have_names_in_chinese_and_recordings_any(tmp_path: Path) -> None:
    engine, speakers = FakeEngine(speakers=frozenset({"中文女"})), FakeSpeakers({"中文女": HUM})
    recording = tmp_path / os.fsdecode(b"b\xf6b.wav")
    recording.write_bytes(b"a recording")
    async with (
        serving(make_services(engine, speakers=speakers)) as url,
        AsyncClient(url) as client,
        asyncio.timeout(PATIENCE_S),
    ):
        assert await client.render(HELLO, format="pcm", speaker="中文女") == pcm_of(speech(HELLO))
        assert await heard_of(client.speak(HELLO, speaker="中文女")) == pcm_of(speech(HELLO))
        assert (await client.register("bob", recording))["name"] == "bob"


def noted(seen: list[tuple[str, str | None]]) -> Any:
    async def note(request: httpx.Request) -> None:
        seen.append((request.url.path, request.headers.get("X-Speaker")))

    return note
