"""Registered voices that no training has heard, judged by the embeddings of what was said."""

import pytest
import torch

from training.settings import read_settings
from training.unseen import Unseen, markdown, musts

THREE = Unseen(
    ("flite rms", "flite slt", "hibari"),
    torch.eye(3),
    torch.tensor([[0.8, 0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 1.0, 0.0]]),
)


def test_a_voice_is_compared_with_every_recording() -> None:
    assert THREE.own.tolist() == pytest.approx([0.8, 0.8, 0.0])
    assert THREE.margins.tolist() == pytest.approx([0.5, 0.5, -0.5])
    assert THREE.nearest == ["flite rms", "flite slt", "flite slt"]
    assert THREE.num_right == 2
    assert "| hibari | 0.00 | -0.50 | flite slt |" in markdown(THREE)


def test_what_unseen_voices_miss_is_said() -> None:
    missed = [one.name for one in musts(THREE) if not one.is_met]
    assert missed == [
        "unseen voices, likeness to their recordings at least 0.70",
        "nearest to their own recordings: 90 %",
    ]


def test_nothing_is_trained_with_the_unseen_voices() -> None:
    settings = read_settings()
    assert len(set(settings.unseen)) == 10
    assert not set(settings.unseen) & {voice.teacher for voice in settings.voices}
