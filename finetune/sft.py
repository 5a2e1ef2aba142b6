"""Supervised fine-tuning of a language model or a flow: a checkpoint and prepared data to a checkpoint."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from torch import Tensor, nn

from firstword.finetune import lora
from firstword.finetune.batches import BatchPlan, BatchSettings
from firstword.finetune.dataset import Dataset, rows_within
from firstword.finetune.distil import DistilSettings, DistilTask
from firstword.finetune.errors import FinetuneError
from firstword.finetune.flow import FlowTask
from firstword.finetune.language_model import LanguageModelTask, positions
from firstword.finetune.lora import LoraSettings
from firstword.finetune.recipe import Recipe, recipe_of
from firstword.finetune.result import (
    ADAPTER_FOLDERS,
    STATE_FOLDER,
    Part,
    load_weights,
    new_speakers,
    write_result,
    write_solver,
)
from firstword.finetune.solved import SolvedFlowTask, is_solved_whole
from firstword.finetune.task import Task
from firstword.finetune.trainer import StepReport, Trainer, TrainSettings
from firstword.models.checkpoint import yaml
from firstword.models.checkpoint.open import (
    Checkpoint,
    lm_fingerprint,
    open_checkpoint,
    token2wav_fingerprint,
)
from firstword.models.config import YAML_FILES
from firstword.models.flow.flow import Flow

HELD_SHARE: Final = 0.05
HELD_MOST: Final = 128  # utterances
HELD_LEAST: Final = 40  # utterances of the data, below which none is kept out


@dataclass(frozen=True, slots=True)
class FineTuning:
    """What a user asks for; recipe: of the checkpoint's yaml, with what was asked for otherwise in it.

    steps None: as many as the recipe's epochs take. distil: of a flow, instead of learning from the data.
    """

    part: Part
    checkpoint: Checkpoint
    data: Path
    out: Path
    recipe: Recipe
    steps: int | None = None
    lora: LoraSettings = field(default_factory=LoraSettings)
    distil: DistilSettings | None = None
    bf16: bool = False
    recomputes: bool = False
    save_every: int = 500
    average: int = 5


def recipe_in(checkpoint: Checkpoint) -> Recipe:
    """What the checkpoint's yaml says of its training."""
    names = (name for name in YAML_FILES if (checkpoint.directory / name).exists())
    return recipe_of(yaml.read(checkpoint.directory / next(names)))


def fine_tune(asked: FineTuning, seed: int = 0) -> Iterator[StepReport]:
    """Train, and write the result; what was begun in `asked.out` goes on. Yields every step.

    Raises FinetuneError for what cannot be trained, data that does not fit, and a full disk.
    """
    checkpoint, out, recipe = asked.checkpoint, asked.out, asked.recipe
    check_out(checkpoint, out, goes_on=True)
    dataset = Dataset(asked.data, checkpoint, has_mels=asked.part == "flow")
    names = new_speakers(dataset, checkpoint)
    rows = rows_within(dataset, range(len(dataset)), recipe)
    if not rows:
        raise FinetuneError(f"{asked.data}: none of {len(dataset)} utterances passes the recipe's filter")
    held = dataset.held_out(HELD_SHARE, HELD_MOST) if len(rows) >= HELD_LEAST else []
    learned = [row for row in rows if row not in set(held)]
    task = task_of(asked, dataset, dataset.mean_embeddings(), seed)
    if asked.lora.rank:
        lora.inject(task.network, asked.lora)
    is_lm = asked.part == "llm"
    lengths = positions(dataset) if is_lm else dataset.num_frames.tolist()
    size = recipe.batch_tokens if is_lm else recipe.batch_frames
    shards = dataset.shard_of.tolist()
    settings = BatchSettings(size, recipe.accumulate, seed)
    plan = BatchPlan(learned, lengths, shards, settings, world_size())
    steps = plan.steps_in(recipe.epochs) if asked.steps is None else asked.steps
    examples = [(dataset.ids[row], lengths[row]) for row in learned]
    trainer = Trainer(
        task, out / STATE_FOLDER, train_settings(asked, steps, seed), run_identity(asked, examples)
    )
    held_batches = in_batches([row for row in rows if row in set(held)], lengths, size * trainer.world)
    yield from trainer.fit(trainer.planned(plan), held_batches)
    if trainer.is_main:
        finish(asked, trainer, {name: dataset.prompt_of(inner) for name, inner in names.items()})
    trainer.accelerator.end_training()


