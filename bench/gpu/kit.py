"""One run of everything that is worth knowing of a GPU, within nine minutes, beside the published H100 table.

`python -m bench gpu` on a machine with a GPU; `--device cpu --size small` is the same in small. Each part is
a process with a time of its own: one that fails, hangs or takes too long is named in the result, what it had
measured by then is in it, and the other parts run all the same.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import torch

from firstword.app.settings import SETTINGS
from firstword.bench import arguments
from firstword.bench.gpu.measured import Form, Row, append_row, read_rows
from firstword.bench.gpu.networks import FORMS, Subject, measure
from firstword.bench.gpu.report import Part, Result, show_result, write_result
from firstword.bench.gpu.service import Loads, measure_service
from firstword.bench.random_checkpoint import Size
from firstword.models.config import Family

FAMILIES: tuple[Family, ...] = ("cosyvoice2", "cosyvoice3")
NETWORKS, SERVICE, COMPILED = KINDS = ("networks", "service", "compiled")
SECONDS = {NETWORKS: 60.0, SERVICE: 125.0, COMPILED: 75.0}
"""What a part may take, where `--minutes` leaves so much."""

COMMAND = (sys.executable, "-m", "firstword.bench", "gpu")
MINUTES = 8.75
COMPILED_BATCHES = (1, 8)  # each is compiled anew
LAST_LINES = 3  # of what a failed part wrote


@dataclass(frozen=True, slots=True)
class Task:
    """A part to be run: its kind and family."""

    kind: str
    family: Family

    def __str__(self) -> str:
        return f"{self.kind}-{self.family}"


def main(words: Sequence[str]) -> int:
    """-> 0 where every part measured something; what a part could not measure is in its rows."""
    given = _parser().parse_args(words)
    device = given.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    precision = given.precision or ("bfloat16" if device == "cuda" else "float32")
    if given.part is not None:
        return run_part(given, device, precision)
    own_words = [*words, "--device", device, "--precision", precision]
    tasks = [Task(kind, family) for kind in given.parts for family in given.families]
    given.out.mkdir(parents=True, exist_ok=True)
    began_s = time.perf_counter()
    parts = []
    for task in tasks:
        left_s = 60 * given.minutes - (time.perf_counter() - began_s)
        parts.append(run_apart(task, own_words, min(SECONDS[task.kind], left_s)))
        result = Result(device_name(device), precision, time.perf_counter() - began_s, tuple(parts))
        write_result(result, given.out)  # each time: a run that is stopped has what there is
    show_result(result)
    return 0 if all(part.rows for part in parts) else 1


def run_apart(task: Task, words: Sequence[str], seconds: float) -> Part:
    """Run a task in a process group of its own, which is killed after so many seconds."""
    if seconds <= 1:
        return Part(str(task), 0.0, (), "no time was left for it")
    began_s = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        rows_path, log_path = Path(folder) / "rows.jsonl", Path(folder) / "log"
        command = [*COMMAND, *words, "--part", str(task), "--rows", str(rows_path)]
        reason = _run(command, log_path, seconds)
        rows = tuple(read_rows(rows_path))
    return Part(str(task), time.perf_counter() - began_s, rows, reason)


def _run(command: Sequence[str], log_path: Path, seconds: float) -> str:
    """-> why the process did not end well, with its last lines; "" where it did."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):  # all of them have ended
                os.killpg(process.pid, signal.SIGKILL)  # a server that it started is in its group
            process.wait()
    if code == 0:
        return ""
    lines = log_path.read_text(encoding="utf-8", errors="replace").split("\n")
    last = " | ".join([line.strip() for line in lines if line.strip()][-LAST_LINES:])
    ended = f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}"
    return f"{ended}: {last}" if last else ended


def run_part(given: argparse.Namespace, device: str, precision: str) -> int:
    """What the process of a part does: its rows go to `given.rows` one by one."""
    kind, _, name = given.part.partition("-")
    (family,) = (family for family in FAMILIES if family == name)

    def on_row(row: Row) -> None:
        append_row(given.rows, row)

    if kind == SERVICE:
        measure_service(
            family,
            given.size,
            {"device": device, "precision": precision, **dict(given.setting)},
            Loads(given.concurrency, given.rates, given.seconds),
            on_row,
        )
        return 0
    batches, forms = given.batches, tuple(form for form in given.forms if form != "compiled")
    if kind == COMPILED:
        batches, forms = tuple(n for n in COMPILED_BATCHES if n in batches), ("compiled",)
    dtype = getattr(torch, precision)
    measure(
        Subject(family, given.size, torch.device(device), dtype, batches, forms, given.row_seconds), on_row
    )
    return 0


def device_name(device: str) -> str:
    """What the figures were measured on, in words."""
    if device == "cuda":
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"CPU, {torch.get_num_threads()} threads, torch {torch.__version__}"


def _setting(word: str) -> tuple[str, str]:
    name, sign, value = word.partition("=")
    if name not in SETTINGS or not sign:
        raise argparse.ArgumentTypeError(f"{word!r}; expected a setting such as cuda_graphs=true")
    return name, value


def _choices(words: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    wanted = tuple(word.strip() for word in words.split(","))
    for word in wanted:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{word!r} is no {what}; expected some of {', '.join(known)}")
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench gpu", description=__doc__)
    add = parser.add_argument
    forms: tuple[Form, ...] = FORMS
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--size", choices=get_args(Size), default="full")
    add("--precision", choices=("float32", "bfloat16", "float16"), help="bfloat16; float32 on a CPU")
    add("--families", type=lambda words: _choices(words, FAMILIES, "family"), default=FAMILIES)
    add("--parts", type=lambda words: _choices(words, KINDS, "part"), default=KINDS)
    add("--forms", type=lambda words: _choices(words, forms, "form"), default=forms)
    add("--batches", type=arguments.counts, default=(1, 2, 4, 8, 16, 32, 64), help="streams at once")
    add("--row-seconds", type=arguments.amount, default=0.5, help="of the timed runs of one network")
    add("--concurrency", type=arguments.counts, default=(1, 2, 4, 8, 10, 16), help="requests at a time")
    add("--rates", type=arguments.rates, default=(1, 2, 4, 6, 8, 10, 15, 20), help="requests/s, Poisson")
    add("--seconds", type=arguments.amount, default=5.0, help="of each load")
    add("--setting", type=_setting, action="append", default=[], help="of the service: cuda_graphs=true")
    add("--minutes", type=arguments.amount, default=MINUTES, help="of all")
    add("--out", type=Path, default=Path("build/bench/gpu"), help="folder of gpu.json, gpu.md and gpu.png")
    add("--part", help=argparse.SUPPRESS)
    add("--rows", type=Path, help=argparse.SUPPRESS)
    return parser
