"""Fine-tuning a flow that was distilled to a few steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from firstword.finetune.flow import FlowTask
from firstword.finetune.result import write_result, write_solver
from firstword.finetune.sft import FineTuning, recipe_in, task_of
from firstword.finetune.solved import SolvedFlowTask, distance, ends_of, energy_distance
from firstword.finetune.trainer import Trainer
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.frontend.speaker import SpeakerFeatures
from tests.finetune.runs import SETTINGS, fitted, flow_task
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import prepared


def distilled(family: Family, folder: Path, steps: int = 2) -> Path:
    """A small checkpoint whose yaml says that its flow was distilled."""
    write_result(open_checkpoint(small_checkpoint(family)), folder, {})
    write_solver(folder, steps, 0.0)
    return folder


def solved_task(model: Path, family: Family = "cosyvoice2", **other: Any) -> SolvedFlowTask:
    given = flow_task(prepared(family), family, model)
    return SolvedFlowTask(given.network, given._dataset, **other)


def speakers_of(model: Path) -> list[SpeakerFeatures]:
    return list(open_checkpoint(model).load_speakers().values())


def test_a_distilled_flow_is_trained_by_its_solve_and_others_by_their_velocity(tmp_path: Path) -> None:
    data = prepared("cosyvoice2")
    for model, kind in (
        (distilled("cosyvoice2", tmp_path / "two"), SolvedFlowTask),
        (distilled("cosyvoice2", tmp_path / "ten", steps=10), FlowTask),
        (small_checkpoint("cosyvoice2"), FlowTask),
    ):
        checkpoint = open_checkpoint(model)
        asked = FineTuning("flow", checkpoint, data, tmp_path / "out", recipe_in(checkpoint))
        task = task_of(asked, flow_task(data)._dataset, {}, 0)
        assert type(task) is kind


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_what_is_compared_is_what_is_served(family: Family, tmp_path: Path) -> None:
    task = solved_task(distilled(family, tmp_path), family)
    drawn = task.collate([3], 0)
    flow, given, frames = task.network, drawn.batch, 10
    draws = replace(drawn.draws, is_streaming=False, prompt_frames=torch.tensor([frames]))
    draws = replace(draws, noise=torch.stack([flow.noise[:, : given.mel.shape[1]], draws.noise[1]]))
    with torch.no_grad():
        ends = ends_of(flow, given, draws)
    tokens, prompt = given.tokens.split([given.tokens.shape[1] - frames // 2, frames // 2], dim=1)
    prompt, tokens = given.tokens[:, : frames // 2], given.tokens[:, frames // 2 :]
    served = flow(tokens, prompt, given.mel[:, :frames], given.embedding)
    torch.testing.assert_close(ends[:1, :, frames:], served, atol=1e-4, rtol=1e-4)
    assert not ends[1].equal(ends[0])


def test_a_spread_as_wide_as_the_recordings_costs_least() -> None:
    one, other, wanted = torch.randn(3, 2000, 8, 5, generator=torch.Generator().manual_seed(0))
    costs = [float(energy_distance(s * one, s * other, wanted).mean()) for s in (0.0, 0.5, 1.0, 1.5)]
    assert min(costs) == costs[2]
    blurred = [float(distance(s * one, wanted).mean()) for s in (0.0, 0.5, 1.0, 1.5)]
    assert min(blurred) == blurred[0]  # which a distance alone would teach


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    task = solved_task(distilled("cosyvoice2", tmp_path / "model"))
    settings = replace(SETTINGS, steps=12, lr=3e-3, save_every=100)
    _, reports = fitted(task, tmp_path / "out", settings, size=10_000)
    losses = [report.values["loss"] for report in reports]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])


def test_speakers_of_the_checkpoint_stay_nearer_to_what_they_were(tmp_path: Path) -> None:
    model = distilled("cosyvoice2", tmp_path / "model")
    settings = replace(SETTINGS, steps=8, lr=3e-3, save_every=100)
    moved = []
    for name, kept in (("kept", speakers_of(model)), ("free", [])):
        task = solved_task(model, kept=kept)
        fitted(task, tmp_path / name, settings, size=10_000)
        judge = solved_task(model, kept=speakers_of(model))
        judge.network.load_state_dict(task.network.state_dict())
        with torch.no_grad():
            moved.append(float(judge(judge.collate([0, 1, 2, 3], 99)).metrics["kept"]))
    assert 0 < moved[0] < 0.7 * moved[1]


def test_what_is_kept_is_said_behind_the_speakers_prompt(tmp_path: Path) -> None:
    speakers = speakers_of(distilled("cosyvoice2", tmp_path))[:1]
    task = solved_task(tmp_path, kept=speakers)
    kept = task.collate([0, 1, 2], 0).kept
    assert kept is not None
    length = len(speakers[0].prompt_tokens)
    assert kept.draws.prompt_frames.tolist() == [2 * length] * 2  # of every second row
    assert kept.batch.tokens[0, :length].equal(speakers[0].prompt_tokens)
    assert kept.batch.embedding[0].equal(speakers[0].embedding)
    assert kept.batch.tokens[1, length] == task._dataset.read(2).speech_ids[0]
    with torch.no_grad():
        assert float(task(task.collate([0, 1, 2], 0)).metrics["kept"]) == pytest.approx(
            1e-4
        )  # nothing moved yet


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    model = distilled("cosyvoice2", tmp_path / "model")

    def fit(folder: str, stop: int | None = None) -> tuple[Trainer, SolvedFlowTask]:
        task = solved_task(model, kept=speakers_of(model))
        return fitted(task, tmp_path / folder, stop=stop)[0], task

    whole = fit("whole")[1]
    fit("cut", stop=4)
    rest = fit("cut")[1]
    for name, value in whole.network.state_dict().items():
        assert value.equal(rest.network.state_dict()[name]), name