def task_of(asked: FineTuning, dataset: Dataset, embeddings: Mapping[str, Tensor], seed: int) -> Task:
    """The network with what it is to learn. Raises FinetuneError for a flow of CosyVoice 1."""
    if asked.part == "llm":
        lm = asked.checkpoint.load_lm()
        return LanguageModelTask(lm.requires_grad_(True), dataset, embeddings, seed)
    flow = asked.checkpoint.load_flow()
    if not isinstance(flow, Flow):
        raise FinetuneError(
            f"{asked.checkpoint.directory} is a CosyVoice 1, whose flow is not trained here; "
            "its language model is"
        )
    if asked.distil is not None:
        return DistilTask(flow, dataset, asked.distil, embeddings, seed)
    flow.requires_grad_(True)
    if is_solved_whole(flow.config.cfm):
        new, known = new_speakers(dataset, asked.checkpoint), asked.checkpoint.load_speakers()
        kept = [one for name, one in known.items() if name not in new]
        return SolvedFlowTask(flow, dataset, embeddings, seed, kept)
    return FlowTask(flow, dataset, embeddings, seed)


def train_settings(asked: FineTuning, steps: int, seed: int) -> TrainSettings:
    recipe = asked.recipe
    return TrainSettings(
        steps=steps,
        lr=recipe.lr,
        optimizer=recipe.optimizer,
        schedule=recipe.schedule,
        warmup=recipe.warmup,
        clip=recipe.clip,
        bf16=asked.bf16,
        recomputes=asked.recomputes,
        save_every=asked.save_every,
        average=asked.average,
        seed=seed,
    )


def run_identity(asked: FineTuning, examples: object) -> dict[str, Any]:
    """What a run that goes on must have in common with its beginning, beside its TrainSettings."""
    directory = asked.checkpoint.directory
    made_of = lm_fingerprint(directory) if asked.part == "llm" else token2wav_fingerprint(directory)
    return {
        "checkpoint": made_of,
        "part": asked.part,
        "lora": asdict(asked.lora),
        "distil": None if asked.distil is None else asdict(asked.distil),
        "batch_size": asked.recipe.batch_frames,
        "accumulate": asked.recipe.accumulate,
        "data": sha256(repr(examples).encode()).hexdigest(),
    }


def finish(asked: FineTuning, trainer: Trainer, speakers: Mapping[str, Any]) -> None:
    """Write the model directory, and beside the weights the adapter that made them."""
    network = trained_network(asked, trainer.averaged())
    write_result(asked.checkpoint, asked.out, {asked.part: network}, speakers)
    if asked.distil is not None:
        write_solver(asked.out, asked.distil.steps, 0.0)


def trained_network(asked: FineTuning, weights: dict[str, Tensor]) -> nn.Module:
    """The checkpoint's network with what was trained; an adapter is saved, and folded."""
    network: nn.Module = asked.checkpoint.load_lm() if asked.part == "llm" else asked.checkpoint.load_flow()
    if asked.lora.rank:
        lora.inject(network, asked.lora)
    load_weights(network, weights)
    if asked.lora.rank:
        folder = asked.out / ADAPTER_FOLDERS[asked.part]
        lora.save_adapter(folder, asked.part, lora.adapter_tensors(network), asked.lora)
        lora.fold(network)
    return network


def merge(directory: Path, adapters: list[Path], out: Path, scale: float = 1.0) -> None:
    """Write a checkpoint with adapters folded into its networks. Raises FinetuneError."""
    checkpoint = open_checkpoint(directory)
    check_out(checkpoint, out)
    networks: dict[Part, nn.Module] = {}
    for folder in adapters:
        given, settings, tensors = lora.read_adapter(folder)
        part: Part = "llm" if given == "llm" else "flow"
        if part not in networks:
            networks[part] = checkpoint.load_lm() if part == "llm" else checkpoint.load_flow()
        lora.load_adapter(networks[part], settings, tensors, folder)
        lora.fold(networks[part], scale)
    write_result(checkpoint, out, networks)


def check_out(checkpoint: Checkpoint, out: Path, goes_on: bool = False) -> None:
    """Raises FinetuneError where the result would be written over what it is made of, or over another model.

    goes_on: what a training has begun in the directory.
    """
    if out.resolve() == checkpoint.directory.resolve():
        raise FinetuneError(f"-o {out} is the checkpoint itself; give another directory")
    is_of_training = (out / STATE_FOLDER).is_dir()
    if is_of_training and goes_on:
        return
    if is_of_training or any((out / name).exists() for name in YAML_FILES):
        raise FinetuneError(f"-o {out} has another model in it, which would be lost; give another directory")


def in_batches(rows: list[int], lengths: list[int], size: int) -> list[list[int]]:
    """Rows by their lengths, in batches of so many padded positions."""
    batches: list[list[int]] = []
    for row in sorted(rows, key=lambda row: lengths[row]):
        if batches and (len(batches[-1]) + 1) * lengths[row] <= size:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def world_size() -> int:
    """Processes that torchrun or accelerate started."""
    return int(os.environ.get("WORLD_SIZE", "1"))
