"""Teacher-forced runs of the language models and their losses: next token, and preference (DPO)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from firstword.models.config import LMConfig
from firstword.models.layers import FullContext, chunk_mask
from firstword.models.lm.plan import IGNORED, Layout
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.lm.transformer_lm import TransformerLM

DPO_BETA = 0.01


@dataclass(frozen=True, slots=True)
class LossConfig:
    """How a loss is smoothed and normalized; `of` takes it from a model's config."""

    label_smoothing: float = 0.0
    is_length_normalized: bool = True

    @classmethod
    def of(cls, config: LMConfig) -> "LossConfig":
        return cls(config.label_smoothing, config.length_normalized_loss)


@dataclass(frozen=True, slots=True, eq=False)
class TokenLoss:
    loss: Tensor  # ()
    accuracy: Tensor  # (), share of the places that count where the most probable class is right


@dataclass(frozen=True, slots=True, eq=False)
class PreferenceLoss:
    loss: Tensor  # (), preference + next token on the chosen half
    preference: Tensor  # ()
    chosen: TokenLoss
    accuracy: Tensor  # (), share of the pairs where the chosen one gained more
    margin: Tensor  # (), by how much more it gained, on average


def token_loss(
    model: Qwen2LM | TransformerLM,
    layouts: Sequence[Layout],
    speakers: Sequence[Tensor | None] | None = None,
    *,
    config: LossConfig,
) -> TokenLoss:
    """The next-token loss of a batch; speakers: (192,) each, for CosyVoice 1."""
    logits, targets = teacher_forced(model, layouts, speakers)
    return _token_loss(logits, targets, config)


def preference_loss(
    model: Qwen2LM | TransformerLM,
    chosen: Sequence[Layout],
    rejected: Sequence[Layout],
    reference_chosen: Tensor,
    reference_rejected: Tensor,
    beta: float = DPO_BETA,
    *,
    config: LossConfig,
) -> PreferenceLoss:
    """Direct preference optimization (arXiv 2305.18290) plus the loss on the chosen half.

    reference_chosen, reference_rejected (B,): `sequence_scores` of the frozen model on the same layouts.
    """
    logits, targets = teacher_forced(model, [*chosen, *rejected])
    ours_chosen, ours_rejected = sequence_scores(logits, targets).split([len(chosen), len(rejected)])
    margin = (ours_chosen - ours_rejected) - (reference_chosen - reference_rejected)
    preference = -F.logsigmoid(beta * margin).mean()
    supervised = _token_loss(logits[: len(chosen)], targets[: len(chosen)], config)
    accuracy = (margin > 0).float().mean()
    return PreferenceLoss(preference + supervised.loss, preference, supervised, accuracy, margin.mean())


def teacher_forced(
    model: Qwen2LM | TransformerLM, layouts: Sequence[Layout], speakers: Sequence[Tensor | None] | None = None
) -> tuple[Tensor, Tensor]:
    """-> logits (B, T, V) and targets (B, T), rows padded on the right, where no real place sees them."""
    if speakers is None:
        speakers = [None] * len(layouts)
    rows = [
        model.prompt_embeddings(layout.input_ids, speaker)[0]
        for layout, speaker in zip(layouts, speakers, strict=True)
    ]  # (T_i, C) each
    x = pad_sequence(rows, batch_first=True)  # (B, T, C)
    answers = [_targets(layout, len(row)) for layout, row in zip(layouts, rows, strict=True)]
    targets = pad_sequence(answers, batch_first=True, padding_value=IGNORED).to(x.device)
    hidden = model(x, FullContext(chunk_mask(x.shape[1], 1, x.device)))
    return model.logits(hidden), targets


def smoothed_divergence(logits: Tensor, targets: Tensor, config: LossConfig) -> Tensor:
    """logits (B, T, V), targets (B, T) -> KL(q || p), q: 1 - e on the target, e / (V - 1) elsewhere.

    Summed over the places that count, divided by their number or by the batch size.
    """
    log_p = logits.float().log_softmax(-1)
    counts = targets != IGNORED
    on_target = log_p.gather(-1, targets.clamp(min=0)[..., None])[..., 0]  # (B, T)
    smoothing = torch.tensor(config.label_smoothing, device=logits.device)
    other = smoothing / (logits.shape[-1] - 1)
    negative_entropy = torch.xlogy(1 - smoothing, 1 - smoothing) + torch.xlogy(smoothing, other)
    cross = (1 - smoothing) * on_target + other * (log_p.sum(-1) - on_target)
    total = (negative_entropy - cross).masked_fill(~counts, 0.0).sum()
    return total / (counts.sum() if config.is_length_normalized else len(targets))


def token_accuracy(logits: Tensor, targets: Tensor) -> Tensor:
    counts = targets != IGNORED
    return (logits.argmax(-1) == targets)[counts].float().mean()


def sequence_scores(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean log-probability of the targets over the places that count: (B,).

    Published code averages over the ignored places instead, whose label it takes to be 0.
    """
    counts = targets != IGNORED
    log_p = logits.float().log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]  # (B, T)
    return log_p.masked_fill(~counts, 0.0).sum(-1) / counts.sum(-1)


def _token_loss(logits: Tensor, targets: Tensor, config: LossConfig) -> TokenLoss:
    return TokenLoss(smoothed_divergence(logits, targets, config), token_accuracy(logits, targets))


def _targets(layout: Layout, num_positions: int) -> Tensor:
    """(T,): the layout's targets behind one ignored place if a speaker's position was added."""
    added = num_positions - len(layout.targets)
    return torch.tensor([IGNORED] * added + [*layout.targets])
