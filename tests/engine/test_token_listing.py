"""Speech tokens that are listed cost what they would as audio."""

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.errors import InvalidRequest, SpeakerNotFound
from firstword.app.text.marks import Voice
from firstword.app.text.stream import Item
from tests.support.toy_engine import ToyEngine, ToyText, asked

pytestmark = pytest.mark.anyio


async def test_no_more_tokens_are_listed_than_there_may_be_audio() -> None:
    async with ToyEngine(limits=WorkLimits(max_audio_s=1.0)) as toy:
        listed = [tokens async for tokens in toy.engine.list_tokens(asked("A short one."))]
        with pytest.raises(InvalidRequest, match=r"1\.6 s long, at most 1 s"):
            [tokens async for tokens in toy.engine.list_tokens(asked("abcd" * 10 + "."))]
        assert toy.admission.num_running == 0
    assert sum(len(tokens.ids) for tokens in listed) == len("A short one.")


class TextWithVoice(ToyText):
    """Names a voice before the last sentence."""

    def read(self, piece: str, flushes: bool, is_end: bool = True) -> list[Item]:
        *items, last = super().read(piece, flushes, is_end)
        return [*items, Voice("[voice:nobody]", "nobody"), last]


async def test_a_voice_that_nobody_has_is_known_before_any_token() -> None:
    async with ToyEngine(text=TextWithVoice()) as toy:
        with pytest.raises(SpeakerNotFound):
            await anext(toy.engine.list_tokens(asked("First one. Second one.")))
        assert toy.admission.num_running == 0
        toy.speakers.names.add("nobody")
        listed = [tokens async for tokens in toy.engine.list_tokens(asked("First one. Second one."))]
    assert {tokens.segment for tokens in listed} == {0, 1}
