"""What a request may cost is the same whatever carries it: its text as it is read, its pauses, its audio."""

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.support.grpc_serving import until
from tests.support.serving import counted
from tests.support.toy_engine import RATE_HZ, ToyEngine
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, Spoken
from tests.text.marked import speech_marks

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def reader() -> TextFrontend:
    """Texts are read as in a server; the networks alone are toys."""
    return TextFrontend(Normalizer(("en",)), speech_marks(), SegmentLimits(80, 60, 20), 30)


async def answered(serve: Serve, reader: TextFrontend, limits: WorkLimits, *texts: str) -> list[object]:
    """The answers to texts, one after the other; nothing is left of them in the engine."""
    async with ToyEngine(text=reader, limits=limits) as toy, serve(over=toy.engine) as surface:
        answers: list[object] = [await surface.speak(text) for text in texts]
        await until(lambda: toy.admission.num_running == 0)
        await until(lambda: counted(surface.service, "tts_requests_in_flight") == 0)
    return answers


async def test_pauses_beyond_the_limit_are_refused(serve: Serve, reader: TextFrontend) -> None:
    marks, breaks = "[pause:10s]" * 370, "<break time='10s'/>" * 100
    texts = (f"Hi. {marks}", f"<speak>{breaks}</speak>")
    refused, ssml = await answered(serve, reader, WorkLimits(), *texts)
    assert isinstance(refused, Refused)
    assert refused.code == "invalid_request"
    assert "3700 s together, at most 62 s" in refused.message
    assert "FIRSTWORD_MAX_PAUSES_S" in refused.message
    assert isinstance(ssml, Refused)
    assert "1000 s together, at most 60 s" in ssml.message


async def test_a_text_that_is_read_as_much_more_is_refused(serve: Serve, reader: TextFrontend) -> None:
    text = f"<speak><sub alias='{'b' * 99}'>a</sub></speak>"
    refused, spoken = await answered(serve, reader, WorkLimits(max_read_chars=90), text, "Hi there.")
    assert isinstance(refused, Refused)
    assert refused.code in ("text_too_long", "string_above_max_length"), "the latter in the words of OpenAI"
    assert "99 characters as it is read" in refused.message
    assert "at most 90" in refused.message
    assert isinstance(spoken, Spoken)


async def test_more_audio_than_may_be_is_no_whole_answer(serve: Serve, reader: TextFrontend) -> None:
    limits = WorkLimits(max_audio_s=1.5)
    cut, spoken = await answered(serve, reader, limits, "Good morning to you. " * 4, "Good morning.")
    assert isinstance(cut, Refused)
    assert cut.code in ("invalid_request", None)
    assert cut.code is None or "at most 1.5 s" in cut.message
    assert isinstance(spoken, Spoken)
    assert len(spoken.audio) > RATE_HZ // 2
