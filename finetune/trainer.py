"""The loop of all training commands: accelerate's processes, exact resume, averaged weights, a log."""

import contextlib
import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.utils.checkpoint import checkpoint

from firstword.files import write_whole
from firstword.finetune.batches import BatchPlan
from firstword.finetune.errors import FinetuneError
from firstword.finetune.recipe import Schedule
from firstword.finetune.schedule import rate_at
from firstword.finetune.task import Task, TaskLoss

STATE_FILE: Final = "state.pt"
_ADAM_BETAS: Final = (0.9, 0.999)
_FREE: Final = ("save_every", "average")  # to be changed on the way


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """steps: of the optimizer. average: so many states, the best by the held-out loss, end as their mean."""

    steps: int
    lr: float
    optimizer: str = "adam"
    schedule: Schedule = "constant"
    warmup: int = 0
    clip: float = 5.0
    bf16: bool = False
    recomputes: bool = False  # activations in the backward pass, which saves memory
    save_every: int = 500  # steps
    average: int = 5
    seed: int = 0


@dataclass(frozen=True, slots=True)
class StepReport:
    """What a step did: its mean losses over all processes. held: where it was measured."""

    step: int
    rate: float
    norm: float
    values: dict[str, float]
    held: float | None = None


class Trainer:
    """Trains a task's network. One in a process; its processes are those of torchrun or accelerate launch."""

    def __init__(
        self, task: Task, folder: Path, settings: TrainSettings, asked: Mapping[str, Any] | None = None
    ) -> None:
        """folder: of the state to go on from, and the log. asked: what else of the run may not change.

        Raises FinetuneError for the folder of another run.
        """
        self.settings = settings
        self._folder = folder
        on_gpu = torch.cuda.is_available()
        self.accelerator = Accelerator(cpu=not on_gpu, mixed_precision="bf16" if settings.bf16 else "no")
        self.is_main = self.accelerator.is_main_process
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        if settings.recomputes:
            recompute_activations(task.network)
        self.parameters = [one for one in task.parameters() if one.requires_grad]
        if not self.parameters:
            raise FinetuneError("nothing of the network is to be trained")
        self.task = task
        self._model: nn.Module = self.accelerator.prepare(task)
        trained = [one for one in self._model.parameters() if one.requires_grad]
        make = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
        self._optimizer = self.accelerator.prepare(make(trained, lr=settings.lr, betas=_ADAM_BETAS))
        self._best: list[tuple[float, int]] = []  # held-out loss and step of weights that may be averaged
        self.step = 0
        self._check_or_write_settings({**asdict(settings), **(asked or {})})
        self._restore()

    @property
    def device(self) -> torch.device:
        return self.accelerator.device

    def fit(
        self,
        batches_at: Callable[[int], list[Any]],
        held: Sequence[Sequence[int]] = (),
        reads_ahead: bool = True,
    ) -> Iterator[StepReport]:
        """Train from the step that the state is at to the last.

        batches_at: makes this process' batches of a step; reads_ahead: while the step before is computed.
        held: rows of batches that are only measured.
        """
        if self.step >= self.settings.steps:
            return
        writer = self._writer()
        with ThreadPoolExecutor(1) as ahead, contextlib.closing(writer):
            coming = ahead.submit(batches_at, self.step)
            while self.step < self.settings.steps:
                batches = coming.result()
                if reads_ahead:
                    coming = ahead.submit(batches_at, self.step + 1)
                report = self.train_step(batches)
                if not reads_ahead and self.step < self.settings.steps:
                    coming = ahead.submit(batches_at, self.step)
                if self.step % self.settings.save_every == 0 or self.step == self.settings.steps:
                    report = replace(report, held=self.evaluate(held) if held else None)
                    self.save(report.held)
                writer.write(report)
                yield report

    def train_step(self, batches: Sequence[Any]) -> StepReport:
        """One step of the optimizer by the batches of this process, whose losses count by their weights."""
        settings = self.settings
        rate = settings.lr * rate_at(self.step, settings.schedule, settings.warmup, settings.steps)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        weights = [self.task.weigh(batch) for batch in batches]
        total = float(self._sum(torch.tensor([sum(weights)], dtype=torch.float64))[0])
        self._model.train()
        self._optimizer.zero_grad(set_to_none=True)
        sums: dict[str, Tensor] = {}
        for number, (batch, weight) in enumerate(zip(batches, weights, strict=True)):
            is_last = number + 1 == len(batches)
            with contextlib.nullcontext() if is_last else self.accelerator.no_sync(self._model):
                found: TaskLoss = self._model(self.task.to_device(batch))
                # Gradients are averaged over the processes; this makes their sum of it.
                self.accelerator.backward(found.loss * (weight * self.world / total))
            for name, value in {"loss": found.loss, **found.metrics}.items():
                sums[name] = (
                    sums.get(name, torch.zeros((), dtype=torch.float64))
                    + value.detach().double().cpu() * weight
                )
        norm = self.accelerator.clip_grad_norm_(self._model.parameters(), settings.clip)
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
        if math.isfinite(norm):
            self._optimizer.step()
        self.step += 1
        means = self._sum(torch.stack(list(sums.values()))) / total
        values = {**dict(zip(sums, means.tolist(), strict=True)), **self.task.step_values}
        return StepReport(self.step, rate, norm, values)

    @torch.no_grad()
    def evaluate(self, held: Sequence[Sequence[int]]) -> float:
        """The mean loss of the held-out batches, whose draws are those of step 0."""
        self._model.eval()
        sums = torch.zeros(2, dtype=torch.float64)
        for rows in held:
            own = rows[self.rank :: self.world] or rows[:1]
            batch = self.task.collate(own, 0)
            weight = self.task.weigh(batch) if len(rows) > self.rank else 0.0
            found: TaskLoss = self._model(self.task.to_device(batch))
            sums += torch.tensor([float(found.loss) * weight, weight], dtype=torch.float64)
        loss, weight = self._sum(sums).tolist()
        return loss / weight

    def save(self, held: float | None) -> None:
        """Keep what is needed to go on, and weights to average. Raises FinetuneError where the disk is full.

        What was saved before stays whole until the new files are.
        """
        options = StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=True)
        weights = get_model_state_dict(self._model, options=options)
        optimizer = get_optimizer_state_dict(self._model, self._optimizer.optimizer, options=options)
        if self.is_main:
            kept = sorted([*self._best, (math.inf if held is None else held, self.step)], key=_best_first)
            kept = kept[: max(1, self.settings.average)]
            if held is None:
                kept = [(math.inf, self.step)]  # nothing tells which is better: the last
            state = {"weights": weights, "optimizer": optimizer, "step": self.step, "kept": kept}
            try:
                if any(step == self.step for _, step in kept):
                    _write(self._weights_file(self.step), {"weights": weights})
                _write(self._folder / STATE_FILE, state)
            except (OSError, RuntimeError) as error:
                raise FinetuneError(
                    f"step {self.step} cannot be saved in {self._folder}: {_reason(error)}; what was saved "
                    "before is whole: make room, and run the same command again to go on from it"
                ) from error
            self._best = kept
            for path in self._folder.glob("weights-*.pt"):
                if path not in {self._weights_file(step) for _, step in kept}:
                    path.unlink()
        self.accelerator.wait_for_everyone()

    def averaged(self) -> dict[str, Tensor]:
        """The mean of the kept weights by the names in the task's network, in the main process; float32."""
        steps = [step for _, step in self._best]
        mean: dict[str, Tensor] = {}
        for step in steps:
            weights = torch.load(self._weights_file(step), weights_only=True)["weights"]
            for name, value in weights.items():
                share = value.double() / len(steps)
                mean[name] = mean[name] + share if name in mean else share
        prefix = "network."
        return {
            name.removeprefix(prefix): value.float()
            for name, value in mean.items()
            if name.startswith(prefix)
        }

    def planned(self, plan: BatchPlan) -> Callable[[int], list[Any]]:
        """What makes this process' batches of a plan's steps."""
        return lambda step: [self.task.collate(rows, step) for rows in plan.batches(step, self.rank)]

    def _sum(self, values: Tensor) -> Tensor:
        """Over the processes."""
        if self.world > 1:
            values = values.to(self.device)
            dist.all_reduce(values)
        return values.cpu()

    def _weights_file(self, step: int) -> Path:
        return self._folder / f"weights-{step}.pt"

    def _check_or_write_settings(self, given: dict[str, Any]) -> None:
        path = self._folder / "settings.json"
        if self.is_main and not path.exists():
            try:
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(path, f"{json.dumps(given, indent=2)}\n".encode())
            except OSError as error:
                raise FinetuneError(
                    f"{path} cannot be written: {_reason(error)}; make room, or give another -o"
                ) from error
        self.accelerator.wait_for_everyone()
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            before = None
        if not isinstance(before, dict):
            raise FinetuneError(
                f"{path} is damaged: it should be a JSON object of settings; remove {self._folder}, or give "
                "another -o"
            )
        defaults = {one.name: one.default for one in fields(TrainSettings) if one.default is not MISSING}
        before = {**defaults, **before}  # of a version that did not have all of them
        changed = [n for n in given if n not in _FREE and n in before and before[n] != given[n]]
        if changed:
            raise FinetuneError(
                f"{self._folder} holds a run with other settings ({', '.join(changed)}); give those again to "
                "go on, another -o, or remove it"
            )
        if unknown := before.keys() ^ given.keys():
            raise self._of_another_version(f"only one of the two knows {', '.join(sorted(unknown))}")

    def _of_another_version(self, difference: str) -> FinetuneError:
        return FinetuneError(
            f"{self._folder} holds a run of another version of Firstword ({difference}); go on with that "
            "one, give another -o, or remove it"
        )

    def _restore(self) -> None:
        path = self._folder / STATE_FILE
        if not path.exists():
            return
        state = torch.load(path, weights_only=True, map_location="cpu")
        options = StateDictOptions(full_state_dict=True, ignore_frozen_params=True, strict=False)
        trained = get_model_state_dict(self._model, options=options)
        if other := trained.keys() ^ state["weights"].keys():
            raise self._of_another_version(f"only one of the two trains {min(other)}")
        set_model_state_dict(self._model, state["weights"], options=options)
        set_optimizer_state_dict(self._model, self._optimizer.optimizer, state["optimizer"], options=options)
        self.step, self._best = state["step"], [(held, step) for held, step in state["kept"]]

    def _writer(self) -> "_Writer":
        return _Writer(self._folder / "tensorboard" if self.is_main else None)


