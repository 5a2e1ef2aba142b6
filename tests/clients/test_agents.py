"""The plug-ins for LiveKit Agents and Pipecat, in the real frameworks, against a real server over fakes."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.fake_engine import FakeEngine
from tests.support.serving import make_services, serving

CLIENT = Path(__file__).parents[2] / "clients/python"
PYTHON = Path(sys.prefix) / "agents/bin/python"
PATIENCE_S = 240  # on a machine that does something else too

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="needs LiveKit Agents and Pipecat: make setup-agents"),
    pytest.mark.parametrize("framework", ["livekit", "pipecat"]),
]


@asynccontextmanager
async def telling(*words: str) -> AsyncIterator[Process]:
    """Run a story of agents.py, to its end."""
    command = [str(PYTHON), str(Path(__file__).with_name("agents.py")), *words]
    environment = {**os.environ, "PYTHONPATH": str(CLIENT)}
    async with asyncio.timeout(PATIENCE_S):
        program = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT, env=environment
        )
        try:
            yield program
            said, _ = await program.communicate(b"go on\n")
        finally:
            if program.returncode is None:
                program.kill()
                await program.wait()
    assert said.decode().endswith("done\n"), said.decode()


async def test_a_text_is_spoken_with_the_times_of_its_words(framework: str) -> None:
    engine = FakeEngine()
    async with serving(make_services(engine)) as url, telling(framework, url, "speaks"):
        pass
    assert {stream.speaker for stream in engine.streams} == {"anna"}


async def test_an_interruption_stops_the_server(framework: str) -> None:
    engine = FakeEngine(pause=asyncio.Event(), pauses_after_chunks=2)
    async with serving(make_services(engine)) as url, telling(framework, url, "is_interrupted") as program:
        assert program.stdout is not None
        while (line := await program.stdout.readline()) != b"interrupted\n":
            assert line, "it ended before"
        while engine.open_streams:  # noqa: ASYNC110  the server's work is not ours to announce
            await asyncio.sleep(0.01)


async def test_a_refusal_is_said(framework: str) -> None:
    async with serving(make_services()) as url, telling(framework, url, "is_refused"):
        pass
