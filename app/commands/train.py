"""`firstword train`: prepare data, fine-tune, prefer, reward and distil a checkpoint."""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from firstword.app.commands.console import CommandFailed, to_stderr, to_stdout
from firstword.app.commands.reward import device, training_errors

if TYPE_CHECKING:
    from firstword.finetune.recipe import Recipe
    from firstword.finetune.sft import FineTuning
    from firstword.finetune.trainer import StepReport

LINE_EVERY_S = 30  # where no bar can be drawn

train = typer.Typer(name="train", help="Teach a checkpoint: docs/fine-tuning.md.")

Checkpoint = Annotated[Path, typer.Argument(help="Model directory of CosyVoice 1, 2 or 3.")]
Data = Annotated[Path, typer.Argument(help="Folder that `firstword train prepare` wrote.")]
Out = Annotated[Path, typer.Option("--output", "-o", help="Directory of the result; a run there goes on.")]
Steps = Annotated[
    int | None, typer.Option(min=1, help="Of the optimizer; all epochs of the yaml if left out.")
]
Rate = Annotated[float | None, typer.Option("--lr", help="Learning rate; the yaml's if left out.")]
Schedule = Annotated[str | None, typer.Option(help="constant, warmup or cosine; the yaml's if left out.")]
Warmup = Annotated[int | None, typer.Option(min=0, help="Steps in which the rate rises.")]
Size = Annotated[
    int | None, typer.Option(min=1, help="Padded positions of a batch: tokens, of a flow frames.")
]
Accumulate = Annotated[int | None, typer.Option(min=1, help="Batches of a step.")]
Rank = Annotated[int, typer.Option("--lora", min=0, help="Rank of LoRA; 0 trains the network itself.")]
Alpha = Annotated[int, typer.Option("--lora-alpha", min=1, help="Scale of LoRA, over its rank.")]
Half = Annotated[bool, typer.Option("--bf16", help="Compute in bfloat16.")]
Recompute = Annotated[bool, typer.Option("--recompute", help="Keep fewer activations, compute them twice.")]
SaveEvery = Annotated[int, typer.Option(min=1, help="Steps between states that a run can go on from.")]
Average = Annotated[int, typer.Option(min=1, help="How many of the best states are averaged at the end.")]
Seed = Annotated[int, typer.Option(min=0, help="Of all that is drawn.")]


