"""The GPU kit: what it measures in small on a CPU, and that no part of it can harm the others."""

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstword.bench.client import Ask, Outcome
from firstword.bench.gpu import kit
from firstword.bench.gpu.kit import Task, run_apart
from firstword.bench.gpu.measured import LoadRow, NetworkRow, ProbeRow, Row, append_row, read_rows
from firstword.bench.gpu.networks import FORMS, Subject, measure
from firstword.bench.gpu.probe import Probe, tell_sameness
from firstword.bench.gpu.report import (
    Part,
    Result,
    load_table,
    network_table,
    notes,
    probe_table,
    write_result,
)
from firstword.bench.load import Load, run_load
from firstword.models.config import Family

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


def apart(tmp_path: Path, work: Callable[[], int], seconds: float) -> Part:
    return run_apart(Task("networks", "cosyvoice2"), work, seconds, tmp_path, tmp_path)


def test_part_that_hangs_is_stopped_with_all_it_started_and_keeps_its_rows(tmp_path: Path) -> None:
    rows = tmp_path / kit.ROWS_FILE

    def work() -> int:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        append_row(rows, "networks-cosyvoice2", NETWORK_ROW)
        with rows.open("a") as file:
            file.write('{"part": "netw')
        (tmp_path / "pid").write_text(str(child.pid))
        time.sleep(600)
        return 0

    part = apart(tmp_path, work, 4.0)
    assert part.rows == (NETWORK_ROW,)
    assert part.has_failed
    assert part.reason.startswith("stopped after 4 s: File ")
    assert "in work" in part.reason
    state = f"/proc/{(tmp_path / 'pid').read_text()}/stat"
    stop_s = time.monotonic() + 10
    while os.path.exists(state) and "Z" not in Path(state).read_text().split():
        assert time.monotonic() < stop_s, "the part's own process goes on"
    append_row(rows, "next", LOAD_ROW)
    part = apart(tmp_path, lambda: append_row(rows, "networks-cosyvoice2", LOAD_ROW) or 0, 60.0)
    assert part.rows == (NETWORK_ROW, LOAD_ROW)


