"""What docs/use-with.md tells to send works, as far as it can be tried without the other program."""

import base64
import json
import re
from typing import Any

import pytest
from websockets.asyncio.client import connect

from tests.support.fake_engine import SAMPLES_PER_CHARACTER
from tests.support.readme import ROOT
from tests.support.serving import in_process, make_services, serving

pytestmark = pytest.mark.anyio
PAGE = (ROOT / "docs/use-with.md").read_text(encoding="utf-8")
BYTES_PER_CHARACTER = SAMPLES_PER_CHARACTER // 3  # 8 of 24 kHz


def code_with(word: str) -> str:
    (code,) = (code for code in re.findall(r"```\w+\n(.*?)```", PAGE, flags=re.DOTALL) if word in code)
    return str(code)


async def test_twilio_is_sent_its_own_messages() -> None:
    names: dict[str, Any] = {}
    exec(code_with("streamSid"), names)
    sent: list[dict[str, Any]] = []

    class Twilio:
        async def send(self, message: str) -> None:
            sent.append(json.loads(message))

    async with serving(make_services()) as url, connect(f"ws{url.removeprefix('http')}/tts/stream") as socket:
        await names["say"]("Hi you.", Twilio(), "MZ1", socket)
    assert {(one["event"], one["streamSid"]) for one in sent} == {("media", "MZ1")}
    num_bytes = sum(len(base64.b64decode(one["media"]["payload"])) for one in sent)
    assert num_bytes == pytest.approx(BYTES_PER_CHARACTER * len("Hi you."), abs=40)


async def test_asterisk_is_given_a_file_without_a_header() -> None:
    (body,) = re.findall(r"--json '(.*?)'", code_with("asterisk -rx"))
    async with in_process(make_services()) as client:
        answer = await client.post("/tts", json=json.loads(body))
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "audio/basic")
    expected = BYTES_PER_CHARACTER * len(json.loads(body)["text"])
    assert len(answer.content) == pytest.approx(expected, abs=40)
