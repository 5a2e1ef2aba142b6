"""DPO and GRPO on small networks."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from firstword.finetune import dpo
from firstword.finetune.dpo import REFERENCE_FILE, PreferenceTask, prefer
from firstword.finetune.errors import FinetuneError
from firstword.finetune.grpo import (
    GrpoSettings,
    GrpoTask,
    Rollouts,
    Speaking,
    advantages_of,
    reinforce,
)
from firstword.finetune.lora import LoraSettings
from firstword.finetune.losses import sequence_scores, teacher_forced
from firstword.finetune.reward.rewarder import RewardItem, Score
from firstword.finetune.sft import FineTuning, recipe_in
from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Family
from firstword.models.lm.plan import IGNORED
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import write_recordings


def asked(data: Path, out: Path, family: Family = "cosyvoice2", **other: Any) -> FineTuning:
    checkpoint = open_checkpoint(small_checkpoint(family))
    recipe = replace(recipe_in(checkpoint), lr=3e-3, batch_frames=2000, accumulate=1)
    return FineTuning("llm", checkpoint, data, out, recipe, save_every=4, average=1, **other)


def pairs_file(folder: Path, count: int = 10) -> Path:
    """What is chosen goes up by one, what is rejected goes down."""
    path = folder / "pairs.jsonl"
    lines = []
    for number in range(count):
        start = 100 * number + 500
        up, down = list(range(start, start + 12)), list(range(start, start - 12, -1))
        lines.append(json.dumps({"text": "Hello there.", "chosen": up, "rejected": down}))
    path.write_text("\n".join(lines) + "\n")
    return path


def test_preferences_raise_the_margin(tmp_path: Path) -> None:
    given = asked(pairs_file(tmp_path), tmp_path / "out", steps=12)
    reports = list(prefer(given, beta=0.1))
    margins = [report.values["margin"] for report in reports]
    assert margins[0] == pytest.approx(0, abs=1e-5)  # the network is its own reference
    assert margins[-1] > 0.05
    assert reports[-1].values["preference"] < reports[0].values["preference"]
    assert open_checkpoint(tmp_path / "out").load_lm() is not None


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (
            {"text": "Hello.", "chosen": [1, 2], "rejected": [3, 1_000_000]},
            "line 1 of the pairs: speech token",
        ),
        ({"text": 5, "chosen": [1, 2], "rejected": [3]}, "pairs.jsonl:1: expected an object"),
    ],
)
def test_a_pair_that_is_none_is_named(pair: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(pair))
    with pytest.raises(FinetuneError, match=words):
        next(prefer(asked(path, tmp_path / "out", steps=1)))


def test_the_reference_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, out = pairs_file(tmp_path), tmp_path / "out"
    first = []
    for report in prefer(asked(data, out, steps=8)):
        first.append(report)
        if report.step == 5:
            break  # saved at 4
    kept = torch.load(out / "training" / REFERENCE_FILE, weights_only=True)["scores"]
    monkeypatch.setattr(PreferenceTask, "compute_reference", lambda self: pytest.fail("computed again"))
    rest = list(prefer(asked(data, out, steps=8)))
    assert [report.step for report in rest] == [5, 6, 7, 8]
    assert rest[0].values == first[-1].values
    assert kept.shape == (2, 10)


def test_a_reference_is_written_whole_or_not_at_all(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    given = asked(pairs_file(tmp_path), tmp_path / "out", steps=1)
    request.getfixturevalue("_full_disk")
    with pytest.raises(FinetuneError, match=rf"{REFERENCE_FILE} cannot be written: .*; run the same command"):
        next(prefer(given))
    assert list((tmp_path / "out" / "training").iterdir()) == []


def test_recordings_are_pairs_too_and_damaged_ones_are_left_out(tmp_path: Path) -> None:
    write_recordings(tmp_path, 2)
    (tmp_path / "bad.wav").write_bytes(b"nothing")
    path = tmp_path / "pairs.jsonl"
    good = {"text": "Hello.", "chosen": "ann/000.wav", "rejected": "ann/001.wav"}
    path.write_text("\n".join(map(json.dumps, [good, {**good, "rejected": "bad.wav"}])))
    list(prefer(asked(path, tmp_path / "out", steps=1)))
    assert "pairs.jsonl:2: the upload" in (tmp_path / "out" / "left-out.txt").read_text()
    path.write_text('{"text": "Hello."}')
    with pytest.raises(FinetuneError, match=r"pairs.jsonl:1: expected an object"):
        list(prefer(asked(path, tmp_path / "other", steps=1)))


def test_cosyvoice1_learns_no_preferences(tmp_path: Path) -> None:
    with pytest.raises(FinetuneError, match="preferences are learned by 2 and 3"):
        list(prefer(asked(pairs_file(tmp_path), tmp_path / "out", "cosyvoice1", steps=1)))


def test_advantages_are_within_a_group() -> None:
    found = advantages_of([1.0, 3.0, 5.0, 5.0], 2)
    assert found.tolist() == pytest.approx([-1, 1, 0, 0])
    alike = advantages_of([0.97, 0.98], 2)  # both were heard right
    assert alike.tolist() == pytest.approx([-0.05, 0.05], abs=1e-5)


class LowTokens:
    """Likes small tokens and utterances that end."""

    def score(self, items: Sequence[RewardItem]) -> list[Score]:
        scores = []
        for item in items:
            share = float(np.mean([token < 3000 for token in item.tokens])) if item.tokens else 0.0
            scores.append(Score(share, 1 - share, "", len(item.tokens) / 25, None))
        return scores


def test_a_few_steps_raise_the_reward(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("Hi.\n")
    given = asked(texts, tmp_path / "out", steps=8)
    given = replace(given, recipe=replace(given.recipe, lr=0.03))
    reports = list(reinforce(given, GrpoSettings(group=8, texts=1, kl=0.0), LowTokens()))
    rewards = [report.values["reward"] for report in reports]
    assert np.mean(rewards[-2:]) > np.mean(rewards[:2]) + 0.1
    assert open_checkpoint(tmp_path / "out").load_lm() is not None


def test_cosyvoice1_and_adapters_are_reinforced_too(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("Hi.\n")
    given = asked(texts, tmp_path / "out", "cosyvoice1", steps=1, lora=LoraSettings(4))
    (report,) = reinforce(given, GrpoSettings(group=2, texts=1), LowTokens())
    assert 0 < report.values["reward"] < 1
    assert (tmp_path / "out" / "adapter-llm").is_dir()


def test_what_was_sampled_is_scored_as_it_was_drawn() -> None:
    """The layout's targets are the tokens, and the decoder drew each from the network's distribution."""
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice3"))
    network = checkpoint.load_lm()
    speaking = Speaking(checkpoint, GrpoSettings())
    sampled = speaking.say(network, ["Hello."] * 3, [1, 2, 3])
    assert len({one.tokens for one in sampled}) == 3
    for one in sampled:
        learned = [target for target in one.layout.targets if target != IGNORED]
        assert tuple(learned[: len(one.tokens)]) == one.tokens
        assert len(learned) == len(one.tokens) + one.has_ended
    again = speaking.say(network, ["Hello."] * 3, [1, 2, 3])
    assert [one.tokens for one in again] == [one.tokens for one in sampled]


def test_the_gradient_is_that_of_advantage_and_log_probability() -> None:
    checkpoint = open_checkpoint(small_checkpoint("cosyvoice2"))
    network: Any = checkpoint.load_lm().requires_grad_(True)
    settings = GrpoSettings(kl=0.5)
    sampled = Speaking(checkpoint, settings).say(network, ["Hello."] * 2, [1, 2])
    task = GrpoTask(network, settings, None)
    found = task(Rollouts(sampled, torch.tensor([1.0, -0.5])))
    found.loss.backward()
    gradient = network.head.weight.grad.clone()
    assert float(found.metrics["kl"].detach()) == pytest.approx(
        0, abs=1e-6
    )  # the network is its own reference
    network.zero_grad()
    logits, targets = teacher_forced(network, [one.layout for one in sampled])
    counts = (targets != IGNORED).sum(-1)
    total = sequence_scores(logits, targets) * counts
    (-(total * torch.tensor([1.0, -0.5])).sum() / counts.sum()).backward()
    torch.testing.assert_close(gradient, network.head.weight.grad, rtol=1e-4, atol=1e-7)


def test_a_speaker_that_is_not_there_is_named() -> None:
    with pytest.raises(FinetuneError, match="no speaker 'nobody'"):
        Speaking(open_checkpoint(small_checkpoint("cosyvoice2")), GrpoSettings(speaker="nobody"))


def test_held_out_pairs_are_measured(tmp_path: Path) -> None:
    reports = list(prefer(asked(pairs_file(tmp_path, 10), tmp_path / "out", steps=4)))
    assert reports[-1].held is not None
    assert dpo.HELD_SHARE == 0.1
