"""Marks, and how a text is read, through the real server."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from tests.e2e.server import Server
from tests.support.readme import ROOT
from tests.support.service_client import client, in_pieces, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]
RATE_HZ = 24_000
FADE = 72  # samples at the beginning of an utterance: where silence was cut before it, others


async def refused(server: Server, **fields: Any) -> tuple[int, dict[str, str]]:
    async with client(server) as http:
        answer = await http.post("/tts", json=fields)
    return answer.status_code, answer.json()["error"]


def alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    return len(one) == len(other) and np.abs(one.astype(int) - other).max() <= 2


async def test_a_pause_is_exactly_as_long_as_it_says_streamed_and_whole(server: Server) -> None:
    one = await spoken(server, text="One dog.")
    two = await spoken(server, text="Two cats.", seed=9)  # the pause has a number of its own
    text = "One dog.[pause:0.8s]Two cats."
    num_silent = round(0.8 * RATE_HZ)
    for fields in ({"stream": True}, {"stream": False}):
        samples = await spoken(server, text=text, **fields)
        assert alike(samples[: len(one)], one)
        assert not samples[len(one) : len(one) + num_silent].any()
        assert alike(samples[-len(two) :][FADE:], two[FADE:])
        assert 0 <= len(samples) - len(one) - num_silent - len(two) < 0.6 * RATE_HZ  # silence before speech
    pieces = await in_pieces(server, "One dog.[pau", "se:0.8", "s]Two cats.", mode="segments")
    assert alike(pieces[0], samples)


async def test_a_voice_speaks_until_the_next(server: Server) -> None:
    ours, theirs = "wren", "alder"
    first = await spoken(server, text="Good day.", speaker=ours)
    second = await spoken(server, text="Good day.", speaker=theirs, seed=8)
    both = await spoken(server, text=f"Good day.[voice:{theirs}]Good day.", speaker=ours)
    assert alike(both[: len(first)], first)
    assert alike(both[-len(second) :][FADE:], second[FADE:])
    assert not alike(first, await spoken(server, text="Good day.", speaker=theirs))
    status, error = await refused(server, text="Good day.[voice:nobody]Good day.")
    assert (status, error["code"]) == (404, "speaker_not_found")


async def test_ssml_says_what_brackets_say(server: Server) -> None:
    ssml = '<speak>Good <sub alias="day">d.</sub><break time="300ms"/>Good night.</speak>'
    brackets = await spoken(server, text="Good day[pause:0.3s]Good night.")
    assert alike(await spoken(server, text=ssml), brackets)
    pieces = [ssml[start : start + 5] for start in range(0, len(ssml), 5)]
    assert alike((await in_pieces(server, *pieces, mode="segments"))[0], brackets)
    status, error = await refused(server, text="<speak>Good day.")
    assert (status, error["param"]) == (400, "text")
    assert "the SSML is not well-formed at line 1, column 17" in error["message"]
    assert len(await spoken(server, text=ssml, ssml=False)) > len(brackets)


async def test_a_rate_holds_for_what_follows(server: Server) -> None:
    plain = await spoken(server, text="Good day.")
    slow = await spoken(server, text="[rate:0.5]Good day.")
    assert len(slow) == 2 * len(plain)


async def test_volume_is_a_factor(server: Server) -> None:
    plain, soft = await spoken(server, text="Good day."), await spoken(server, text="Good day.", volume=0.5)
    assert np.abs(plain.astype(int) / 2 - soft).max() <= 2
    assert not (await spoken(server, text="Good day.", volume=0)).any()


async def test_a_mark_that_the_voice_lacks_is_left_out_and_told(server: Server) -> None:
    plain = await spoken(server, text="Good day.")
    async with client(server) as http:
        answer = await http.post(
            "/tts", json={"text": "Good [laughter]day.", "format": "pcm", "seed": 7, "stream": False}
        )
    warning = "this checkpoint does not take the mark '[laughter]'; it was left out"
    assert answer.headers["X-Firstword-Warnings"] == warning
    assert alike(np.frombuffer(answer.content, "<i2"), plain)
    samples, messages = await in_pieces(server, "Good [laugh", "ter]day.", mode="segments")
    assert {"type": "warning", "context": "", "message": warning} in messages
    assert alike(samples, plain)


async def test_marks_that_are_not_wanted_are_read(server: Server) -> None:
    plain = await spoken(server, text="Good day.")
    assert len(await spoken(server, text="Good [laughter] day.", marks=False)) > 1.2 * len(plain)
    assert len(await spoken(server, text="Take 1234567.")) > 1.5 * len(
        await spoken(server, text="Take 1234567.", normalize=False)
    )


async def test_a_mark_with_a_bad_value_is_refused_before_any_audio(server: Server) -> None:
    status, error = await refused(server, text="Good day.[pause:soon]")
    assert (status, error["param"]) == (400, "text")
    assert "the mark [pause:soon] in the text has a bad value" in error["message"]
    async with client(server) as http:
        answer = await http.post("/v1/audio/speech", json={"input": "[rate:9]Good day."})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input")
    _, messages = await in_pieces(server, "Good day. [rate:", "9] Now.")
    assert "the mark [rate:9]" in messages[-1]["error"]["message"]
    assert messages[-1]["fatal"]


async def test_a_word_is_said_as_the_lexicon_says(server: Server, lexicon: Path) -> None:
    plain = await spoken(server, text="Good day to you.")
    words = {"bonjour": "Good day"}
    assert alike(await spoken(server, text="Bonjour to you.", lexicon=words), plain)
    pieces = await in_pieces(server, "Bon", "jour to", " you.", mode="segments", lexicon=words)
    assert alike(pieces[0], plain)
    assert alike(await spoken(server, text="Zzyzx to you."), plain)
    lexicon.write_text('{"Zzyzx": "Good night"}')  # noqa: ASYNC240
    try:
        night = await spoken(server, text="Good night to you.")
        assert alike(await spoken(server, text="Zzyzx to you."), night)
    finally:
        lexicon.write_text('{"Zzyzx": "Good day"}')  # noqa: ASYNC240
    sounds = {"zzq": "arpabet:D EY1"}
    assert alike(await spoken(server, text="Good zzq to you.", lexicon=sounds), plain)
    status, error = await refused(server, text="Good day.", lexicon={"day": "arpabet:D QQ"})
    assert (status, error["param"]) == (400, "lexicon")
    assert "'day'" in error["message"]


async def test_what_a_text_becomes_is_told_without_speaking_it(server: Server) -> None:
    text = "I paid $5 [laughter]twice.[pause:1s][voice:alder][rate:0.9]Bonjour."
    async with client(server) as http:
        answer = await http.post("/v1/text", json={"text": text, "lexicon": {"bonjour": "Good day"}})
        refusals = [
            await http.post("/v1/text", json={"text": "a[pause:x]"}),
            await http.post("/v1/text", json={"text": "a[voice:nobody]b"}),
            await http.post("/v1/text", json={"text": "a", "speed": 2}),
        ]
    report = answer.json()
    assert report["spoken"] == "I paid five dollars twice. Good day."
    assert (report["language"], report["characters"], report["marks"]) == ("en", len(text), [])
    assert report["warnings"] == ["this checkpoint does not take the mark '[laughter]'; it was left out"]
    first, pause, voice, rate, last = report["parts"]
    assert (first["source"], pause["source"]) == ("I paid $5 [laughter]twice.", "[pause:1s]")
    assert (pause["pause_s"], voice["speaker"], rate["rate"]) == (1.0, "alder", 0.9)
    assert (last["spoken"], last["language"]) == ("Good day.", "en")
    assert report["tokens"] == first["tokens"] + last["tokens"] > 5
    assert [answer.status_code for answer in refusals] == [400, 404, 400]


async def test_examples_of_the_page_run(server: Server, tmp_path: Path) -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    section = page[page.index("## Marks in the text") : page.index("## When each word sounds")]
    for block in re.findall(r"```sh\n(.*?)```", section, flags=re.DOTALL):
        script = block.replace("localhost:8000", server.url).replace("curl -s", "curl -sf")
        script = re.sub(r"--json '", "-H 'Content-Type: application/json' -d '", script)  # of older curls
        running = await asyncio.create_subprocess_exec("bash", "-ec", script, cwd=tmp_path)
        assert await running.wait() == 0
    assert soundfile.info(tmp_path / "marks.wav").duration > 2.5
    assert soundfile.info(tmp_path / "calm.wav").duration > 0.3
    assert soundfile.info(tmp_path / "ssml.wav").duration > 1.5
    assert soundfile.info(tmp_path / "names.wav").duration > 0.5
    assert json.loads((tmp_path / "text.json").read_text())["spoken"] == "It costs five dollars."


async def test_sampling_changes_what_is_said_and_stays_the_same_for_a_seed(server: Server) -> None:
    text = "Good day to all of you."
    plain = await spoken(server, text=text)
    cold = await spoken(server, text=text, temperature=0.3, top_k=5)
    assert not alike(plain, cold)
    assert alike(cold, await spoken(server, text=text, temperature=0.3, top_k=5))
    short = await spoken(server, text=text, max_token_ratio=1)
    assert len(short) < len(plain) / 2
