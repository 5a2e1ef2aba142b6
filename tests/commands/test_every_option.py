"""Every option of POST /tts reaches the engine from Python and from the command line too."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from firstword import AsyncSynthesizer
from firstword.app.async_voice import VoiceOptions
from firstword.app.core.request import SynthesisRequest
from firstword.app.speech_options import SpeechOptions
from tests.commands.typed import run
from tests.support.every_option import OF_THE_AUDIO, SENT, meant, told
from tests.support.fake_engine import FakeEngine
from tests.support.serving import HELLO

_NOTHING_KEPT: Final = "a voice in this process keeps no finished audio"
_OTHER_STORY: Final = "a reference is read before the engine sees it: tests/test_synthesizer.py"
NO_PLACE: Final = {
    "cache": _NOTHING_KEPT,
    "reference_audio": _OTHER_STORY,
    "reference_text": _OTHER_STORY,
}
NAMES: Final = {"voice_mode": "mode", "reference_audio": "reference", "reference_text": "transcript"}
"""What an option of POST /tts is called here."""

OPTIONS: Final = [option for option in SENT if option not in NO_PLACE]


def same(request: SynthesisRequest, fields: dict[str, Any]) -> None:
    assert told(request) == told(meant(fields))


@pytest.mark.parametrize("option", OPTIONS)
def test_say_and_batch_take_every_option(engine: FakeEngine, tmp_path: Path, option: str) -> None:
    fields = SENT[option]
    ((name, value),) = fields.items()
    if name in SpeechOptions.model_fields:
        words = ["--option", f"{name}={json.dumps(value)}"]
    else:
        words = [f"--{NAMES.get(name, name)}", str(value)]
    assert run("say", HELLO, *words).exit_code == 0
    same(engine.streams[-1].request, fields)
    line = {"text": HELLO, NAMES.get(name, name): value}
    (tmp_path / "list.jsonl").write_text(json.dumps(line), encoding="utf-8")
    result = run("batch", "list.jsonl", "-o", "out")
    assert result.exit_code == 0, result.output
    same(engine.streams[-1].request, fields)
    assert not (tmp_path / "data").exists(), "a command leaves nothing but what was asked for"


@pytest.mark.anyio
@pytest.mark.parametrize("option", SENT)
async def test_python_takes_every_option(engine: FakeEngine, option: str) -> None:
    """By its own name or among `options`."""
    name = NAMES.get(option, option)
    if option in NO_PLACE:
        assert option == "cache" or name in VoiceOptions.__annotations__
        return
    ((_, value),) = SENT[option].items()
    given = {name: value} if name in VoiceOptions.__annotations__ else {"options": {name: value}}
    async with AsyncSynthesizer.open() as synthesizer:
        await synthesizer.speak(HELLO, stream=False, **given)
    same(engine.streams[-1].request, SENT[option])


@pytest.mark.anyio
async def test_speed_and_times_of_words_are_heard(engine: FakeEngine) -> None:
    assert {"speed", "timestamps"} <= OF_THE_AUDIO
    async with AsyncSynthesizer.open() as synthesizer:
        slow = await synthesizer.speak(HELLO, stream=False)
        fast = await synthesizer.speak(HELLO, speed=2, stream=False)
        words = [word async for audio in synthesizer.timed("One two three.", speed=2) for word in audio.words]
        with pytest.raises(ValueError, match=r"speed is 3; expected 0\.5 to 2"):
            await synthesizer.speak(HELLO, speed=3, stream=False)
    assert len(fast) == round(len(slow) / 2)
    assert [(word.text, word.start, word.end) for word in words] == [
        ("One", 0, 1800),
        ("two", 2400, 4200),
        ("three.", 4800, 8400),
    ]