@train.command()
def prepare(
    data: Annotated[Path, typer.Argument(help="LJSpeech, LibriTTS, .jsonl, or a folder of pairs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the shards and the report.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Whose tokens they become; the built-in voice.")
    ] = None,
    speaker: Annotated[str | None, typer.Option(help="Who says what names no speaker.")] = None,
    language: Annotated[str | None, typer.Option(help="Such as en or zh; detected if left out.")] = None,
    instruct: Annotated[str | None, typer.Option(help="Of CosyVoice 3: before every text.")] = None,
    recognizer: Annotated[
        str | None,
        typer.Option(help="Finds texts that do not fit: pocketsphinx, faster-whisper:DIR, sensevoice:DIR."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
) -> None:
    """Turn recordings with texts into tokens, mels and embeddings. Run again, it goes on."""
    with training_errors():
        import json

        from rich.progress import Progress

        from firstword.app.options import BUILTIN_CHECKPOINT
        from firstword.finetune.prepare import REPORT_FILE, PrepareSettings
        from firstword.finetune.prepare import prepare as prepare_all
        from firstword.finetune.sources import find_sources

        sources = find_sources(data, speaker)
        settings = PrepareSettings(checkpoint or BUILTIN_CHECKPOINT, language, instruct, recognizer, workers)
        with Progress(console=to_stderr()) as progress:
            bar = progress.add_task("preparing", total=len(sources))
            for at in prepare_all(sources, output, settings):
                progress.update(bar, completed=at.done)
        report = json.loads((output / REPORT_FILE).read_text(encoding="utf-8"))
        to_stdout().print(
            f"{report['utterances']} utterances, {report['hours']:.2f} h, {len(report['speakers'])} "
            f"speakers; {len(report['skipped'])} skipped, {len(report['suspects'])} suspects, "
            f"{len(report['duplicates'])} duplicates: {output / REPORT_FILE}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


@train.command()
def lm(
    checkpoint: Checkpoint,
    data: Data,
    output: Out,
    steps: Steps = None,
    lr: Rate = None,
    schedule: Schedule = None,
    warmup: Warmup = None,
    batch_size: Size = None,
    accumulate: Accumulate = None,
    lora: Rank = 0,
    lora_alpha: Alpha = 32,
    bf16: Half = False,
    recompute: Recompute = False,
    save_every: SaveEvery = 500,
    average: Average = 5,
    seed: Seed = 0,
) -> None:
    """Fine-tune a language model: text to speech tokens."""
    with training_errors():
        asked = _asked("llm", checkpoint, data, output)
        recipe = _recipe(asked, batch_size, lr, schedule, warmup, accumulate)
        _fine_tune(
            _with(asked, recipe, steps, (lora, lora_alpha), (bf16, recompute), (save_every, average)), seed
        )


@train.command()
def flow(
    checkpoint: Checkpoint,
    data: Data,
    output: Out,
    steps: Steps = None,
    lr: Rate = None,
    schedule: Schedule = None,
    warmup: Warmup = None,
    batch_size: Size = None,
    accumulate: Accumulate = None,
    lora: Rank = 0,
    lora_alpha: Alpha = 32,
    distil: Annotated[
        int | None, typer.Option(min=1, max=8, help="Solver steps to teach it, without guidance.")
    ] = None,
    teacher_steps: Annotated[int, typer.Option(min=0, help="Of the flow that teaches; 0: its own.")] = 0,
    bf16: Half = False,
    recompute: Recompute = False,
    save_every: SaveEvery = 500,
    average: Average = 5,
    seed: Seed = 0,
) -> None:
    """Fine-tune a flow of CosyVoice 2 or 3: speech tokens to mel; or distil it to fewer steps."""
    with training_errors():
        from firstword.finetune.distil import DistilSettings

        asked = _asked("flow", checkpoint, data, output)
        recipe = _recipe(asked, batch_size, lr, schedule, warmup, accumulate)
        asked = _with(asked, recipe, steps, (lora, lora_alpha), (bf16, recompute), (save_every, average))
        if distil is not None:
            asked = replace(asked, distil=DistilSettings(distil, teacher_steps))
        _fine_tune(asked, seed)


@train.command()
def dpo(
    checkpoint: Checkpoint,
    pairs: Annotated[Path, typer.Argument(help=".jsonl of {text, chosen, rejected}: recordings or tokens.")],
    output: Out,
    beta: Annotated[float, typer.Option(min=0, help="How fast a margin counts as enough.")] = 0.01,
    steps: Steps = None,
    lr: Rate = None,
    schedule: Schedule = None,
    warmup: Warmup = None,
    batch_size: Size = None,
    accumulate: Accumulate = None,
    lora: Rank = 0,
    lora_alpha: Alpha = 32,
    bf16: Half = False,
    recompute: Recompute = False,
    save_every: SaveEvery = 500,
    average: Average = 5,
    seed: Seed = 0,
) -> None:
    """Teach a language model of CosyVoice 2 or 3 which of two utterances is the better one."""
    with training_errors():
        from firstword.finetune.dpo import prefer

        asked = _asked("llm", checkpoint, pairs, output)
        recipe = _recipe(asked, batch_size, lr, schedule, warmup, accumulate)
        asked = _with(asked, recipe, steps, (lora, lora_alpha), (bf16, recompute), (save_every, average))
        show(prefer(asked, beta, seed), output)


@train.command()
def grpo(
    checkpoint: Checkpoint,
    texts: Annotated[Path, typer.Argument(help="Texts to say, one a line.")],
    output: Out,
    steps: Annotated[int, typer.Option(min=1, help="Of the optimizer.")],
    speaker: Annotated[
        str | None, typer.Option(help="Who says them; the default speaker if left out.")
    ] = None,
    group: Annotated[int, typer.Option(min=2, help="Utterances of a text.")] = 8,
    texts_per_step: Annotated[int, typer.Option(min=1, help="Of each process.")] = 4,
    kl: Annotated[float, typer.Option(min=0, help="Weight of the divergence from the checkpoint.")] = 0.02,
    temperature: Annotated[float, typer.Option(min=0.05, help="Of the sampling.")] = 1.0,
    reward_url: Annotated[
        str | None, typer.Option(help="Of `firstword reward`; without it, rewards are computed here.")
    ] = None,
    recognizer: Annotated[
        str, typer.Option(help="pocketsphinx, faster-whisper:DIR, sensevoice:DIR.")
    ] = "pocketsphinx",
    language: Annotated[str, typer.Option(help="Of the texts.")] = "en",
    lr: Rate = None,
    batch_size: Size = None,
    lora: Rank = 0,
    lora_alpha: Alpha = 32,
    bf16: Half = False,
    recompute: Recompute = False,
    save_every: SaveEvery = 50,
    seed: Seed = 0,
) -> None:
    """Teach a language model by rewards of what it says."""
    with training_errors():
        from firstword.finetune.grpo import GrpoSettings, reinforce
        from firstword.finetune.reward.rewarder import Rewarder
        from firstword.finetune.reward.server import RemoteRewarder

        asked = _asked("llm", checkpoint, texts, output)
        recipe = _recipe(asked, batch_size, lr)
        asked = _with(asked, recipe, steps, (lora, lora_alpha), (bf16, recompute), (save_every, 1))
        scorer = (
            Rewarder(asked.checkpoint, _rewards(recognizer, language), device())
            if reward_url is None
            else RemoteRewarder.at(reward_url)
        )
        settings = GrpoSettings(group, texts_per_step, kl, temperature, speaker)
        show(reinforce(asked, settings, scorer, seed), output)


def _rewards(recognizer: str, language: str) -> Any:
    from firstword.finetune.reward.rewarder import RewardSettings

    unit = "characters" if language in ("zh", "ja", "yue") else "words"
    return RewardSettings(recognizer, language, unit)  # type: ignore[arg-type]


@train.command()
def merge(
    checkpoint: Checkpoint,
    adapters: Annotated[list[Path], typer.Argument(help="Folders adapter-llm or adapter-flow.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="A new model directory.")],
    scale: Annotated[float, typer.Option(help="How much of them is added.")] = 1.0,
) -> None:
    """Fold LoRA adapters into the networks of a checkpoint."""
    with training_errors():
        from firstword.finetune.sft import merge as fold_all

        fold_all(checkpoint, adapters, output, scale)
        to_stdout().print(f"{output}: a model directory", markup=False, highlight=False, soft_wrap=True)


def _asked(part: Any, checkpoint: Path, data: Path, output: Path) -> "FineTuning":
    from firstword.finetune.sft import FineTuning, recipe_in
    from firstword.models.checkpoint.open import open_checkpoint

    opened = open_checkpoint(checkpoint)
    return FineTuning(part, opened, data, output, recipe_in(opened))


def _recipe(
    asked: "FineTuning",
    batch_size: int | None,
    lr: float | None,
    schedule: str | None = None,
    warmup: int | None = None,
    accumulate: int | None = None,
) -> "Recipe":
    """Return the yaml's recipe with what was given on the command line; name what of it is not followed.

    batch_size: speech tokens of a language model, frames of a flow.
    """
    from firstword.models.config import FRAMES_PER_TOKEN

    recipe = asked.recipe
    if batch_size is not None:
        size = batch_size * (FRAMES_PER_TOKEN if asked.part == "llm" else 1)
        recipe = replace(recipe, batch_frames=size)
    match schedule:
        case "constant" | "warmup" | "cosine":
            recipe = replace(recipe, schedule=schedule)
        case str():
            raise CommandFailed(f"--schedule {schedule!r}; expected constant, warmup or cosine")
    for name in recipe.unfollowed:
        to_stderr().print(f"the yaml's {name}: not followed", style="yellow", markup=False, highlight=False)
    return replace(
        recipe,
        lr=recipe.lr if lr is None else lr,
        warmup=recipe.warmup if warmup is None else warmup,
        accumulate=recipe.accumulate if accumulate is None else accumulate,
    )


def _with(
    asked: "FineTuning",
    recipe: "Recipe",
    steps: int | None,
    lora: tuple[int, int],
    computing: tuple[bool, bool],
    saving: tuple[int, int],
) -> "FineTuning":
    from firstword.finetune.lora import LoraSettings

    return replace(
        asked,
        recipe=recipe,
        steps=steps,
        lora=LoraSettings(*lora),
        bf16=computing[0],
        recomputes=computing[1],
        save_every=saving[0],
        average=saving[1],
    )


def _fine_tune(asked: "FineTuning", seed: int) -> None:
    from firstword.finetune.sft import fine_tune

    show(fine_tune(asked, seed), asked.out)


def show(reports: "Iterator[StepReport]", out: Path) -> None:
    """Draw a bar of the steps on a terminal, elsewhere print a line every half minute; and each held loss."""
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = to_stderr()
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("training", total=None, note="")
        printed_s = -math.inf
        for report in reports:
            values = {**report.values, **({} if report.held is None else {"held": report.held})}
            note = "  ".join(f"{name} {value:.4g}" for name, value in values.items())
            progress.update(bar, completed=report.step, note=note)
            is_due = not console.is_terminal and time.monotonic() - printed_s > LINE_EVERY_S
            if report.held is not None or is_due:
                printed_s = time.monotonic()
                console.print(f"step {report.step}: {note}", markup=False, highlight=False)
    to_stdout().print(f"{out}: a model directory", markup=False, highlight=False, soft_wrap=True)