def test_run_that_is_ended_leaves_no_part_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by the time limit of `run.sh`: what is left would hold the GPU."""

    def part(task: Task, given: argparse.Namespace) -> int:
        (given.out / "started").write_text(str(os.getpid()))
        (given.out / "started").rename(given.out / "pid")
        time.sleep(600)
        return 0

    monkeypatch.setattr(kit, "run_part", part)
    monkeypatch.setattr(kit, "_device", lambda asked: (asked, "a CPU"))
    words = f"--device cpu --families cosyvoice2 --parts networks --out {tmp_path}".split()
    run = kit.FORKING.Process(target=kit.main, args=(words,))
    run.start()
    stop_s = time.monotonic() + 60
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < stop_s, "the part did not begin"
        time.sleep(0.01)
    run.terminate()
    run.join(60)
    assert run.exitcode == 1
    state = Path(f"/proc/{(tmp_path / 'pid').read_text()}/stat")
    while state.exists() and "Z" not in state.read_text().split():
        assert time.monotonic() < stop_s, "the part goes on"
        time.sleep(0.01)


def test_run_that_is_ended_while_it_forks_leaves_no_part_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork, forked = os.fork, []

    def ended_while_forking() -> int:
        pid = fork()
        if pid:
            forked.append(pid)
            os.kill(os.getpid(), signal.SIGTERM)
        return pid

    def sleep() -> int:
        time.sleep(20)
        return 0

    monkeypatch.setattr(os, "fork", ended_while_forking)
    with pytest.raises(SystemExit), kit._ended_with_its_part():
        apart(tmp_path, sleep, 60.0)
    _, status = os.waitpid(forked[0], 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def test_part_that_has_no_group_of_its_own_yet_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "setsid", lambda: time.sleep(20))
    before = {one.pid for one in kit.FORKING.active_children()}
    apart(tmp_path, lambda: 0, 1.1)
    assert {one.pid for one in kit.FORKING.active_children()} <= before


def test_part_that_fails_says_its_last_words(tmp_path: Path) -> None:
    def work() -> int:
        raise SystemExit("no driver")

    part = apart(tmp_path, work, 60.0)
    assert (part.rows, part.reason, part.has_failed) == ((), "exit code 1: no driver", True)
    assert apart(tmp_path, work, 0.5).reason == "no time was left for it"


def test_part_whose_package_is_missing_fails_nothing(tmp_path: Path) -> None:
    def work() -> int:
        sys.stdout.write("vllm is not installed\n")
        return kit.NOT_HERE

    part = apart(tmp_path, work, 60.0)
    assert (part.reason, part.has_failed) == ("vllm is not installed", False)


def test_parts_come_in_the_order_of_what_one_wants_to_know_first() -> None:
    tasks = [str(task) for task in kit.tasks_of(("probe", "service"), kit.FAMILIES)]
    assert tasks == [
        "card-cosyvoice3",
        "sameness-cosyvoice3",
        "sameness-cosyvoice2",
        "stages-cosyvoice3",
        "stages-cosyvoice2",
        "together-cosyvoice3",
        "service-cosyvoice3",
        "service-cosyvoice2",
    ]


def test_small_run_starts_vllm_once() -> None:
    tasks = [str(task) for task in kit.tasks_of(("service", "vllm"), kit.FAMILIES, "small")]
    assert tasks == ["service-cosyvoice3", "service-cosyvoice2", "vllm-cosyvoice3"]
    assert "vllm-cosyvoice2" in map(str, kit.tasks_of(("vllm",), kit.FAMILIES))


def test_part_that_cannot_run_here_takes_no_time_of_the_others() -> None:
    service = kit.share_of(Task("service", "cosyvoice2"), "cpu", "small")
    assert kit.share_of(Task("tensorrt", "cosyvoice2"), "cpu", "small") < service / 2
    assert kit.share_of(Task("tensorrt", "cosyvoice2"), "cuda", "full") == kit.SHARES["tensorrt"]
    assert kit.share_of(Task("service", "cosyvoice2"), "pretended", "full") < service / 2


def test_other_result_than_the_cpus_fails_the_run(tmp_path: Path) -> None:
    rows: list[Row] = []
    subject = Subject("cosyvoice3", "small", torch.device("cpu"), torch.float32, (), (), 1.0)
    probe = Probe(subject, tmp_path, rows.append)
    samples = torch.ones(100)
    good, late, wrong = (list(range(9)), samples), (list(range(9)), samples[:-1]), ([0, 5], 1.1 * samples)
    for found in (good, late, wrong):
        tell_sameness(probe, "a form", torch.float32, good, found)
    faults = [row.fault for row in rows if isinstance(row, ProbeRow)]
    assert faults == [
        "",
        "samples are inf off, expected at most 0.01",
        "1 of 9 speech tokens are the CPU's; samples are 0.1 off, expected at most 0.01",
    ]
    parts = (Part("sameness-cosyvoice3", 1.0, tuple(rows), ""),)
    result = Result("a GPU", "bfloat16", 2.0, parts)
    assert len(result.faults) == 2
    write_result(result, tmp_path)
    assert "**WRONG**: sameness-cosyvoice3, same as the CPU a form" in (tmp_path / "gpu.md").read_text()
    lost = replace(LOAD_ROW, num_failed=2, reason="cut off")
    result = Result("a GPU", "bfloat16", 2.0, (Part("service-cosyvoice3", 1.0, (lost,), ""),))
    assert result.faults == ["service-cosyvoice3, 4 closed: 2 of 9 requests failed: cut off"]


def test_small_run_has_few_requests_unless_asked() -> None:
    full, small = (kit.parsed(["--size", size, "--rates", "4"]) for size in ("full", "small"))
    assert (full.alone, full.batches[-1], full.rates) == (60, 64, (4,))
    assert (small.alone, small.batches[-1], small.rates) == (2, 2, (4,))


def test_script_ends_by_itself_and_says_so(tmp_path: Path) -> None:
    """A program that hangs in its first import, and does not even write the bytes of what it compiles."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho "$PYTHONDONTWRITEBYTECODE$*" > {tmp_path}/words\nexec sleep 60\n')
    python.chmod(0o755)
    given = {
        "PYTHON": str(python),
        "OUT": str(tmp_path / "out"),
        "LIMIT_S": "7",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    script = tmp_path / "bench/gpu/run.sh"  # of a checkout without wheels
    script.parent.mkdir(parents=True)
    shutil.copy(Path(kit.__file__).with_name("run.sh"), script)
    began_s = time.monotonic()
    words = ["bash", script, "probe,service", "--size", "small"]
    done = subprocess.run(words, env=os.environ | given, capture_output=True, text=True, check=False)
    assert time.monotonic() - began_s < 20
    assert done.returncode == 124
    assert "ended after 7 s; what had been measured is in" in done.stdout
    told = (tmp_path / "words").read_text()
    assert told.startswith("-m firstword.bench gpu --parts probe,service --began ")
    assert told.endswith(f"--out {tmp_path}/out --size small\n")


def test_closed_load_ends_with_its_last_request() -> None:
    spoken: list[Ask] = []

    async def speak(ask: Ask) -> Outcome:
        spoken.append(ask)
        return Outcome(ask, "refused", 0.0, 0.0)

    load = Load("closed", 2, 60.0, max_requests=5)
    outcomes = asyncio.run(run_load(load, iter([Ask("one", "en", 0)] * 9), speak))
    assert len(outcomes) == len(spoken) == 5


def test_result_stands_beside_the_published_table(tmp_path: Path) -> None:
    probe_row = ProbeRow("LM step", "cosyvoice3 graphs", {"rows": 8, "ms": 2.5})
    for row in (NETWORK_ROW, LOAD_ROW, probe_row):
        append_row(tmp_path / "rows", "a part", row)
    append_row(tmp_path / "rows", "another", LOAD_ROW)
    assert read_rows(tmp_path / "rows", "a part") == [NETWORK_ROW, LOAD_ROW, probe_row]
    missing = NetworkRow("cosyvoice2", "float32", "LM step", "graphs", 2, reason="CUDA graphs need a GPU")
    parts = (
        Part("networks-cosyvoice2", 1.0, (NETWORK_ROW, missing), "stopped after 1 s"),
        Part("service-cosyvoice3", 1.0, (LOAD_ROW, probe_row), ""),
    )
    result = Result("a GPU", "bfloat16", 2.0, parts)
    assert network_table(result.network_rows)[1:] == [["cosyvoice2", "LM step", "eager", "1.5"]]
    assert probe_table(result.probe_rows)[1:] == [["LM step", "cosyvoice3 graphs", "rows 8, ms 2.5"]]
    assert load_table(result.load_rows)[1:] == [
        ["4 at a time", "80 / 102, 33.3 x (n=9, 1 refused, 2 stalled)", "186 / 236, 39.9 x"]
    ]
    assert notes(result) == [
        "networks-cosyvoice2: 1 s, stopped after 1 s",
        "service-cosyvoice3: 1 s, whole",
        "graphs: CUDA graphs need a GPU (cosyvoice2 LM step 2)",
    ]
    write_result(result, tmp_path)
    assert json.loads((tmp_path / "gpu.json").read_text())["published"]["closed"]["16"]["p50_ms"] == 447
    assert "| 4 at a time |" in (tmp_path / "gpu.md").read_text()
    assert (tmp_path / "gpu.png").stat().st_size > 1000


def test_whichever_part_fails_or_hangs_the_others_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of parts that write a row at once, each in turn ends badly; the run is over within its limit."""

    def part(task: Task, given: argparse.Namespace) -> int:
        append_row(given.out / kit.ROWS_FILE, str(task), NETWORK_ROW)
        kit._break(dict(given.breaks).get(str(task)))
        return 0

    monkeypatch.setattr(kit, "run_part", part)
    monkeypatch.setattr("firstword.bench.gpu.report.plot_first_bytes", lambda *given: None)
    monkeypatch.setattr(kit, "_device", lambda asked: (asked, "a CPU"))
    monkeypatch.setattr(kit, "_import_for_all", lambda device: None)
    parts = ("networks", "service", "vllm")
    monkeypatch.setattr(kit, "SHARES", dict.fromkeys(parts, 1))
    monkeypatch.setattr(kit, "MISSING_SHARE", 1)
    for name in parts:
        for how in ("fail", "hang"):
            began_s = time.monotonic()
            words = f"--device cpu --families cosyvoice2 --parts {','.join(parts)} --limit 5"
            words += f" --break {name}-cosyvoice2={how} --out {tmp_path}"
            assert kit.main(words.split()) == 1
            assert time.monotonic() - began_s < 30
            given = json.loads((tmp_path / "gpu.json").read_text())
            found = {
                one["name"].partition("-")[0]: (len(one["rows"]), one["reason"]) for one in given["parts"]
            }
            assert [rows for rows, _ in found.values()] == [1, 1, 1]
            broken = found.pop(name)[1]
            assert "this part was asked to fail" in broken if how == "fail" else "stopped after" in broken
            assert [reason for _, reason in found.values()] == ["", ""]


@pytest.mark.slow
@pytest.mark.server
def test_small_run_on_a_cpu(tmp_path: Path) -> None:
    words = "--device cpu --size small --families cosyvoice2 --parts networks,probe,service --batches 1"
    words += " --forms service,eager --limit 280 --break stages-cosyvoice2=fail"
    assert kit.main([*words.split(), "--out", str(tmp_path)]) == 1
    given = json.loads((tmp_path / "gpu.json").read_text())
    reasons = {part["name"]: part["reason"] for part in given["parts"]}
    assert reasons.pop("stages-cosyvoice2").endswith("RuntimeError: this part was asked to fail")
    assert set(reasons.values()) == {""}
    assert given["faults"] == []
    same = {row["of"]: row["found"] for part in given["parts"] for row in part["rows"] if "of" in row}
    assert same["cosyvoice2 float32 eager"]["error"] == 0, "compared with another sound than its own"
    assert same["cosyvoice2 float32 graphs"]["error"] > 0
    (service,) = (part for part in given["parts"] if part["name"] == "service-cosyvoice2")
    loads = [(row["load"], row["amount"], row["num_asked"]) for row in service["rows"]]
    assert loads[0] == ("closed", 1, 2)
    assert [load[:2] for load in loads[1:]] == [("poisson", 2.0), ("closed", 2)]
    assert service["rows"][0]["ttfb_p50_ms"] > 0
    assert len(list(tmp_path.iterdir())) <= 8
    with tarfile.open(tmp_path / kit.LOGS_FILE) as archive:
        assert "logs/stages-cosyvoice2.log" in archive.getnames()