class _Writer:
    """TensorBoard's events; None: written by another process."""

    def __init__(self, folder: Path | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._events = None if folder is None else SummaryWriter(str(folder))

    def write(self, report: StepReport) -> None:
        if self._events is None:
            return
        held = {} if report.held is None else {"held": report.held}
        for name, value in {**report.values, **held, "norm": report.norm, "rate": report.rate}.items():
            self._events.add_scalar(name, value, report.step)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()


def recompute_activations(network: nn.Module) -> None:
    """Have layers keep their inputs alone, and compute the rest again for the gradient."""
    for name, module in network.named_modules():
        if isinstance(module, nn.ModuleList) and name.rpartition(".")[2] in ("layers", "up_layers", "blocks"):
            for layer in module:
                layer.forward = _recomputed(layer.forward)


def _recomputed(forward: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any) -> Any:
        return (
            checkpoint(forward, *given, use_reentrant=False) if torch.is_grad_enabled() else forward(*given)
        )

    return run


def _best_first(kept: tuple[float, int]) -> tuple[float, int]:
    held, step = kept
    return held, -step


def _write(path: Path, values: dict[str, Any]) -> None:
    """The file has its name once all of it is on the disk."""
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            torch.save(values, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _reason(error: Exception) -> str:
    """torch reports a failed write as its own; the one behind it says why."""
    cause = error if isinstance(error, OSError) else error.__context__
    if isinstance(cause, OSError) and cause.errno == errno.ENOSPC:
        return "the disk is full"
    return str(cause or error).splitlines()[0]
