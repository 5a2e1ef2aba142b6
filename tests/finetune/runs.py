"""Small training runs: a task of a small checkpoint, and what a trainer makes of it."""

from pathlib import Path

import torch

from firstword.finetune.batches import BatchPlan, BatchSettings
from firstword.finetune.dataset import Dataset
from firstword.finetune.flow import FlowTask
from firstword.finetune.language_model import LanguageModelTask, positions
from firstword.finetune.task import Task
from firstword.finetune.trainer import StepReport, Trainer, TrainSettings
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.flow.flow import Flow
from tests.support.checkpoints import small_checkpoint

SETTINGS = TrainSettings(steps=6, lr=1e-3, save_every=3, average=1)


def lm_task(data: Path, family: Family = "cosyvoice2", model: Path | None = None) -> LanguageModelTask:
    checkpoint = open_checkpoint(model or small_checkpoint(family))
    dataset = Dataset(data, checkpoint, has_mels=False)
    return LanguageModelTask(checkpoint.load_lm().requires_grad_(True), dataset)


def flow_task(data: Path, family: Family = "cosyvoice2", model: Path | None = None) -> FlowTask:
    checkpoint = open_checkpoint(model or small_checkpoint(family))
    flow = checkpoint.load_flow()
    assert isinstance(flow, Flow)
    return FlowTask(flow.requires_grad_(True), Dataset(data, checkpoint, has_mels=True))


def plan_of(task: Task, size: int, world: int = 1, accumulate: int = 1) -> BatchPlan:
    assert isinstance(task, LanguageModelTask | FlowTask)
    dataset = task._dataset
    lengths = positions(dataset) if isinstance(task, LanguageModelTask) else dataset.num_frames.tolist()
    settings = BatchSettings(size, accumulate)
    return BatchPlan(range(len(dataset)), lengths, dataset.shard_of.tolist(), settings, world)


def fitted(
    task: Task, folder: Path, settings: TrainSettings = SETTINGS, size: int = 300, stop: int | None = None
) -> tuple[Trainer, list[StepReport]]:
    """stop: leave after so many steps, as a killed run does."""
    trainer = Trainer(task, folder, settings)
    reports = []
    for report in trainer.fit(trainer.planned(plan_of(task, size, trainer.world))):
        reports.append(report)
        if report.step == stop:
            break
    return trainer, reports


def parameters(task: Task) -> torch.Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in task.parameters()])
