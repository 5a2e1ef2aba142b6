"""A progress bar on the terminal and, every so often, a line in the stage's log."""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from training.settings import Settings

_LOG_EVERY_S = 20.0


def work_through(settings: Settings, stage: str, jobs: Sequence[Callable[[], float]], total: int) -> None:
    """Runs jobs in processes, in any order; each tells the hours of speech it made. `total` counts those
    that were done before."""
    with ProcessPoolExecutor(settings.processes) as pool, Progress(settings, stage, total) as progress:
        progress.at(total - len(jobs))
        for done in as_completed([pool.submit(job) for job in jobs]):
            progress.step(hours=done.result())


class Progress:
    """One stage's progress; the log goes to <folder>/<stage>.log, with the means since the last line."""

    def __init__(self, settings: Settings, stage: str, total: int) -> None:
        settings.path.mkdir(parents=True, exist_ok=True)
        self._log = logging.getLogger(f"training.{stage}")
        self._log.setLevel(logging.INFO)
        self._handler = logging.FileHandler(settings.path / f"{stage}.log")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._log.addHandler(self._handler)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[values]}"),
        )
        self._task = self._bar.add_task(stage, total=total, values="")
        self._total = total
        self._done = 0
        self._logged, self._logged_at = 0, time.monotonic()
        self._sums: defaultdict[str, list[float]] = defaultdict(list)

    def __enter__(self) -> "Progress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._write()
        self._bar.stop()
        self._log.removeHandler(self._handler)
        self._handler.close()

    def at(self, done: int) -> None:
        """Where a resumed stage begins."""
        self._done = self._logged = done
        self._bar.update(self._task, completed=done)

    def step(self, **values: float) -> None:
        """One more is done; `values` are averaged until the next line."""
        self._done += 1
        for name, value in values.items():
            self._sums[name].append(value)
        self._bar.update(self._task, completed=self._done)
        if time.monotonic() - self._logged_at >= _LOG_EVERY_S:
            self._write()

    def note(self, text: str) -> None:
        self._log.info(text)

    def _write(self) -> None:
        seconds = time.monotonic() - self._logged_at
        if self._done == self._logged:
            return
        means = "  ".join(f"{name} {sum(values) / len(values):.4g}" for name, values in self._sums.items())
        self._bar.update(self._task, values=means)
        rate = (self._done - self._logged) / seconds
        self._log.info(f"{self._done}/{self._total}  {rate:.2f} a second  {means}")
        self._logged, self._logged_at = self._done, time.monotonic()
        self._sums.clear()
