"""Speech tokens that are listed cost what they would as audio."""

import pytest

from firstword.app.budget import WorkLimits
from firstword.app.errors import InvalidRequest
from tests.support.toy_engine import ToyEngine, asked

pytestmark = pytest.mark.anyio


async def test_no_more_tokens_are_listed_than_there_may_be_audio() -> None:
    async with ToyEngine(limits=WorkLimits(max_audio_s=1.0)) as toy:
        listed = [tokens async for tokens in toy.engine.list_tokens(asked("A short one."))]
        with pytest.raises(InvalidRequest, match=r"1\.6 s long, at most 1 s"):
            [tokens async for tokens in toy.engine.list_tokens(asked("abcd" * 10 + "."))]
        assert toy.admission.num_running == 0
    assert sum(len(tokens.ids) for tokens in listed) == len("A short one.")
