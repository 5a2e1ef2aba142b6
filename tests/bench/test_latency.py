"""The whole of `firstword bench` against a real server of this process, whose engine is a fake."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import soundfile

from firstword.app.errors import Overloaded, SynthesisFailed
from firstword.app.http.service import Service
from firstword.bench.client import Ask, Client, Protocol
from firstword.bench.data_set import Reference
from firstword.bench.latency import Plan, Sweep, VoiceChoice, measure, show_report, write
from firstword.bench.levels import Goal
from firstword.bench.terminal import cosyvoice_table, level_table, verdict_lines
from tests.support.fake_engine import INFO, FakeEngine, speech
from tests.support.grpc_serving import grpc_serving
from tests.support.serving import make_services, serving

pytestmark = pytest.mark.anyio
ENGLISH = replace(INFO, languages=("en",))  # the fake's 50 ms a character are too few for a Chinese one
PROTOCOLS = pytest.mark.parametrize("protocol", ["http", "ws"])
ALL_PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
TEXT = "The old clock on the tower has been late for years."


def plan(url: str, **more: object) -> Plan:
    sweep = Sweep((1, 3), rates_hz=(20.0,), seconds=0.3)
    return replace(Plan(url, sweep=sweep, goal=Goal(5.0, 1.0)), **more)  # type: ignore[arg-type]


async def asked(engine: FakeEngine, protocol: str, text: str = TEXT, keys: tuple[str, ...] = ()) -> str:
    """What a client says of one request: its status, and why where it is not ok."""
    async with serving(make_services(engine, keys=keys)) as url, Client(url) as client:
        outcome = await client.speak(Ask(text, "en", 0, protocol))  # type: ignore[arg-type]
    return f"{outcome.status} {outcome.why}".strip()


async def test_every_load_is_measured_over_both_protocols() -> None:
    async with serving(make_services(FakeEngine(ENGLISH))) as url:
        report = await measure(
            plan(url, protocols=("http", "ws"), sweep=Sweep((1, 3), (2,), (20.0,), seconds=0.3))
        )
    assert report.is_sound, verdict_lines(report.levels, report.plan.goal)
    assert [str(level.load) for level in report.levels] == [
        *("1 at a time, http", "3 at a time, http", "2 listeners, http"),
        *("1 at a time, ws", "3 at a time, ws", "2 listeners, ws"),
        "20/s Poisson, http",
    ]
    for level in report.levels:
        assert level.counts.num_served == level.counts.num_asked > 0
        assert 0 < level.quantiles.ttfb[0].value <= level.quantiles.ttfa[0].value <= 5
        assert level.realtime > 0
    assert level_table(report.levels, report.plan.goal).row_count == 7


@asynccontextmanager
async def both(services: Service) -> AsyncIterator[tuple[str, str]]:
    """The URL and the gRPC address of one server."""
    async with grpc_serving(services) as rpc, serving(services, surfaces=rpc.surfaces) as url:
        yield url, rpc.address


async def test_every_protocol_is_measured_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.jsonl").write_text(f'{{"text": "{TEXT}", "name": "clock", "speaker": "anna"}}\n')
    engine = FakeEngine(ENGLISH)
    async with both(make_services(engine)) as (url, address):
        report = await measure(
            plan(
                url,
                protocols=ALL_PROTOCOLS,
                sweep=Sweep((1,), rates_hz=(), seconds=0.3),
                grpc_address=address,
                data=tmp_path / "texts.jsonl",
                audio_dir=tmp_path / "audio",
            )
        )
    assert report.is_sound, verdict_lines(report.levels, report.plan.goal)
    assert [level.load.protocol for level in report.levels] == list(ALL_PROTOCOLS)
    wires = {one.request.wire for one in engine.streams}
    assert wires == {"http", "websocket", "openai", "grpc", "kserve"}
    assert {one.speaker for one in engine.streams} == {"anna"}
    length = {soundfile.info(tmp_path / f"audio/{protocol}/clock.wav").frames for protocol in ALL_PROTOCOLS}
    assert length == {len(speech(TEXT))}
    for level in report.levels[-2:]:  # a fake waits for no slot, which the metrics count
        assert level.server is not None
        assert level.server.num_requests == level.counts.num_served
        assert 0 <= level.server.queue_s < 1
    show_report(report, "cosyvoice")
    shown = capsys.readouterr().out
    assert "| Streaming, use_spk2info_cache=True, kserve-grpc | 1 |" in shown
    assert len(re.findall(r"^\| Streaming.* \| 1 \| [\d.]+ \| [\d.]+ \| \d+\.\d{4} \|$", shown, re.M)) == 6


@pytest.mark.parametrize("is_cold", [False, True])
async def test_recordings_are_sent_warm_or_cold(is_cold: bool, tmp_path: Path) -> None:
    soundfile.write(tmp_path / "voice.wav", np.zeros(24_000, np.float32), 24_000)
    engine = FakeEngine(ENGLISH)
    protocols: tuple[Protocol, ...] = ("http", "openai", "kserve-grpc", "kserve-http")
    async with both(make_services(engine)) as (url, address):
        voice = VoiceChoice(None, tmp_path / "voice.wav", "Hum.", is_cold)
        sweep = Sweep((1,), rates_hz=(), seconds=0.3)
        report = await measure(plan(url, protocols=protocols, sweep=sweep, grpc_address=address, voice=voice))
    assert report.is_sound, verdict_lines(report.levels, report.plan.goal)
    voices = [one.request.voice for one in engine.streams]
    transcripts = [voice.reference.transcript for voice in voices if voice.reference]
    assert len(transcripts) == len(engine.streams)
    assert len(set(transcripts)) == (len(engine.streams) if is_cold else 1)
    assert all(transcript.startswith("Hum.") for transcript in transcripts)
    assert "use_spk2info_cache=False" in cosyvoice_table(report.levels, uses_speaker_cache=False)[1]


async def test_what_a_protocol_or_a_recording_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give both"):
        Plan("http://localhost", voice=VoiceChoice(is_cold=True)).client()
    (tmp_path / "voice.wav").write_bytes(b"no")
    with pytest.raises(ValueError, match="no recording"):
        Plan("http://localhost", voice=VoiceChoice(reference=tmp_path / "voice.wav")).client()
    reference = Reference(b"", "Hum.")
    async with (
        both(make_services(FakeEngine())) as (url, address),
        Client(url, grpc_address=address) as client,
    ):
        outcome = await client.speak(Ask(TEXT, "en", 0, "grpc", reference=reference))
        assert (outcome.status, "kserve-grpc" in outcome.why) == ("failed", True)
        refused = await client.speak(Ask("", "en", 0, "kserve-grpc"))
        assert "`target_text` is empty" in refused.why


async def test_refusals_over_grpc_are_no_faults() -> None:
    engine = FakeEngine(refusal=Overloaded("full", 1))
    async with both(make_services(engine)) as (url, address), Client(url, grpc_address=address) as client:
        for protocol in ("grpc", "kserve-http"):
            outcome = await client.speak(Ask(TEXT, "en", 0, protocol))
            assert (outcome.status, outcome.why) == ("refused", "overloaded: full")
    async with Client(url, grpc_address=address) as client:
        gone = await client.speak(Ask(TEXT, "en", 0, "grpc"))
        assert gone.status == "failed", "nobody is there to refuse"


async def test_figures_and_plot_are_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    async with serving(make_services(FakeEngine(ENGLISH))) as url:
        report = await measure(plan(url, api_key="secret-of-a-user"))
    write(report, tmp_path / "deep" / "l.json", tmp_path / "l.png")
    written = (tmp_path / "deep" / "l.json").read_text(encoding="utf-8")
    found = json.loads(written)
    assert found["goodput"]["rate_hz"] == 20
    assert len(found["levels"]) == 3
    assert "secret-of-a-user" not in written
    assert (tmp_path / "l.png").read_bytes().startswith(b"\x89PNG")


@PROTOCOLS
async def test_sound_speech_is_ok(protocol: str) -> None:
    assert await asked(FakeEngine(), protocol) == "ok"


@PROTOCOLS
@pytest.mark.parametrize(("samples", "flaw"), [(200, "truncated"), (8000, "looping")])
async def test_speech_too_short_or_too_long_fails(protocol: str, samples: int, flaw: str) -> None:
    assert (await asked(FakeEngine(samples_per_character=samples), protocol)).startswith(f"failed {flaw}")


@PROTOCOLS
async def test_speech_that_breaks_off_fails(protocol: str) -> None:
    engine = FakeEngine(failure=SynthesisFailed("a network failed"), fails_after_chunks=5)
    assert (await asked(engine, protocol)).startswith("failed")


@PROTOCOLS
async def test_refusal_in_good_order_is_no_fault(protocol: str) -> None:
    assert (await asked(FakeEngine(refusal=Overloaded("full", 1)), protocol)).startswith("refused overloaded")


@PROTOCOLS
async def test_missing_key_is_a_fault(protocol: str) -> None:
    assert (await asked(FakeEngine(), protocol, keys=("anna:secret",))).startswith("failed")


async def test_unsound_speech_fails_the_run_however_fast_it_was() -> None:
    async with serving(make_services(FakeEngine(samples_per_character=200))) as url:
        report = await measure(plan(url))
    assert not report.is_sound
    lines = verdict_lines(report.levels, report.plan.goal)
    assert any("FAILED" in line and "truncated" in line for line in lines)


async def test_random_weights_may_say_anything() -> None:
    async with serving(make_services(FakeEngine(samples_per_character=200))) as url:
        assert (await measure(plan(url, judges_speech=False))).is_sound


async def test_server_that_refuses_everybody_is_not_sound() -> None:
    async with serving(make_services(FakeEngine(refusal=Overloaded("full", 1)))) as url:
        report = await measure(plan(url, sweep=Sweep((1, 3), seconds=0.3)))
    assert not report.is_sound
    assert all(level.counts.num_refused == level.counts.num_asked > 0 for level in report.levels)
    assert "refused, after" in verdict_lines(report.levels, report.plan.goal)[0]


async def test_languages_are_those_of_the_server() -> None:
    engine = FakeEngine(info=replace(INFO, languages=("ko",)))
    async with serving(make_services(engine)) as url:
        with pytest.raises(ValueError, match="no sentences for ko"):
            await measure(plan(url))


async def test_gaps_of_a_slow_server_are_seen() -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
    async with serving(make_services(engine)) as url, Client(url) as client:
        speaking = asyncio.create_task(client.speak(Ask(TEXT, "en", 0)))
        await engine.has_opened.wait()
        await asyncio.sleep(0.4)
        assert engine.pause is not None
        engine.pause.set()
        outcome = await speaking
    assert outcome.heard is not None
    assert outcome.heard.underrun_s > 0.15  # 0.4 s, less two chunks of 50 ms and what the start took
    assert outcome.heard.second_chunk_s is not None
