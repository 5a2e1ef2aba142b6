"""The figures of a checkout's structure, on small made-up trees."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from firstword.bench import structure
from firstword.bench.call_graph import CallGraph
from firstword.bench.sources import import_graph, read_sources
from firstword.bench.structure import (
    Walk,
    WalkBroken,
    figures_of,
    is_private_used_once,
    longest_chain,
    two_way_folders,
    walked,
)


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """A checkout with these files, and the folders app and models at least."""
    for folder in ("app", "models"):
        (root / folder).mkdir()
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def mentioned(root: Path, key: str) -> list[str]:
    graph = CallGraph(read_sources(root))
    return [each.key for each in graph.mentioned_by(graph.functions[key])]


def walk_names(root: Path, walk: Walk) -> tuple[list[str], list[str]]:
    inner, leaves = walked(read_sources(root), walk)
    return [each.name for each in inner], [each.name for each in leaves]


def test_imports_are_the_same_with_and_without_the_package_prefix(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "app/a.py": "from firstword.app.b import f\nfrom firstword import models\n",
            "app/b.py": "import app.c\nfrom . import c\n",
            "app/c.py": "def f():\n    from app import a\n",
            "models/__init__.py": "",
        },
    )
    assert import_graph(read_sources(root)) == {
        "app.a": {"app.b", "models"},
        "app.b": {"app.c"},
        "app.c": {"app.a"},
        "models": set(),
    }


def test_chain_counts_files_and_a_circle_file_by_file() -> None:
    straight = {"a": {"b", "d"}, "b": {"c"}, "c": set(), "d": {"c"}}
    assert longest_chain(straight) == ["a", "b", "c"]
    assert longest_chain({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == ["a", "b", "c", "d"]


def test_folders_that_import_each_other_are_named_once(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "app/x/one.py": "import app.y.two",
            "app/y/two.py": "import app.x.deep.three",
            "app/x/deep/three.py": "import app.errors",
            "app/errors.py": "",
        },
    )
    sources = read_sources(root)
    assert two_way_folders(sources, import_graph(sources)) == ["app/x <-> app/y"]


def test_private_function_used_once_is_told_from_one_used_twice(tmp_path: Path) -> None:
    text = "def _once(): ...\ndef _twice(): ...\ndef __dunder__(): ...\ndef public(): ...\n"
    calls = "_once()\n_twice()\n_twice()\npublic()\n__dunder__()\n"
    root = tree(tmp_path, {"app/a.py": text + calls, "app/b.py": "import app.a\napp.a._twice()\n"})
    graph = CallGraph(read_sources(root))
    assert [each.name for each in graph.functions.values() if is_private_used_once(each)] == ["_once"]


def test_mentions_go_through_annotations_attributes_and_results(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "app/a.py": """
from app.b import Maker

class Holder:
    def __init__(self, maker: Maker | None) -> None:
        self.maker = maker

    def run(self) -> None:
        part = self.maker.make(3)
        part.play()
""",
            "app/b.py": """
class Part:
    def play(self): ...

class Maker:
    def make(self, number: int) -> "list[Part]":
        return [Part()]
""",
        },
    )
    assert mentioned(root, "app.a:Holder.run") == ["app.b:Maker.make", "app.b:Part.play"]


def test_protocol_stands_for_the_classes_that_fit_it(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "app/a.py": """
from typing import Protocol

class Engine(Protocol):
    def start(self, text: str) -> int: ...

class Real:
    def start(self, text: str, seed: int = 0) -> int: ...

class Other:
    def start(self, number: int) -> int: ...

def run(engine: Engine) -> None:
    engine.start("a")
"""
        },
    )
    assert mentioned(root, "app.a:run") == ["app.a:Real.start"]


def test_functions_handed_to_others_and_special_methods_are_mentions(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "app/a.py": """
import asyncio

class Stream:
    def __init__(self) -> None: ...
    async def __aenter__(self) -> "Stream": ...
    async def __aiter__(self): ...
    def work(self) -> None: ...

async def run() -> None:
    async with Stream() as stream:
        await asyncio.to_thread(stream.work)
        async for part in stream:
            pass
"""
        },
    )
    names = [key.rpartition(".")[2] for key in mentioned(root, "app.a:run")]
    assert sorted(names) == ["__aenter__", "__aiter__", "__init__", "work"]


def test_what_only_a_failure_runs_is_no_mention(tmp_path: Path) -> None:
    text = """
def fine(): ...
def repair(): ...
def wrong(): ...
def run():
    try:
        fine()
    except ValueError:
        repair()
        raise wrong()
    assert wrong()
"""
    assert mentioned(tree(tmp_path, {"app/a.py": text}), "app.a:run") == ["app.a:fine"]


WALKED = """
import threading
class Pool:
    def __init__(self):
        threading.Thread(target=self._work).start()
    def run(self): ...
    def _work(self): compute()
    def close(self): compute()
def compute(): finish()
def finish(): ...
def handler(pool: Pool):
    pool.run()
    pool.close()
def other(): handler()
"""
WALK = Walk(entries=["app/*:handler|app/*:old_name"], ends=["*:finish"], excluded=["*.close"])


def test_walk_counts_what_hands_on_and_follows_threads(tmp_path: Path) -> None:
    root = tree(tmp_path, {"app/a.py": WALKED})
    assert walk_names(root, WALK) == (["handler", "Pool._work", "compute"], ["Pool.run", "finish"])
    figures = figures_of(*walked(read_sources(root), WALK))
    assert (figures.functions, figures.files, figures.leaves) == (3, 1, 2)


@pytest.mark.parametrize(
    ("entries", "ends", "missing"),
    [(["app/*:nobody"], ["*:finish"], "nobody"), (["app/*:finish"], ["*:handler"], "handler")],
)
def test_walk_that_does_not_arrive_is_an_error(
    tmp_path: Path, entries: list[str], ends: list[str], missing: str
) -> None:
    root = tree(tmp_path, {"app/a.py": WALKED})
    with pytest.raises(WalkBroken, match=missing):
        walked(read_sources(root), Walk(entries, ends, []))


def test_links_add_steps_that_the_source_does_not_show(tmp_path: Path) -> None:
    text = "def handler(work): work()\ndef compute(): finish()\ndef finish(): ...\n"
    walk = Walk(["*:handler"], ["*:finish"], [], links={"*:handler": "*:compute"})
    assert walk_names(tree(tmp_path, {"models/a.py": text}), walk)[0] == ["handler", "compute"]


def test_command_prints_lines_or_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree(tmp_path, {"app/a.py": WALKED})
    monkeypatch.setattr(structure, "WALKS", {"text": WALK})
    assert structure.main([str(root)]) == 0
    assert "walk of text                 3 functions, 1 files (2 leaves)" in capsys.readouterr().out
    assert structure.main(["--json", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["walks"]["text"]["functions"] == 3
    assert structure.main(["--walk", "text", str(root)]) == 0
    assert capsys.readouterr().out == "app/a.py: handler Pool._work compute (Pool.run) (finish)\n"


def test_command_refuses_what_is_no_checkout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert structure.main([str(tmp_path)]) == 1
    assert "has no folder app/" in capsys.readouterr().err
