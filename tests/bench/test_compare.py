"""Two things measured in turn."""

import sys
from pathlib import Path

import pytest

from firstword.app.errors import SynthesisFailed
from firstword.bench import compare
from firstword.bench.compare import (
    CannotCompare,
    Subject,
    compare_commands,
    compare_servers,
    in_turn,
    subject_of,
)
from tests.support.fake_engine import FakeEngine
from tests.support.serving import make_services, serving


@pytest.mark.parametrize(
    ("words", "subject"),
    [
        ("", Subject({})),
        ("FIRSTWORD_NUM_THREADS=2", Subject({"num_threads": "2"})),
        ("FIRSTWORD_A=1 FIRSTWORD_B='x y'", Subject({"a": "1", "b": "x y"})),
        ("before FIRSTWORD_A=1", Subject({"a": "1"}, Path("before"))),
        ("before", Subject({}, Path("before"))),
        ("before sleep 1", None),
        ("sleep 1", None),
        ("FIRSTWORD_A=1 make speak", None),
    ],
)
def test_settings_and_checkouts_are_told_from_commands(
    words: str, subject: Subject | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "before" / "firstword").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert subject_of(words) == subject


def test_who_is_first_changes_from_pair_to_pair() -> None:
    order: list[str] = []

    def take(name: str, value: float) -> float:
        order.append(name)
        return value

    assert in_turn(lambda: take("a", 1.0), lambda: take("b", 2.0), 3) == [(1.0, 2.0)] * 3
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_commands_are_compared_by_the_number_they_print() -> None:
    command = f"{sys.executable} -c \"print('it took RTF {{}} today')\""
    found = compare_commands(command.format(0.5), command.format(0.25), 2, r"RTF ([\d.]+)")
    assert list(found.values()) == [[(0.5, 0.25), (0.5, 0.25)]]


def test_command_without_the_number_is_refused() -> None:
    with pytest.raises(CannotCompare, match="printed nothing"):
        compare_commands("echo RTF", "echo RTF 1", 1, r"RTF ([\d.]+)")


def test_command_that_fails_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["false", "true", "--pairs", "1"]) == 1
    assert "'false' ended with 1" in capsys.readouterr().err


def test_settings_against_a_command_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main(["FIRSTWORD_NUM_THREADS=1", "true"]) == 1
    assert "settings against a command" in capsys.readouterr().err


@pytest.mark.anyio
async def test_two_servers_are_asked_the_same_in_turn() -> None:
    engines = FakeEngine(), FakeEngine()
    async with serving(make_services(engines[0])) as a, serving(make_services(engines[1])) as b:
        found = await compare_servers((a, b), num_pairs=3)
    assert {name: len(pairs) for name, pairs in found.items()} == {
        "first byte": 3,
        "first sound": 3,
        "all of it": 3,
        "compute RTF": 3,
    }
    said = [[(stream.text, stream.request.seed) for stream in engine.streams] for engine in engines]
    assert said[0] == said[1]
    assert len(said[0]) == 2 * 4  # over HTTP and WebSocket; the first pair warmed up


@pytest.mark.anyio
async def test_server_that_does_not_speak_is_refused() -> None:
    broken = FakeEngine(failure=SynthesisFailed("a network failed"))
    async with serving(make_services(FakeEngine())) as a, serving(make_services(broken)) as b:
        with pytest.raises(CannotCompare, match="a server did not speak: internal"):
            await compare_servers((a, b), num_pairs=1)
