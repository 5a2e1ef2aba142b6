"""`firstword doctor --openai` asks as OpenAI's clients do; `firstword doctor DIRECTORY` speaks."""

import asyncio
from pathlib import Path

import pytest
import soundfile

from firstword.app.commands.openai_check import openai_findings
from firstword.app.commands.speech_check import speech_findings
from firstword.app.options import BUILTIN_CHECKPOINT
from firstword.app.settings import load_settings
from tests.commands.typed import run
from tests.support.fake_engine import FakeEngine
from tests.support.serving import make_services, serving

pytestmark = pytest.mark.anyio


async def test_a_server_is_what_openais_clients_expect() -> None:
    async with serving(make_services(FakeEngine(samples_per_character=600), keys=("k:sesame",))) as url:
        found = await asyncio.to_thread(openai_findings, f"{url}/v1", "sesame")
        refused = await asyncio.to_thread(openai_findings, url, "wrong")
    assert {finding.state for finding in found} == {"ok"}, found
    subjects = [finding.subject for finding in found]
    assert subjects[:3] == ["models", "first audio", "model tts-1"]
    assert "voice Nova" in subjects, "in any case"
    assert found[-1].message == f"OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=…"
    assert [finding.state for finding in refused] == ["wrong"]
    assert "unknown API key" in refused[0].message


def test_nobody_there_is_told_in_a_line() -> None:
    result = run("doctor", "--openai", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "WRONG models: no server answers at http://127.0.0.1:9" in result.output


@pytest.mark.slow
def test_checkpoint_speaks_and_is_measured(tmp_path: Path) -> None:
    heard = tmp_path / "heard.wav"
    settings = load_settings(checkpoint=BUILTIN_CHECKPOINT)
    speed, speech = speech_findings(settings, heard)
    assert "real-time factor" in speed.message
    assert speech.state == "ok", speech
    assert soundfile.info(heard).duration > 2
