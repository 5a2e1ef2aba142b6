"""A text in a language that the checkpoint lacks is refused on every wire, and the answer says what helps."""

import pytest

from firstword.app.text.normalize import Normalizer
from firstword.app.text.segment import SegmentLimits
from firstword.app.text.stream import TextFrontend
from tests.support.toy_engine import ToyEngine
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Refused, Spoken
from tests.text.marked import speech_marks

pytestmark = pytest.mark.anyio


async def test_a_text_in_another_language_is_refused_with_what_helps(serve: Serve) -> None:
    reader = TextFrontend(Normalizer(("en",)), speech_marks(), SegmentLimits(80, 60, 20), 30)
    async with (
        ToyEngine(text=reader, refuses_other_languages=True) as toy,
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
