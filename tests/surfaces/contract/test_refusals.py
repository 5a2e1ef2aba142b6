"""What cannot be spoken is refused by the same names everywhere; our own faults say nothing of themselves."""

from typing import Any

import pytest

from firstword.app.errors import Overloaded, SynthesisFailed
from tests.support.fake_engine import FakeEngine
from tests.support.grpc_serving import until
from tests.support.serving import HELLO, counted
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, SpeakingSurface

pytestmark = pytest.mark.anyio


async def refusal(surface: SpeakingSurface, text: str, **options: Any) -> Refused:
    """Nothing is left of the request behind it."""
    answer = await surface.speak(text, **options)
    assert isinstance(answer, Refused), answer
    await until(lambda: not surface.engine.open_streams)
    await until(lambda: counted(surface.service, "tts_requests_in_flight") == 0)
    return answer


async def test_an_unknown_speaker_is_not_found(serve: Serve) -> None:
    async with serve() as surface:
        answer = await refusal(surface, HELLO, speaker="eve")
        assert not surface.engine.streams
    assert answer.code == "speaker_not_found"
    assert "eve" in answer.message


async def test_a_language_that_is_not_spoken_is_refused_with_the_list(serve: Serve) -> None:
    async with serve() as surface:
        answer = await refusal(surface, HELLO, language="de")
        assert not surface.engine.streams
    assert answer.code == "invalid_request"
    assert "choose one of en (English), zh (Chinese)" in answer.message


async def test_a_value_out_of_bounds_is_refused(serve: Serve) -> None:
    async with serve() as surface:
        for options in ({"speed": 9.0}, {"format": "midi"}, {"format": "opus", "sample_rate": 44100}):
            answer = await refusal(surface, HELLO, **options)
            assert answer.code == "invalid_request", options
            assert answer.message
        assert not surface.engine.streams


async def test_a_seed_out_of_bounds_is_refused(serve: Serve) -> None:
    async with serve() as surface:
        assert (await refusal(surface, HELLO, seed=2**53)).code == "invalid_request"
        assert not surface.engine.streams


async def test_an_empty_text_is_refused(serve: Serve) -> None:
    async with serve() as surface:
        assert (await refusal(surface, "")).code == "invalid_request"
        assert not surface.engine.streams


async def test_a_text_over_the_limit_is_refused(serve: Serve) -> None:
    async with serve() as surface:
        answer = await refusal(surface, "a" * 4097)
        assert not surface.engine.streams
    assert answer.code == ("string_above_max_length" if surface.name == "openai" else "text_too_long")
    assert "4097" in answer.message
    service = surface.service
    assert counted(service, "tts_rejected_total", reason="too_long") == 1
    assert counted(service, "tts_requests_total", protocol=surface.wire, outcome="rejected") == 1


async def test_a_full_server_refuses(serve: Serve) -> None:
    async with serve(FakeEngine(refusal=Overloaded("all slots are taken", 9))) as surface:
        answer = await refusal(surface, HELLO)
    assert (answer.code, answer.message) == ("overloaded", "all slots are taken")
    service = surface.service
    assert counted(service, "tts_rejected_total", reason="queue_full") == 1
    assert counted(service, "tts_requests_total", protocol=surface.wire, outcome="rejected") == 1


async def test_a_refusal_says_when_to_come_again(serve: Serve) -> None:
    async with serve(FakeEngine(refusal=Overloaded("all slots are taken", 9))) as surface:
        assert (await refusal(surface, HELLO)).retry_after == "9"


FAULTS = (SynthesisFailed("/secret/weights"), RuntimeError("/secret/path"))


async def test_a_fault_before_the_first_audio_is_internal(serve: Serve) -> None:
    async with serve() as surface:
        for failure in FAULTS:
            surface.engine.failure = failure
            answer = await refusal(surface, HELLO)
            assert answer.code == "internal"
            assert "secret" not in answer.message
    assert counted(surface.service, "tts_requests_total", protocol=surface.wire, outcome="failed") == 2


async def test_a_fault_behind_the_first_audio_never_looks_complete(serve: Serve) -> None:
    async with serve(FakeEngine(fails_after_chunks=3)) as surface:
        for failure in FAULTS:
            surface.engine.failure = failure
            answer = await refusal(surface, HELLO)
            assert answer.code in ("internal", None)
            assert "secret" not in answer.message
    assert counted(surface.service, "tts_requests_total", protocol=surface.wire, outcome="failed") == 2


async def test_a_fault_among_words_never_looks_complete(serve: Serve) -> None:
    async with serve(FakeEngine(failure=FAULTS[0], fails_after_chunks=8)) as surface:
        answer = await refusal(surface, HELLO, timestamps="word")
    assert answer.code == "internal"
    assert "secret" not in answer.message
