"""Texts are spoken so many at once, and stand beside the published figures."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from firstword.app.errors import SynthesisFailed
from firstword.app.options import StartOptions
from firstword.bench import offline
from tests.support.fake_engine import SAMPLE_RATE_HZ, SAMPLES_PER_CHARACTER, FakeEngine


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, FakeEngine]]:
    """Those that were started, with their back ends."""
    started: list[tuple[str, FakeEngine]] = []

    @asynccontextmanager
    async def running(options: StartOptions, metrics: object) -> AsyncIterator[SimpleNamespace]:
        started.append((options.networks.backend, FakeEngine(max_streams=options.engine.max_streams or 0)))
        yield SimpleNamespace(engine=started[-1][1])

    monkeypatch.setattr(offline, "running_engine", running)
    return started


def test_every_batch_size_of_every_back_end_stands_beside_the_published_one(
    engines: list[tuple[str, FakeEngine]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path = tmp_path / "texts.jsonl", tmp_path / "offline.json"
    texts = ("Good morning.", "Yes.")
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    words = ["--data", str(data), "--texts", "4", "--batches", "1,3", "--backends", "torch,vllm"]
    assert offline.main([*words, "--json", str(path)]) == 0
    spoken = json.loads(path.read_text(encoding="utf-8"))["spoken"]
    assert [(one["backend"], one["is_streamed"], one["at_once"]) for one in spoken] == [
        (backend, is_streamed, at_once)
        for backend in ("torch", "vllm")
        for is_streamed in (False, True)
        for at_once in (1, 3)
    ]
    characters = 2 * sum(map(len, texts))
    for one in spoken:
        assert one["audio_s"] == pytest.approx(characters * SAMPLES_PER_CHARACTER / SAMPLE_RATE_HZ)
        assert one["rtf"] == pytest.approx(one["seconds"] / one["audio_s"])
        assert 0 < one["first_audio_s"] <= one["seconds"]
    assert [(backend, engine.max_streams) for backend, engine in engines] == [("torch", 3), ("vllm", 3)]
    assert all(len(engine.streams) == 1 + 4 * 4 for _, engine in engines), "a warm-up, four texts a row"
    told = capsys.readouterr().out
    assert all(figure in told for figure in ("0.2494", "0.0987", "189.88", "0.1155", "torch"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"failure": SynthesisFailed("The networks failed.")}, "bench: The networks failed."),
        ({"samples_per_character": 0}, "gave no audio; give some with words"),
    ],
)
def test_engine_that_fails_or_says_nothing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], change: dict[str, object], said: str
) -> None:
    @asynccontextmanager
    async def running(options: StartOptions, metrics: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(engine=FakeEngine(**change))  # type: ignore[arg-type]

    monkeypatch.setattr(offline, "running_engine", running)
    assert offline.main(["--texts", "2", "--batches", "2"]) == 1
    assert said in capsys.readouterr().err


def test_back_end_that_is_unknown_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        offline.main(["--backends", "torch,onnx"])
    assert "'onnx' is no back end; expected auto, torch, vllm, trtllm" in capsys.readouterr().err
