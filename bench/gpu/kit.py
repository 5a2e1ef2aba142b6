"""One run of what is worth knowing of a GPU, within minutes, beside the published H100 table.

`python -m bench gpu` on a machine with a GPU; `--device cpu --size small` is the same in small, `--pretend`
counts launches, copies and waits without one. Each part is a process with a time of its own: one that fails,
hangs or takes too long is named in the result, what it had measured by then is in it, and the other parts run
all the same. A result that is wrong, however fast, fails the run.
"""

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, get_args

import torch

from firstword.app.settings import SETTINGS
from firstword.bench import arguments
from firstword.bench.gpu.measured import Form, Row, append_row, end_last_line, read_rows
from firstword.bench.gpu.networks import FORMS, Subject, measure
from firstword.bench.gpu.pretended import counts
from firstword.bench.gpu.pretended.device import pretended_gpu
from firstword.bench.gpu.probe import STEPS, Probe, measure_probe, needs_family
from firstword.bench.gpu.report import Part, Result, show_result, write_result
from firstword.bench.gpu.service import Loads, Missing, measure_service
from firstword.bench.random_checkpoint import Size
from firstword.models.config import Family

FAMILIES: tuple[Family, ...] = ("cosyvoice3", "cosyvoice2")  # the published figures are of the first
SERVICES: Final = {"service": "torch", "vllm": "vllm", "tensorrt": "tensorrt"}
PARTS = ("probe", "service", "networks", "vllm", "tensorrt", "compiled")
USUAL_PARTS = PARTS[:-1]
SHARES = {  # of the time that is left; about the seconds that a GPU takes
    "card": 40,
    "sameness": 45,
    "stages": 60,
    "together": 20,
    "service": 185,
    "networks": 60,
    "vllm": 150,
    "tensorrt": 150,
    "compiled": 75,
}
COMMAND = (sys.executable, "-m", "firstword.bench", "gpu")
LIMIT_S = 380.0  # of all
COMPILED_BATCHES = (1, 8)  # each is compiled anew
LAST_LINES = 3  # of what a failed part wrote
DIES_WITHIN_S = 10.0  # once killed; a process that a driver holds is left behind
NOT_HERE = os.EX_UNAVAILABLE  # the exit code of a part whose packages are not installed
ROWS_FILE, LOGS_FILE = "rows.jsonl", "logs.tar.gz"


@dataclass(frozen=True, slots=True)
class Task:
    """A part to be run: its kind and family."""

    kind: str
    family: Family

    def __str__(self) -> str:
        return f"{self.kind}-{self.family}"


def main(words: Sequence[str]) -> int:
    """-> 0 where every part measured something, or is not installed, and nothing was wrong."""
    given = _parser().parse_args(words)
    if given.pretend:
        return counts.main(given.json, given.families)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    precision = given.precision or ("float32" if device == "cpu" else "bfloat16")
    if given.part is not None:
        return run_part(given, device, precision)
    own_words = [*words, "--device", device, "--precision", precision]
    tasks = list(tasks_of(given.parts, given.families))
    given.out.mkdir(parents=True, exist_ok=True)
    for name in (ROWS_FILE, LOGS_FILE):
        (given.out / name).unlink(missing_ok=True)
    began_s = time.perf_counter()
    parts: list[Part] = []
    with tempfile.TemporaryDirectory() as logs:
        for number, task in enumerate(tasks):
            left_s = given.limit - (time.perf_counter() - began_s)
            share = SHARES[task.kind] / sum(SHARES[one.kind] for one in tasks[number:])
            parts.append(run_apart(task, own_words, left_s * share, given.out, Path(logs)))
            print(f"{parts[-1].name}: {parts[-1].seconds:.0f} s, {parts[-1].reason or 'whole'}", flush=True)
            result = Result(device_name(device), precision, time.perf_counter() - began_s, tuple(parts))
            write_result(result, given.out)  # each time: a run that is stopped has what there is
            with tarfile.open(given.out / LOGS_FILE, "w:gz") as archive:
                archive.add(logs, "logs")
    show_result(result)
    return 1 if result.faults or any(part.has_failed for part in parts) else 0


def tasks_of(parts: Sequence[str], families: Sequence[Family]) -> Iterator[Task]:
    """In the order of what one wants to know first."""
    for part in parts:
        for kind in STEPS if part == "probe" else (part,):
            has_families = part != "probe" or needs_family(kind)
            for family in families if has_families else families[:1]:
                yield Task(kind, family)


def run_apart(task: Task, words: Sequence[str], seconds: float, out: Path, logs: Path) -> Part:
    """Run a task in a process group of its own, which is killed after so many seconds."""
    if seconds <= 1:
        return Part(str(task), 0.0, (), "no time was left for it", has_failed=True)
    began_s = time.perf_counter()
    rows_path = out / ROWS_FILE
    end_last_line(rows_path)
    command = [*COMMAND, *words, "--part", str(task), "--rows", str(rows_path)]
    code, reason = _run(command, logs / f"{task}.log", seconds)
    rows = tuple(read_rows(rows_path, str(task)))
    has_failed = code != NOT_HERE and (code != 0 or not rows)
    return Part(str(task), time.perf_counter() - began_s, rows, reason, has_failed)


