"""What is asked of a speaker that a checkpoint was fine-tuned to."""

import torch

from training.new_speaker import Judged, musts


def judged(x: float, word_errors: float = 0.1) -> Judged:
    voice = torch.nn.functional.normalize(torch.tensor([x, 1.0]), dim=0)
    return Judged(voice.repeat(4, 1), word_errors, 3.5)


def test_half_of_the_gap_is_to_be_closed() -> None:
    teacher, cloned, default = judged(0.0), judged(1.0), (judged(3.0), judged(3.0))
    likeness, errors, moved, lost = musts(teacher, cloned, judged(0.2, 0.12), default)
    assert likeness.is_met
    assert errors.is_met
    assert moved.is_met
    assert lost.is_met
    likeness, errors, *_ = musts(teacher, cloned, judged(0.9, 0.14), default)
    assert not likeness.is_met
    assert not errors.is_met


def test_the_default_speaker_stays() -> None:
    *_, moved, lost = musts(judged(0.0), judged(1.0), judged(0.1), (judged(3.0), judged(0.5, 0.2)))
    assert not moved.is_met
    assert not lost.is_met
