"""One run of what is worth knowing of a GPU, within minutes, beside the published H100 table.

`python -m bench gpu` on a machine with a GPU; `--device cpu --size small` is the same in small, `--pretend`
counts launches, copies and waits without one. Each part is a process with a time of its own: one that fails,
hangs or takes too long is named in the result, what it had measured by then is in it, and the other parts run
all the same. A result that is wrong, however fast, fails the run.
"""

import argparse
import faulthandler
import os
import signal
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from io import FileIO, TextIOWrapper
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, get_args

import torch

from firstword.app.settings import SETTINGS
from firstword.bench import arguments
from firstword.bench.gpu.measured import Form, Row, append_row, end_last_line, read_rows
from firstword.bench.gpu.networks import FORMS, Subject, measure
from firstword.bench.gpu.pretended import counts
from firstword.bench.gpu.pretended.device import pretended_gpu
from firstword.bench.gpu.probe import KERNELS_FILE, STEPS, Probe, measure_probe, needs_family
from firstword.bench.gpu.report import Part, Result, show_result, write_result
from firstword.bench.gpu.service import Loads, Missing, Runner, measure_service, missing
from firstword.bench.random_checkpoint import Size
from firstword.models.config import Family

FAMILIES: tuple[Family, ...] = ("cosyvoice3", "cosyvoice2")  # the published figures are of the first
SERVICES: Final[dict[str, Runner]] = {"service": "torch", "vllm": "vllm", "tensorrt": "tensorrt"}
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
SMALL_SHARES = SHARES | {  # about twice the seconds that a small one takes on a core of a CPU
    "card": 4,
    "sameness": 14,
    "stages": 8,
    "together": 3,
    "service": 24,
    "networks": 7,
    "vllm": 50,
    "tensorrt": 40,
}
MISSING_SHARE = 5  # to say so
LIMIT_S = 380.0  # of all
REHEARSED: Final = {  # instead of the defaults where the size is not full: whether all is measured
    "batches": (1, 2),
    "row_seconds": 0.01,
    "alone": 2,
    "rates": (2.0,),
    "concurrency": (2,),
    "seconds": 1.5,
    "warm_seconds": 0.3,
}
COMPILED_BATCHES = (1, 8)  # each is compiled anew
LAST_LINES = 3  # of what a failed part wrote
DIES_WITHIN_S = 10.0  # once killed; a process that a driver holds is left behind
NOT_HERE = os.EX_UNAVAILABLE  # the exit code of a part whose packages are not installed
TELLS_BEFORE_S = 2.0  # that a part is killed, it writes where it is
WHERE = "(most recent call first):\n"
DEVICE_WITHIN_S = 60.0
ROWS_FILE, LOGS_FILE = "rows.jsonl", "logs.tar.gz"
FILES = (ROWS_FILE, LOGS_FILE, KERNELS_FILE, "gpu.json", "gpu.md", "gpu.png")
FORKING = get_context("fork")


@dataclass(frozen=True, slots=True)
class Task:
    """A part to be run: its kind and family."""

    kind: str
    family: Family

    def __str__(self) -> str:
        return f"{self.kind}-{self.family}"


def main(words: Sequence[str]) -> int:
    """-> 0 where every part measured something, or is not installed, and nothing was wrong."""
    given = parsed(words)
    if given.pretend:
        return counts.main(given.json, given.families)
    given.out.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (given.out / name).unlink(missing_ok=True)
    began_s = given.began or time.time()
    given.device, name = _device(given.device)
    _import_for_all(given.device)
    given.precision = given.precision or ("float32" if given.device == "cpu" else "bfloat16")
    tasks = list(tasks_of(given.parts, given.families, given.size))
    shares = [share_of(task, given.device, given.size) for task in tasks]
    parts: list[Part] = []
    with _ended_with_its_part(), tempfile.TemporaryDirectory() as logs:
        for number, task in enumerate(tasks):
            left_s = given.limit - (time.time() - began_s)
            share = shares[number] / sum(shares[number:])
            work = partial(run_part, task, given)
            parts.append(run_apart(task, work, left_s * share, given.out, Path(logs)))
            print(f"{parts[-1].name}: {parts[-1].seconds:.0f} s, {parts[-1].reason or 'whole'}", flush=True)
            result = Result(name, given.precision, time.time() - began_s, tuple(parts))
            write_result(result, given.out)  # each time: a run that is stopped has what there is
            with tarfile.open(given.out / LOGS_FILE, "w:gz") as archive:
                archive.add(logs, "logs")
    show_result(result)
    return 1 if result.faults or any(part.has_failed for part in parts) else 0


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """Exits with a message where they cannot be read."""
    parser = _parser()
    given = parser.parse_args(words)
    if given.size != "full":
        parser.set_defaults(**REHEARSED)
        given = parser.parse_args(words)
    return given


@contextmanager
def _ended_with_its_part() -> Iterator[None]:
    """SIGTERM raises SystemExit meanwhile, so that the part that runs is killed too."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tasks_of(parts: Sequence[str], families: Sequence[Family], size: Size = "full") -> Iterator[Task]:
    """In the order of what one wants to know first; vLLM in small for one family: it starts for 40 s."""
    for part in parts:
        for kind in STEPS if part == "probe" else (part,):
            is_once = (part == "probe" and not needs_family(kind)) or (part == "vllm" and size != "full")
            for family in families[:1] if is_once else families:
                yield Task(kind, family)


def share_of(task: Task, device: str, size: Size) -> int:
    """Return a part's share of the time that is left, to be compared with those of other parts."""
    if task.kind in SERVICES and missing(SERVICES[task.kind], device):
        return MISSING_SHARE
    return (SHARES if size == "full" else SMALL_SHARES)[task.kind]


