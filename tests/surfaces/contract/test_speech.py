"""What is asked for is spoken, whatever carries it."""

import asyncio

import numpy as np
import pytest

from firstword.app.audio.formats import FORMATS
from tests.support.fake_engine import SAMPLE_RATE_HZ, FakeEngine, speech
from tests.support.serving import HELLO, counted
from tests.support.sounds import G711, decode
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Spoken

pytestmark = pytest.mark.anyio


async def test_a_text_is_spoken_and_counted(serve: Serve) -> None:
    async with serve() as surface:
        answer = await surface.speak(HELLO)
        assert isinstance(answer, Spoken), answer
        (stream,) = surface.engine.streams
    np.testing.assert_allclose(np.frombuffer(answer.audio, "<i2") / 32767, speech(HELLO), atol=1e-3)
    assert (stream.text, stream.request.wire, stream.cancels) == (HELLO, surface.wire, [])
    service = surface.service
    assert counted(service, "tts_requests_total", protocol=surface.wire, outcome="ok") == 1
    assert counted(service, "tts_requests_in_flight") == 0
    is_played = surface.name not in ("tts-whole", "batches")
    first_bytes = counted(service, "tts_time_to_first_byte_seconds_count", protocol=surface.wire)
    assert first_bytes == is_played
    assert stream.request.delivery.is_played == is_played
    assert counted(service, "tts_input_characters_total") == len(HELLO)
    assert counted(service, "tts_audio_seconds_total") == pytest.approx(len(HELLO) * 0.05, abs=1e-3)


async def test_the_same_text_twice_is_the_same_speech(serve: Serve) -> None:
    async with serve() as surface:
        first, second = await surface.speak(HELLO, seed=7), await surface.speak(HELLO, seed=7)
        assert [stream.request.seed for stream in surface.engine.streams] == [7, 7]
    assert isinstance(first, Spoken)
    assert first == second


async def test_who_speaks_and_how_reaches_the_engine(serve: Serve) -> None:
    async with serve() as surface:
        answer = await surface.speak(HELLO, speaker="anna", language="en", instruct="gladly")
        assert isinstance(answer, Spoken), answer
        (stream,) = surface.engine.streams
    voice = stream.request.voice
    assert (stream.speaker, voice.language, voice.instruct) == ("anna", "en", "gladly")


ODD_TEXTS = [
    *("nul \0 bell \a escape \x1b[31m delete \x7f", "مرحبا بالعالم \u202eabc\u202c", "שלום עולם"),
    *("family 👨\u200d👩\u200d👧\u200d👦 and flag 🇨🇭", "zero\u200bwidth\ufeff", "z̸a̷l̶g̵o̴"),
    *("你好\u3000世界", "\U0010ffff and a"),
]


async def test_odd_characters_reach_the_engine_unchanged(serve: Serve) -> None:
    async with serve(FakeEngine(samples_per_character=100)) as surface:
        for text in ODD_TEXTS:
            assert isinstance(await surface.speak(text), Spoken), text
        assert [stream.text for stream in surface.engine.streams] == ODD_TEXTS


async def test_a_format_is_what_was_asked_for(serve: Serve) -> None:
    async with serve() as surface:
        for format in FORMATS:
            answer = await surface.speak(HELLO, format=format, speed=1.5)
            assert isinstance(answer, Spoken), answer
            rate_hz = 8000 if format in G711 else SAMPLE_RATE_HZ
            samples, rate_hz = decode(format, answer.audio, rate_hz)
            duration_s = len(speech(HELLO)) / SAMPLE_RATE_HZ / 1.5
            assert len(samples) / rate_hz == pytest.approx(duration_s, abs=0.15), format
            assert np.sqrt(np.mean(samples**2)) > 0.1, format
        assert {stream.request.delivery.speed for stream in surface.engine.streams} == {1.5}, (
            "for its deadlines"
        )


async def test_every_rate_lasts_as_long(serve: Serve) -> None:
    async with serve() as surface:
        for rate_hz in (8000, 16000, 22050, 44100, 48000):
            answer = await surface.speak(HELLO, sample_rate=rate_hz)
            assert isinstance(answer, Spoken), answer
            duration_s = len(answer.audio) / 2 / rate_hz
            assert duration_s == pytest.approx(len(speech(HELLO)) / SAMPLE_RATE_HZ, abs=0.001)


async def test_words_come_with_their_audio(serve: Serve) -> None:
    async with serve() as surface:
        answer = await surface.speak("One two three.", timestamps="word")
    assert isinstance(answer, Spoken), answer
    assert answer.words == ["One", "two", "three."]
    samples = np.frombuffer(answer.audio, "<i2") / 32767
    np.testing.assert_allclose(samples, speech("One two three."), atol=1e-3)


async def test_nothing_to_say_is_a_moment_of_silence(serve: Serve) -> None:
    async with serve() as surface:
        for text in ("...", " ", "\N{SLIGHTLY SMILING FACE}"):
            assert await surface.speak(text) == Spoken(bytes(2 * SAMPLE_RATE_HZ // 50)), text


async def test_two_at_once_are_never_mixed(serve: Serve) -> None:
    async with serve(FakeEngine(samples_per_character=200)) as surface:
        alone = [await surface.speak(text) for text in ("abcabc", "xyzxyzxyz")]
        together = await asyncio.gather(surface.speak("abcabc"), surface.speak("xyzxyzxyz"))
    assert together == alone
