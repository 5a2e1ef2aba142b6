"""A text that names no speaker is spoken by the default one of its language."""

# ruff: noqa: RUF001  Chinese punctuation is meant

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from firstword.app.core.interface import Audio
from firstword.app.core.request import REFERENCE, SynthesisRequest, VoiceChoice
from firstword.app.speakers.interface import SentRecording
from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import SegmentLimits
from firstword.app.text.stream import Mode, TextFrontend
from tests.support.toy_engine import ToyEngine, asked, asked_in_pieces
from tests.text.marked import speech_marks

pytestmark = pytest.mark.anyio

CHINESE = "你好，今天天气很好。"


@pytest.fixture
async def toy() -> AsyncIterator[ToyEngine]:
    reader = TextFrontend(Normalizer(("en", "zh")), speech_marks(), SegmentLimits(80, 60, 20), 30)
    async with ToyEngine(text=reader, default_speakers={"zh": "lotus"}, phrase_cache_bytes=1 << 20) as engine:
        yield engine


async def speaker_of(toy: ToyEngine, request: SynthesisRequest, *pieces: str) -> str:
    """Who spoke, which is told before the first audio."""
    async with toy.engine.open(request) as stream:
        for piece in pieces:
            stream.push_text(piece)
        stream.finish_text()
        names = [stream.speaker async for event in stream if isinstance(event, Audio)]
        assert len(set(names)) <= 1
        assert stream.speaker == stream.stats.speaker
        return stream.speaker


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        (CHINESE, "lotus"),
        ("Good morning.", "hum"),
        ("我的iPhone摔了一下，屏幕裂了。", "lotus"),
        ("The word 你好 means hello in Chinese.", "hum"),
        ("OK. 那就这么定了，明天上午在公司门口见。", "lotus"),
        ("<speak>你好</speak>", "lotus"),
        ('<speak xml:lang="zh-CN">你好</speak>', "lotus"),
        ("2026年1月", "lotus"),
        ("...", "hum"),
    ],
)
async def test_a_whole_text_is_spoken_by_the_speaker_of_its_main_language(
    toy: ToyEngine, text: str, speaker: str
) -> None:
    assert await speaker_of(toy, asked(text)) == speaker
    if text != "...":
        assert toy.speakers.prepared_names[-1] == speaker


@pytest.mark.parametrize("mode", ["continuous", "segments"])
@pytest.mark.parametrize(
    ("pieces", "speaker"),
    [
        (["你", "好，", "Good morning. ", "It is late."], "lotus"),
        (["Good ", "morning. ", "你好，今天天气很好。"], "hum"),
        (["OK，", "那就这么定了。"], "lotus"),
        (["1", "0", "月1日。"], "lotus"),
        ([f"{CHINESE}明天见。Good night. ", "It is late."], "lotus"),
    ],
)
async def test_the_beginning_decides_where_text_comes_in_pieces(
    toy: ToyEngine, mode: Mode, pieces: list[str], speaker: str
) -> None:
    assert await speaker_of(toy, asked_in_pieces(mode), *pieces) == speaker


async def test_a_speaker_that_is_named_speaks_every_language(toy: ToyEngine) -> None:
    for name in ("hum", "lotus"):
        for text in (CHINESE, "Good morning."):
            assert await speaker_of(toy, replace(asked(text), voice=VoiceChoice(name))) == name
    voice = VoiceChoice(reference=SentRecording(b"a recording"))
    assert await speaker_of(toy, replace(asked(CHINESE), voice=voice)) == REFERENCE


async def test_the_language_that_is_asked_for_decides_at_once(toy: ToyEngine) -> None:
    for language, speaker in (("zh-CN", "lotus"), ("en", "hum")):
        request = replace(asked("Number 1."), voice=VoiceChoice(language=language))
        assert toy.engine.open(request).speaker == speaker
        assert await speaker_of(toy, request) == speaker
    assert toy.engine.open(asked(CHINESE)).speaker == ""


async def test_a_mark_goes_back_to_the_speaker_of_the_language(toy: ToyEngine) -> None:
    report = await toy.engine.read_text(asked(f'<speak><voice name="hum">{CHINESE}</voice>{CHINESE}</speak>'))
    assert [part.speaker for part in report.parts if part.speaker] == ["hum", "lotus"]


async def test_what_is_kept_is_spoken_again_under_the_same_name(toy: ToyEngine) -> None:
    for _ in range(2):
        assert await speaker_of(toy, asked(CHINESE, seed=1)) == "lotus"
    assert len(toy.generator.started) == 1


async def test_tokens_are_listed_with_the_speaker_of_the_language(toy: ToyEngine) -> None:
    for text, name in ((CHINESE, "lotus"), ("Good morning.", "hum")):
        assert [one async for one in toy.engine.list_tokens(asked(text))]
        assert toy.speakers.prepared_names[-1] == name
