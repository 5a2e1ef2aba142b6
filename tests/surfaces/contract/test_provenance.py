"""What an operator lays into speech is in the audio of every wire, and in what is kept to be said again."""

import numpy as np
import pytest

from firstword.app.audio.watermark import Watermark
from firstword.app.audio.watermark_detector import Detector
from tests.support.toy_engine import SpeechlikeToken2Wav, ToyEngine
from tests.surfaces.contract.conftest import Serve
from tests.surfaces.contract.surfaces import Answer, Spoken

pytestmark = pytest.mark.anyio

WATERMARK = Watermark(b"a secret of the test", 0xABCDEF)
DETECTOR = Detector(WATERMARK.key)
TEXT = "A mark is in all of this speech, whatever carries it to the ears."


def payload_in(answer: Answer) -> int | None:
    assert isinstance(answer, Spoken), answer
    samples = np.frombuffer(answer.audio, "<i2").astype(np.float32) / 32768
    return DETECTOR.detect(samples).payload


async def spoken(serve: Serve, watermark: Watermark | None, **options: float) -> Answer:
    toy = ToyEngine(token2wav=SpeechlikeToken2Wav(), watermark=watermark)
    async with toy, serve(over=toy.engine) as surface:
        return await surface.speak(TEXT, **options)


async def test_all_speech_is_marked_and_comes_to_its_end(serve: Serve) -> None:
    answer, unmarked = [await spoken(serve, watermark) for watermark in (WATERMARK, None)]
    assert payload_in(answer) == WATERMARK.payload
    assert payload_in(unmarked) is None
    assert isinstance(answer, Spoken)
    assert isinstance(unmarked, Spoken)
    assert len(answer.audio) == len(unmarked.audio)


async def test_changed_speed_leaves_the_mark(serve: Serve) -> None:
    assert payload_in(await spoken(serve, WATERMARK, speed=0.8)) == WATERMARK.payload
