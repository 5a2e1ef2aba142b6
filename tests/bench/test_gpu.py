"""The GPU kit: what it measures in small on a CPU, and that no part of it can harm the others."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
import torch

from firstword.bench.gpu import kit
from firstword.bench.gpu.kit import Task, run_apart
from firstword.bench.gpu.measured import LoadRow, NetworkRow, Row, append_row, read_rows
from firstword.bench.gpu.networks import FORMS, Subject, measure
from firstword.bench.gpu.report import Part, Result, load_table, network_table, notes, write_result
from firstword.bench.gpu.wheels import name_of, parts_of, requirements
from firstword.models.config import Family

CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"
NETWORK_ROW = NetworkRow("cosyvoice2", "float32", "LM step", "eager", 2, 1.5, 1.25, 10)
LOAD_ROW = LoadRow("cosyvoice3", "bfloat16", "closed", 4.0, 9, 1, 0, 2, 80.0, 101.5, 33.3)


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_every_network_is_measured_in_every_form_or_says_why_not(family: Family) -> None:
    rows: list[Row] = []
    forms = tuple(form for form in FORMS if form != "compiled")  # torch.compile takes half a minute of a CPU
    measure(Subject(family, "small", torch.device("cpu"), torch.float32, (1, 2), forms, 0.001), rows.append)
    found = {(row.what, row.form, row.batch): row for row in rows if isinstance(row, NetworkRow)}
    for what in ("LM step", "flow chunk", "vocoder second"):
        for batch in (1, 2):
            assert all((found[what, form, batch].ms or 0) > 0 for form in ("service", "eager"))
            assert found[what, "graphs", batch].reason == "CUDA graphs need a GPU"
    assert (found["LM prefill", "service", 1].ms or 0) > 0


def test_row_that_fails_is_named_and_the_others_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*arguments: object) -> None:
        raise RuntimeError("out of memory\nmany lines")

    monkeypatch.setattr("firstword.bench.gpu.networks.DecoderStep", no_memory)
    rows: list[Row] = []
    subject = Subject(
        "cosyvoice2", "small", torch.device("cpu"), torch.float32, (1,), ("service", "eager"), 0.001
    )
    measure(subject, rows.append)
    failed = [row for row in rows if isinstance(row, NetworkRow) and row.ms is None]
    assert [(row.what, row.form, row.reason) for row in failed] == [
        ("LM step", "eager", "RuntimeError: out of memory")
    ]
    assert len(rows) == 7


def apart(monkeypatch: pytest.MonkeyPatch, script: str, seconds: float) -> Part:
    """script: what the part does, with the path of its rows in `path`."""
    program = f"import sys, time, subprocess\npath = sys.argv[sys.argv.index('--rows') + 1]\n{script}"
    monkeypatch.setattr(kit, "COMMAND", (sys.executable, "-c", program))
    return run_apart(Task("networks", "cosyvoice2"), [], seconds)


def test_part_that_hangs_is_stopped_with_all_it_started_and_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append_row(tmp_path / "rows", NETWORK_ROW)
    line = (tmp_path / "rows").read_text()
    script = f"""
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(path, "w").write({line!r} + '{{"kind": "netw')
open({str(tmp_path / "pid")!r}, "w").write(str(child.pid))
print("compiling", flush=True)
time.sleep(600)
"""
    part = apart(monkeypatch, script, 5.0)
    assert part.rows == (NETWORK_ROW,)
    assert part.reason == "stopped after 5 s: compiling"
    state = f"/proc/{(tmp_path / 'pid').read_text()}/stat"
    stop_s = time.monotonic() + 10
    while os.path.exists(state) and "Z" not in Path(state).read_text().split():
        assert time.monotonic() < stop_s, "the part's own process goes on"


def test_part_that_fails_says_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    part = apart(monkeypatch, "raise SystemExit('no driver')", 60.0)
    assert (part.rows, part.reason) == ((), "exit code 1: no driver")
    assert run_apart(Task("service", "cosyvoice3"), [], 0.5).reason == "no time was left for it"


def test_result_stands_beside_the_published_table(tmp_path: Path) -> None:
    append_row(tmp_path / "rows", NETWORK_ROW)
    append_row(tmp_path / "rows", LOAD_ROW)
    assert read_rows(tmp_path / "rows") == [NETWORK_ROW, LOAD_ROW]
    missing = NetworkRow("cosyvoice2", "float32", "LM step", "graphs", 2, reason="CUDA graphs need a GPU")
    parts = (
        Part("networks-cosyvoice2", 1.0, (NETWORK_ROW, missing), "stopped after 1 s"),
        Part("service-cosyvoice3", 1.0, (LOAD_ROW,), ""),
    )
    result = Result("a GPU", "bfloat16", 2.0, parts)
    assert network_table(result.network_rows)[1:] == [["cosyvoice2", "LM step", "eager", "1.5"]]
    assert load_table(result.load_rows)[1:] == [
        ["4 at a time", "80 / 102, 33.3 x (n=9, 1 refused, 2 stalled)", "186 / 236, 39.9 x"]
    ]
    assert notes(result) == [
        "networks-cosyvoice2: stopped after 1 s",
        "graphs: CUDA graphs need a GPU (cosyvoice2 LM step 2)",
    ]
    write_result(result, tmp_path)
    assert json.loads((tmp_path / "gpu.json").read_text())["published"]["closed"]["16"]["p50_ms"] == 447
    assert "| 4 at a time |" in (tmp_path / "gpu.md").read_text()
    assert (tmp_path / "gpu.png").stat().st_size > 1000


def test_requirements_are_those_of_the_constraints() -> None:
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text(), flags=re.MULTILINE))
    versions = {name_of(name): version for name, version in pinned.items()}
    for line in requirements():
        name, _, version = line.partition("==")
        if name in versions:
            assert version == versions[name], name
    assert sum(line.partition("==")[0] in versions for line in requirements()) > 40


def test_parts_are_bounded() -> None:
    sizes = {Path(f"{name}.whl"): size for name, size in (("a", 30), ("b", 25), ("c", 20), ("d", 5))}
    parts = [[path.stem for path in part] for part in parts_of(sizes, 50)]
    assert parts == [["a", "c"], ["b", "d"]]
    with pytest.raises(ValueError, match=r"a\.whl has 30 bytes"):
        parts_of(sizes, 29)


@pytest.mark.slow
@pytest.mark.server
def test_small_run_on_a_cpu(tmp_path: Path) -> None:
    words = "--device cpu --size small --families cosyvoice2 --parts networks,service --batches 1"
    words += " --forms service,eager --row-seconds 0.01 --concurrency 1 --rates 2 --seconds 1 --minutes 4"
    assert kit.main([*words.split(), "--out", str(tmp_path)]) == 0
    given = json.loads((tmp_path / "gpu.json").read_text())
    assert [(part["name"], part["reason"]) for part in given["parts"]] == [
        ("networks-cosyvoice2", ""),
        ("service-cosyvoice2", ""),
    ]
    loads = [(row["load"], row["amount"]) for row in given["parts"][1]["rows"]]
    assert loads == [("closed", 1), ("poisson", 2.0)]
    assert given["parts"][1]["rows"][0]["ttfb_p50_ms"] > 0