def run_apart(task: Task, work: Callable[[], int], seconds: float, out: Path, logs: Path) -> Part:
    """Run a part in a process group of its own, which is killed after so many seconds.

    It is forked, so that what all parts import is imported once; nothing here has used the GPU before. work:
    -> its exit code; writes its rows.
    """
    if seconds <= 1:
        return Part(str(task), 0.0, (), "no time was left for it", has_failed=True)
    began_s = time.perf_counter()
    end_last_line(out / ROWS_FILE)
    log_path = logs / f"{task}.log"
    process = FORKING.Process(target=_in_child, args=(work, log_path, seconds), name=str(task))
    try:
        with _sigterm_later():
            process.start()
        process.join(seconds)
        code = process.exitcode
    finally:  # where the run itself is ended too
        if process.pid is not None:
            with suppress(ProcessLookupError):  # all of them have ended, or it has no group of its own yet
                os.killpg(process.pid, signal.SIGKILL)  # a server that it started is in its group
            process.kill()
    process.join(DIES_WITHIN_S)
    rows = tuple(read_rows(out / ROWS_FILE, str(task)))
    has_failed = code != NOT_HERE and (code != 0 or not rows)
    reason = _reason(code, seconds, log_path)
    return Part(str(task), time.perf_counter() - began_s, rows, reason, has_failed)


@contextmanager
def _sigterm_later() -> Iterator[None]:
    """SIGTERM raises SystemExit at the end only: a child that was just forked is known by then."""
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
    if came:
        sys.exit(1)


def _in_child(work: Callable[[], int], log_path: Path, seconds: float) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with log_path.open("wb", buffering=0) as log:
        for number in (1, 2):  # of a server too, which inherits them
            os.dup2(log.fileno(), number)
        sys.stdout = sys.stderr = TextIOWrapper(FileIO(1, "w", closefd=False), line_buffering=True)
        if seconds > TELLS_BEFORE_S:  # where it hangs
            faulthandler.dump_traceback_later(seconds - TELLS_BEFORE_S, file=log)
        code = work()
        faulthandler.cancel_dump_traceback_later()
    sys.exit(code)


def _reason(code: int | None, seconds: float, log_path: Path) -> str:
    """Why a process did not end well, with its last lines; "" where it did."""
    if code == 0:
        return ""
    text = log_path.read_text(encoding="utf-8", errors="replace") if log_path.exists() else ""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if code is None and WHERE in text:  # the innermost of where it was
        lines = text.rpartition(WHERE)[2].strip().split("\n")[:LAST_LINES]
    last = " | ".join(line.strip() for line in lines[-LAST_LINES:])
    if code == NOT_HERE:
        return last
    ended = f"stopped after {seconds:.0f} s" if code is None else f"exit code {code}"
    return f"{ended}: {last}" if last else ended


def run_part(task: Task, given: argparse.Namespace) -> int:
    """Measure a part in its own process; its rows are written one by one."""
    _break(dict(given.breaks).get(str(task)))
    device, precision = given.device, given.precision

    def on_row(row: Row) -> None:
        append_row(given.out / ROWS_FILE, str(task), row)

    if task.kind in SERVICES:
        settings = {"device": device, "precision": precision, **dict(given.setting)}
        loads = Loads(given.alone, given.rates, given.concurrency, given.seconds, given.warm_seconds)
        try:
            measure_service(task.family, given.size, SERVICES[task.kind], settings, loads, on_row)
        except Missing as error:
            print(error)
            return NOT_HERE
        return 0
    batches, forms = given.batches, tuple(form for form in given.forms if form != "compiled")
    if task.kind == "compiled":
        batches, forms = tuple(n for n in COMPILED_BATCHES if n in batches), ("compiled",)
    if given.size != "full":
        torch.set_num_threads(1)  # more of them wait for one another
    with pretended_gpu() if device == "pretended" else nullcontext():
        on, dtype = torch.device("cuda" if device == "pretended" else device), getattr(torch, precision)
        subject = Subject(task.family, given.size, on, dtype, batches, forms, given.row_seconds)
        if task.kind in STEPS:
            measure_probe(task.kind, Probe(subject, given.out, on_row))
        else:
            measure(subject, on_row)
    return 0


def _break(how: str | None) -> None:
    """Rehearse a part that fails or hangs."""
    if how == "fail":
        raise RuntimeError("this part was asked to fail")
    if how == "hang":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)


def _device(asked: str) -> tuple[str, str]:
    """-> the device, and what the figures are measured on in words. A child asks: forks cannot share CUDA."""
    reader, writer = FORKING.Pipe(duplex=False)

    def ask() -> None:
        device = asked
        if asked == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        name = torch.cuda.get_device_name() if device == "cuda" else device
        writer.send((device, f"{name}, torch {torch.__version__}"))

    process = FORKING.Process(target=ask)
    process.start()
    found: tuple[str, str] = reader.recv() if reader.poll(DEVICE_WITHIN_S) else (asked, "a device that hangs")
    process.kill()
    process.join(DIES_WITHIN_S)
    return found


def _import_for_all(device: str) -> None:
    """Import what custom operations do, which is seconds in each part, before the parts are forked.

    Not where it might use a GPU, which forks cannot share.
    """
    if device != "cuda":
        import torch._dynamo  # noqa: F401


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
    add("--began", type=float, help=argparse.SUPPRESS)  # of the whole command, by the epoch
    add("--out", type=Path, default=Path("build/bench/gpu"), help="folder of what is written: 6 files")
    add("--break", type=_broken, action="append", default=[], dest="breaks", help="to rehearse: PART=hang")
    return parser
