"""Fine-tuning from prepared data to a directory that opens."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.finetune import lora, result, sft
from firstword.finetune.distil import DistilSettings, DistilTask
from firstword.finetune.errors import FinetuneError
from firstword.finetune.lora import LoraSettings
from firstword.finetune.prepare import PrepareSettings, prepare
from firstword.finetune.recipe import recipe_of
from firstword.finetune.result import Part, with_solver
from firstword.finetune.sft import FineTuning, fine_tune, merge, recipe_in
from firstword.finetune.sources import find_sources
from firstword.models.checkpoint import yaml
from firstword.models.checkpoint.open import QWEN2_CONFIG_FILE, open_checkpoint
from firstword.models.config import ESTIMATOR_FILE, Family
from firstword.models.flow.flow import Flow
from tests.finetune.runs import SETTINGS, fitted, flow_task
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import prepared, write_recordings

LORA = LoraSettings(rank=4)


def asked(part: Part, family: Family, out: Path, **other: Any) -> FineTuning:
    checkpoint = open_checkpoint(small_checkpoint(family))
    recipe = replace(recipe_in(checkpoint), lr=1e-2, batch_frames=600, accumulate=1)
    return FineTuning(part, checkpoint, prepared(family), out, recipe, steps=4, save_every=2, **other)


def weights(directory: Path, part: Part) -> dict[str, Tensor]:
    opened = open_checkpoint(directory)
    network: Any = opened.load_lm() if part == "llm" else opened.load_flow()
    return dict(network.state_dict())


def equal(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return all(value.equal(second[name]) for name, value in first.items())


@pytest.mark.parametrize(
    ("part", "family"),
    [
        ("llm", "cosyvoice1"),
        ("llm", "cosyvoice2"),
        ("llm", "cosyvoice3"),
        ("flow", "cosyvoice2"),
        ("flow", "cosyvoice3"),
    ],
)
def test_the_result_is_a_checkpoint_with_the_new_speaker(part: Part, family: Family, tmp_path: Path) -> None:
    reports = list(fine_tune(asked(part, family, tmp_path / "out")))
    assert [report.step for report in reports] == [1, 2, 3, 4]
    opened = open_checkpoint(tmp_path / "out")
    before = open_checkpoint(small_checkpoint(family)).load_speakers()
    assert list(opened.load_speakers()) == [*before, "ann"]
    assert opened.load_speakers()["ann"].has_prompt
    assert not equal(weights(tmp_path / "out", part), weights(small_checkpoint(family), part))
    other: Part = "flow" if part == "llm" else "llm"
    assert equal(weights(tmp_path / "out", other), weights(small_checkpoint(family), other))


@pytest.mark.parametrize(("part", "family"), [("llm", "cosyvoice2"), ("flow", "cosyvoice3")])
def test_an_adapter_merges_into_the_same_checkpoint(part: Part, family: Family, tmp_path: Path) -> None:
    out, again = tmp_path / "out", tmp_path / "again"
    list(fine_tune(asked(part, family, out, lora=LORA)))
    merge(small_checkpoint(family), [out / f"adapter-{part}"], again)
    first, second, before = weights(out, part), weights(again, part), weights(small_checkpoint(family), part)
    for name, value in first.items():
        torch.testing.assert_close(value, second[name])
    changed = {name for name, value in before.items() if not value.equal(first[name])}
    assert changed
    assert all(".attention." in name or ".mlp." in name or ".feedforward." in name for name in changed)
    merge(small_checkpoint(family), [out / f"adapter-{part}"], tmp_path / "none", scale=0.0)
    none = weights(tmp_path / "none", part)
    for name, value in before.items():
        torch.testing.assert_close(value, none[name])


def test_the_other_network_goes_on_with_the_same_data(tmp_path: Path) -> None:
    list(fine_tune(asked("flow", "cosyvoice2", tmp_path / "flow")))
    second = replace(
        asked("llm", "cosyvoice2", tmp_path / "voice"), checkpoint=open_checkpoint(tmp_path / "flow")
    )
    list(fine_tune(second))
    assert "ann" in open_checkpoint(tmp_path / "voice").load_speakers()
    assert equal(weights(tmp_path / "flow", "flow"), weights(tmp_path / "voice", "flow"))


def test_a_name_that_somebody_else_has_is_refused(tmp_path: Path) -> None:
    given = asked("llm", "cosyvoice2", tmp_path / "out")
    taken = next(iter(given.checkpoint.load_speakers()))
    recordings = write_recordings(tmp_path / "recordings", 3, taken)
    settings = PrepareSettings(given.checkpoint.directory, "en")
    for _ in prepare(find_sources(recordings), tmp_path / "data", settings):
        pass
    with pytest.raises(FinetuneError, match=r"is in .* already; prepare it with another name"):
        list(fine_tune(replace(given, data=tmp_path / "data")))


def test_an_adapter_of_another_network_is_refused(tmp_path: Path) -> None:
    list(fine_tune(asked("llm", "cosyvoice2", tmp_path / "out", lora=LORA)))
    with pytest.raises(FinetuneError, match="trained on another network"):
        merge(small_checkpoint("cosyvoice1"), [tmp_path / "out" / "adapter-llm"], tmp_path / "again")
    with pytest.raises(FinetuneError, match="no adapter"):
        merge(small_checkpoint("cosyvoice2"), [tmp_path], tmp_path / "again")


def test_what_cannot_be_merged_writes_nothing(tmp_path: Path) -> None:
    list(fine_tune(asked("llm", "cosyvoice2", tmp_path / "out", lora=LORA)))
    adapters = [tmp_path / "out" / "adapter-llm", tmp_path / "none"]
    with pytest.raises(FinetuneError, match="no adapter"):
        merge(small_checkpoint("cosyvoice2"), adapters, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_a_merge_writes_over_no_other_model(tmp_path: Path) -> None:
    out, another = tmp_path / "out", tmp_path / "another"
    list(fine_tune(asked("llm", "cosyvoice2", out, lora=LORA)))
    shutil.copytree(small_checkpoint("cosyvoice2"), another)
    before = [weights(one, "llm") for one in (out, another)]
    for taken in (out, another):
        with pytest.raises(FinetuneError, match="has another model in it, which would be lost"):
            merge(small_checkpoint("cosyvoice2"), [out / "adapter-llm"], taken)
    assert all(map(equal, before, (weights(out, "llm"), weights(another, "llm"))))


def test_a_merge_that_a_full_disk_ended_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    list(fine_tune(asked("llm", "cosyvoice2", tmp_path / "out", lora=LORA)))
    given = small_checkpoint("cosyvoice2"), [tmp_path / "out" / "adapter-llm"], tmp_path / "again"
    with monkeypatch.context() as patch:
        patch.setattr(result, "save_file", full)
        with pytest.raises(FinetuneError, match="make room, and run the same command again"):
            merge(*given)
    merge(*given)
    assert equal(weights(tmp_path / "again", "llm"), weights(tmp_path / "out", "llm"))


def test_a_full_disk_leaves_the_yaml_before(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = shutil.copytree(small_checkpoint("cosyvoice2"), tmp_path / "out")
    before = (out / "cosyvoice2.yaml").read_bytes()
    request.getfixturevalue("_full_disk")
    with pytest.raises(
        FinetuneError, match=r"out cannot be written: .*; make room, and run the same command"
    ):
        result.write_solver(out, 2, 0.0)
    assert (out / "cosyvoice2.yaml").read_bytes() == before


def test_an_adapter_is_written_whole_or_not_at_all(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    before = {"layer.lora_A.default.weight": torch.zeros(4, 2)}
    lora.save_adapter(tmp_path, "llm", before, LORA)
    request.getfixturevalue("_full_disk")
    with pytest.raises(FinetuneError, match="cannot be written"):
        lora.save_adapter(tmp_path, "flow", {name: value + 1 for name, value in before.items()}, LORA)
    network, settings, tensors = lora.read_adapter(tmp_path)
    assert (network, settings) == ("llm", LORA)
    assert equal(before, tensors)
    assert len(list(tmp_path.iterdir())) == 2


def test_adapters_of_both_networks_merge_at_once(tmp_path: Path) -> None:
    llm, flow, base = tmp_path / "llm", tmp_path / "flow", tmp_path / "base"
    list(fine_tune(asked("llm", "cosyvoice2", llm, lora=LORA)))
    list(fine_tune(asked("flow", "cosyvoice2", flow, lora=LORA)))
    shutil.copytree(small_checkpoint("cosyvoice2"), base)
    (base / ESTIMATOR_FILE).write_bytes(b"of the flow before")
    merge(base, [llm / "adapter-llm", flow / "adapter-flow"], tmp_path / "both")
    assert equal(weights(tmp_path / "both", "llm"), weights(llm, "llm"))
    assert equal(weights(tmp_path / "both", "flow"), weights(flow, "flow"))
    assert not (tmp_path / "both" / ESTIMATOR_FILE).exists()
    assert (base / ESTIMATOR_FILE).exists()


def test_a_run_that_was_asked_for_otherwise_is_refused(tmp_path: Path) -> None:
    given = asked("llm", "cosyvoice2", tmp_path, lora=LORA)
    next(fine_tune(given))
    other_checkpoint = tmp_path / "other"
    shutil.copytree(given.checkpoint.directory, other_checkpoint)
    with (other_checkpoint / QWEN2_CONFIG_FILE).open("a") as file:
        file.write("\n")
    others: dict[str, FineTuning] = {
        "checkpoint": replace(given, checkpoint=open_checkpoint(other_checkpoint)),
        "lora": replace(given, lora=LoraSettings()),
        "part": replace(given, part="flow"),
        "accumulate": replace(given, recipe=replace(given.recipe, accumulate=2)),
        "data": replace(given, data=prepared("cosyvoice2", 8)),
    }
    for name, other in others.items():
        with pytest.raises(FinetuneError, match=rf"other settings \(.*{name}"):
            next(fine_tune(other))


def test_the_best_states_are_averaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sft, "HELD_LEAST", 1)
    monkeypatch.setattr(sft, "HELD_SHARE", 0.25)
    given = replace(asked("llm", "cosyvoice2", tmp_path / "out", average=2), steps=6)
    held = {report.step: report.held for report in fine_tune(given) if report.held is not None}
    assert set(held) == {2, 4, 6}
    best = sorted(held, key=lambda step: held[step])[:2]
    kept = {path.name for path in (tmp_path / "out" / "training").glob("weights-*.pt")}
    assert kept == {f"weights-{step}.pt" for step in best}
    parts = [
        torch.load(tmp_path / "out" / "training" / name, weights_only=True)["weights"]["network.head.weight"]
        for name in kept
    ]
    averaged = weights(tmp_path / "out", "llm")["head.weight"]
    torch.testing.assert_close(averaged, sum(parts) / 2)


def test_another_model_is_not_written_over(tmp_path: Path) -> None:
    shutil.copytree(small_checkpoint("cosyvoice3"), tmp_path / "other")
    before = {path.name: path.read_bytes() for path in (tmp_path / "other").iterdir() if path.is_file()}
    with pytest.raises(FinetuneError, match="other has another model in it"):
        list(fine_tune(asked("llm", "cosyvoice2", tmp_path / "other")))
    after = {path.name: path.read_bytes() for path in (tmp_path / "other").iterdir() if path.is_file()}
    assert after == before


def test_what_cannot_be_trained_is_said(tmp_path: Path) -> None:
    with pytest.raises(FinetuneError, match="CosyVoice 1, whose flow is not trained"):
        list(fine_tune(asked("flow", "cosyvoice1", tmp_path / "out")))
    with pytest.raises(FinetuneError, match="is the checkpoint itself"):
        list(fine_tune(asked("llm", "cosyvoice2", small_checkpoint("cosyvoice2"))))
    other = replace(asked("llm", "cosyvoice2", tmp_path / "out"), data=prepared("cosyvoice3"))
    with pytest.raises(FinetuneError, match="prepared with a cosyvoice3"):
        list(fine_tune(other))
    nowhere = replace(asked("llm", "cosyvoice2", tmp_path / "out"), data=tmp_path)
    with pytest.raises(FinetuneError, match="run `firstword train prepare"):
        list(fine_tune(nowhere))


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_a_distilled_flow_comes_nearer_to_its_teacher(family: Family, tmp_path: Path) -> None:
    data = prepared(family)
    given = flow_task(data, family)
    task = DistilTask(given.network, given._dataset, DistilSettings(steps=2, teacher_steps=4))
    frozen = {n: v.clone() for n, v in task.network.state_dict().items() if not n.startswith("estimator.")}
    settings = replace(SETTINGS, steps=12, lr=3e-3, save_every=100)
    _, reports = fitted(task, tmp_path, settings, size=10_000)
    losses = [report.values["end"] for report in reports]
    assert sum(losses[-3:]) < 0.9 * sum(losses[:3])
    for name, value in frozen.items():
        assert value.equal(task.network.state_dict()[name])


def test_the_distilled_checkpoint_solves_in_its_steps(tmp_path: Path) -> None:
    given = asked("flow", "cosyvoice2", tmp_path / "out", distil=DistilSettings(steps=2))
    list(fine_tune(replace(given, steps=2)))
    cfm = open_checkpoint(tmp_path / "out").config.flow.cfm
    assert (cfm.num_steps, cfm.inference_cfg_rate) == (2, 0.0)
    assert isinstance(open_checkpoint(tmp_path / "out").load_flow(), Flow)


def test_a_yaml_without_guidance_is_refused() -> None:
    with pytest.raises(FinetuneError, match="no single inference_cfg_rate"):
        with_solver("flow: 1\n", 2, 0.0)


def test_the_yaml_tells_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "cosyvoice2.yaml"
    path.write_text(
        "train_conf:\n    optim: lion\n    optim_conf:\n        lr: 1e-3\n        eps: 1.0\n"
        "    scheduler: warmuplr\n    scheduler_conf:\n        warmup_steps: 100\n    accum_grad: 3\n"
        "    ema: True\nbatch: !name:cosyvoice.dataset.processor.batch\n    batch_type: 'dynamic'\n"
        "    max_frames_in_batch: 1000\n"
    )
    recipe = recipe_of(yaml.read(path))
    assert (recipe.optimizer, recipe.lr, recipe.schedule, recipe.warmup) == ("adam", 1e-3, "warmup", 100)
    assert (recipe.accumulate, recipe.batch_frames, recipe.batch_tokens) == (3, 1000, 500)
    assert recipe.unfollowed == (
        "train_conf.optim lion: Adam is used",
        "train_conf.ema",
        "train_conf.optim_conf.eps",
    )
