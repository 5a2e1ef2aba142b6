"""A text in a language that the checkpoint lacks is refused on every wire, and the answer says what helps."""

import pytest

from firstword.app.core.interface import Audio
from firstword.app.errors import InvalidRequest
from firstword.app.events import Event, Stage, StreamEvents
from firstword.app.text.normalize import Normalizer
from firstword.app.text.other_languages import SpokenLanguages
from firstword.app.text.segment import SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.support.toy_engine import ToyEngine, asked, asked_in_pieces
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, Spoken
from tests.text.marked import speech_marks

pytestmark = pytest.mark.anyio


def reader(*languages: str, refuses: bool = False) -> TextFrontend:
    limits, known = SegmentLimits(80, 60, 20), SpokenLanguages("toy", languages, refuses)
    return TextFrontend(Normalizer(languages), speech_marks(), limits, 30, languages=known)


async def test_a_text_in_another_language_is_refused_with_what_helps(serve: Serve) -> None:
    async with (
        ToyEngine(text=reader("en", refuses=True)) as toy,
        serve(over=toy.engine) as surface,
    ):
        refused = await surface.speak("你好，今天天气很好。")  # noqa: RUF001
        spoken = await surface.speak("They say 你好 in Beijing.")
    assert isinstance(refused, Refused)
    assert refused.code == "invalid_request"
    assert refused.message.startswith("the text seems to be Chinese (zh), and toy speaks en only")
    assert "firstword download CosyVoice2-0.5B" in refused.message
    assert "FIRSTWORD_OTHER_LANGUAGES=warn" in refused.message
    assert isinstance(spoken, Spoken), "a name is no other language"


async def test_chinese_is_spoken_by_its_own_default_speaker_on_every_wire(serve: Serve) -> None:
    async with (
        ToyEngine(text=reader("en", "zh"), default_speakers={"zh": "lotus"}) as toy,
        serve(over=toy.engine) as surface,
    ):
        for text, name in (("你好，今天天气很好。", "lotus"), ("Good morning.", "hum")):  # noqa: RUF001
            assert isinstance(await surface.speak(text), Spoken)
            assert toy.speakers.prepared_names[-1] == name


async def num_chunks(toy: ToyEngine, *pieces: str) -> int:
    async with toy.engine.open(asked_in_pieces("continuous")) as stream:
        for piece in pieces:
            stream.push_text(piece)
        stream.finish_text()
        return len([event async for event in stream if isinstance(event, Audio)])


async def test_a_text_is_not_refused_by_its_first_word_where_it_comes_in_pieces() -> None:
    async with ToyEngine(text=reader("en", refuses=True)) as toy:
        assert await num_chunks(toy, "Привет ", "means ", "hello ", "in ", "Russian.") > 0
        with pytest.raises(InvalidRequest, match="Russian"):
            await num_chunks(toy, "Привет.")


async def test_a_text_that_would_be_refused_can_be_looked_at() -> None:
    async with ToyEngine(text=reader("en", refuses=True)) as toy:
        report = await toy.engine.read_text(asked("Сегодня хорошая погода."))
    assert [part.language for part in report.parts] == ["ru"]
    assert "Russian (ru)" in report.warnings[0]


async def test_what_reading_a_refused_text_took_is_told() -> None:
    told: list[Event] = []
    async with ToyEngine(text=reader("en", refuses=True)) as toy:
        events = StreamEvents(toy.clock, told.append)
        async with toy.engine.open(asked("Сегодня хорошая погода."), events) as stream:
            with pytest.raises(InvalidRequest, match="Russian"):
                async for _ in stream:
                    pass
    stages = {event.name: event.counts for event in told if isinstance(event, Stage)}
    assert stages["text"] == {"segments": 0}