def _run(command: Sequence[str], log_path: Path, seconds: float) -> tuple[int | None, str]:
    """-> the exit code, None where it was stopped; why the process did not end well, with its last lines."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        code: int | None = None
        try:
            with suppress(subprocess.TimeoutExpired):
                code = process.wait(seconds)
        finally:
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(process.pid, signal.SIGKILL)  # a server that it started is in its group
            with suppress(subprocess.TimeoutExpired):
                process.wait(DIES_WITHIN_S)
    if code == 0:
        return code, ""
    lines = log_path.read_text(encoding="utf-8", errors="replace").split("\n")
    last = " | ".join([line.strip() for line in lines if line.strip()][-LAST_LINES:])
    if code == NOT_HERE:
        return code, last
    ended = f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}"
    return code, f"{ended}: {last}" if last else ended


def run_part(given: argparse.Namespace, device: str, precision: str) -> int:
    """What the process of a part does: its rows go to `given.rows` one by one."""
    kind, _, name = given.part.partition("-")
    (family,) = (family for family in FAMILIES if family == name)
    _break(given.part, dict(given.breaks))

    def on_row(row: Row) -> None:
        append_row(given.rows, given.part, row)

    if kind in SERVICES and device == "pretended":
        print("a server is a process of its own, which is on the CPU or on a GPU")
        return NOT_HERE
    if kind in SERVICES:
        settings = {"device": device, "precision": precision, **dict(given.setting)}
        loads = Loads(given.alone, given.rates, given.concurrency, given.seconds, given.warm_seconds)
        try:
            measure_service(family, given.size, SERVICES[kind], settings, loads, on_row)  # type: ignore[arg-type]
        except Missing as error:
            print(error)
            return NOT_HERE
        return 0
    batches, forms = given.batches, tuple(form for form in given.forms if form != "compiled")
    if kind == "compiled":
        batches, forms = tuple(n for n in COMPILED_BATCHES if n in batches), ("compiled",)
    dtype = getattr(torch, precision)
    with pretended_gpu() if device == "pretended" else nullcontext():
        on = torch.device("cuda" if device == "pretended" else device)
        subject = Subject(family, given.size, on, dtype, batches, forms, given.row_seconds)
        if kind in STEPS:
            measure_probe(kind, Probe(subject, given.out, on_row))
        else:
            measure(subject, on_row)
    return 0


def _break(part: str, breaks: dict[str, str]) -> None:
    """Rehearse a part that fails or hangs."""
    match breaks.get(part):
        case "fail":
            raise RuntimeError("this part was asked to fail")
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(3600)


def device_name(device: str) -> str:
    """What the figures were measured on, in words."""
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    name = "CPU" if device == "cpu" else "pretended GPU"
    return f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _setting(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if name not in SETTINGS or not sign:
        raise argparse.ArgumentTypeError(f"{word!r}; expected a setting such as cuda_graphs=true")
    return name, value


def _broken(word: str) -> tuple[str, str]:
    name, _, how = word.partition("=")
    known = {str(task) for task in tasks_of(PARTS, FAMILIES)}
    if name not in known or how not in ("fail", "hang"):
        raise argparse.ArgumentTypeError(f"{word!r}; expected service-cosyvoice3=fail, or =hang")
    return name, how


def _choices(words: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    wanted = tuple(word.strip() for word in words.split(","))
    for word in wanted:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{word!r} is no {what}; expected some of {', '.join(known)}")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench gpu", description=__doc__)
    add: Any = parser.add_argument
    forms: tuple[Form, ...] = FORMS
    add("--pretend", action="store_true", help="instead: count launches, copies and waits without a GPU")
    add("--json", action="store_true", help="of --pretend: the counts as JSON")
    add("--device", choices=("auto", "cpu", "cuda", "pretended"), default="auto")
    add("--size", choices=get_args(Size), default="full")
    add("--precision", choices=("float32", "bfloat16", "float16"), help="bfloat16; float32 on a CPU")
    add("--families", type=lambda words: _choices(words, FAMILIES, "family"), default=FAMILIES)
    add("--parts", type=lambda words: _choices(words, PARTS, "part"), default=USUAL_PARTS)
    add("--forms", type=lambda words: _choices(words, forms, "form"), default=forms)
    add("--batches", type=arguments.counts, default=(1, 2, 4, 8, 16, 32, 64), help="streams at once")
    add("--row-seconds", type=arguments.amount, default=0.5, help="of the timed runs of one network")
    add("--alone", type=arguments.count, default=60, help="requests one at a time")
    add("--rates", type=arguments.rates, default=(8, 10, 15, 20), help="requests/s, Poisson")
    add("--concurrency", type=arguments.counts, default=(8, 16), help="requests at a time")
    add("--seconds", type=arguments.amount, default=8.0, help="of each of these loads")
    add("--warm-seconds", type=arguments.amount, default=3.0, help="of each load before it is measured")
    add("--setting", type=_setting, action="append", default=[], help="of the service: window_s=10")
    add("--limit", type=arguments.amount, default=LIMIT_S, help="seconds of all")
    add("--out", type=Path, default=Path("build/bench/gpu"), help="folder of what is written: 6 files")
    add("--break", type=_broken, action="append", default=[], dest="breaks", help="to rehearse: PART=hang")
    add("--part", help=argparse.SUPPRESS)
    add("--rows", type=Path, help=argparse.SUPPRESS)
    return parser
