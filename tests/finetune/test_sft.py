"""Fine-tuning from prepared data to a directory that opens."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from firstword.finetune.sft import FineTuning, fine_tune, recipe_in
from firstword.models.checkpoint.open import open_checkpoint
from tests.support.checkpoints import small_checkpoint
from tests.support.training_data import prepared


def asked(part, family, out: Path, **other) -> FineTuning:
    checkpoint = open_checkpoint(small_checkpoint(family))
    recipe = replace(recipe_in(checkpoint), lr=1e-3, batch_frames=600, accumulate=1)
    return FineTuning(part, checkpoint, prepared(family), out, recipe, steps=4, save_every=2, **other)


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
def test_the_result_opens(part, family, tmp_path: Path) -> None:
    reports = list(fine_tune(asked(part, family, tmp_path / "out")))
    assert [r.step for r in reports] == [1, 2, 3, 4]
    print(reports)
    opened = open_checkpoint(tmp_path / "out")
    assert "ann" in opened.load_speakers()
