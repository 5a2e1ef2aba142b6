"""What the service asks of vLLM beyond its public API; tests/vllm has the real engine."""

import asyncio
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstword.app.engine.backend import BackendError
from firstword.models.lm.plan import Vocabulary
from firstword.models.runtimes.vllm import engine as vllm_engine
from firstword.models.runtimes.vllm.engine import EXPECTED_VLLM, VllmProcess
from tests.models.lm.networks import COSYVOICE2

pytestmark = pytest.mark.anyio


async def test_a_vllm_without_the_task_that_is_watched_is_refused_by_its_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vllm_engine, "installed_version", lambda name: "9.9")
    with pytest.raises(BackendError, match=rf"vLLM \(9\.9\) .* expects vLLM {EXPECTED_VLLM}"):
        VllmProcess(SimpleNamespace(), Vocabulary.of(COSYVOICE2))


async def test_the_end_of_that_task_is_the_death_of_the_engine() -> None:
    ends = asyncio.Event()

    class Llm:
        output_handler: object = None

        def _run_output_handler(self) -> None:
            self.output_handler = asyncio.create_task(ends.wait())

    process = VllmProcess(Llm(), Vocabulary.of(COSYVOICE2))
    waiting = asyncio.create_task(process.wait_until_dead())
    await asyncio.sleep(0)
    assert not waiting.done()
    ends.set()
    async with asyncio.timeout(10):
        await waiting


def test_the_version_expected_is_the_one_that_is_installed_with_the_extra() -> None:
    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["vllm"] == [f"vllm=={EXPECTED_VLLM}"]
