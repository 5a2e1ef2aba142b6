"""Repetition-aware sampling (VALL-E 2, arXiv 2406.05370; as CosyVoice does it) on a batch of logits.

The published procedure draws from the nucleus and, if the drawn id repeats, draws again from all other
ids. Here the two draws are one distribution in closed form: a row needs one uniform number, nothing
waits for the device, and an engine that samples by itself can be given the distribution.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import Forbidden, Vocabulary

Scores = NDArray[np.float32]
Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RowSampling:
    """What `SamplingConfig` says, of each row by itself: (B, 1), on the device.

    num_candidates: at least every row's `top_k`. The window of a row is what its history has.
    """

    top_p: Tensor
    top_k: Tensor
    min_repeats: Tensor
    temperature: Tensor
    num_candidates: int


def class_masks(vocabulary: Vocabulary, device: torch.device | None = None) -> Tensor:
    """(4, V) bool: row `Forbidden` is True for the classes that must not be drawn."""
    masks = torch.zeros(len(Forbidden), vocabulary.num_classes, dtype=torch.bool)
    for rule in (Forbidden.STOPS, Forbidden.ALL_BUT_EOS, Forbidden.ALL_BUT_FILL):
        masks[rule, vocabulary.num_speech_ids :] = True  # the stop set
    masks[Forbidden.ALL_BUT_EOS, vocabulary.eos] = False
    if vocabulary.fill is not None:
        masks[Forbidden.ALL_BUT_FILL, vocabulary.fill] = False
    return masks.to(device)


def are_repeated(ids: Tensor, history: Tensor, config: SamplingConfig | RowSampling) -> Tensor:
    """ids (B, K), history (B, W): the last `win_size` ids, -1 where there are fewer -> (B, K) bool.

    An id repeats if it is in the history at least win_size * tau_r times.
    """
    counts = (ids[:, :, None] == history[:, None]).sum(-1)
    return counts >= config.min_repeats


def nucleus(probabilities: Tensor, config: SamplingConfig | RowSampling) -> tuple[Tensor, Tensor]:
    """The candidates of each row, most probable first, and their renormalized probabilities: (B, K) each.

    A candidate is taken while the sum of those before it is below `top_p`, so the one that crosses it
    is included, and at most `top_k` are; what stands behind the last one has probability 0.

    The order is that of a stable descending sort, without a sort of all: the bits of a float that is not
    negative are ordered as the float is, and behind them stands the id, so equal probabilities, frequent in
    16 bit, keep their order.
    """
    num_classes = probabilities.shape[1]
    backwards = torch.arange(num_classes - 1, -1, -1, device=probabilities.device)
    keys = (probabilities.float().view(torch.int32).long() << 32) + backwards
    num_candidates = config.num_candidates if isinstance(config, RowSampling) else config.top_k
    top = keys.topk(min(num_candidates, num_classes), dim=1).values
    ids = num_classes - 1 - (top & 0xFFFFFFFF)
    weights = probabilities.gather(1, ids)
    before = F.pad(weights.cumsum(1)[:, :-1], (1, 0), value=-1.0)  # the first is always taken
    is_out = before >= config.top_p
    if isinstance(config, RowSampling):
        is_out |= torch.arange(ids.shape[1], device=ids.device) >= config.top_k
    weights = weights.masked_fill(is_out, 0.0)
    return ids, weights / weights.sum(1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def repetition_aware_probabilities(
    logits: Tensor, forbidden: Tensor, history: Tensor, config: SamplingConfig | RowSampling
) -> Tensor:
    """logits (B, V), forbidden (B, V) bool, history (B, W) as in `are_repeated` -> P (B, V) float32.

    P(x) = N(x) [x not in R] + F(x) sum over r in R, r != x of N(r) / (1 - F(r)), with F the softmax of
    what is not forbidden, N its nucleus, R the ids that repeat. A row of NaN or without any possible
    id is all 0. If nothing but one repeating id is possible, it is kept.
    """
    return _probabilities(possible_scores(logits, forbidden), history, config)


def possible_scores(logits: Tensor, forbidden: Tensor) -> Tensor:
    """logits (B, V), forbidden (B, V) bool -> float32, -inf where it is forbidden."""
    return logits.float().masked_fill(forbidden, -math.inf)


def _probabilities(scores: Tensor, history: Tensor, config: SamplingConfig | RowSampling) -> Tensor:
    if isinstance(config, RowSampling) or config.temperature != 1:
        scores = scores / config.temperature
    full = _softmax(scores)  # F
    ids, weights = nucleus(full, config)  # N, (B, K)
    is_repeated = are_repeated(ids, history, config)
    if full.device.type == "cpu" and not is_repeated.any():  # elsewhere, asking would wait for the device
        return torch.zeros_like(full).scatter(1, ids, weights)
    unrefused = weights.masked_fill(is_repeated, 0.0)
    refused = weights - unrefused
    top_refused = refused[:, :1]  # the only id that can have F > 1 / 2, where 1 - F(r) would cancel
    without_top = _softmax(scores.scatter(1, ids[:, :1], -math.inf))  # F(x) / (1 - F(top)), exactly
    has_others = without_top.sum(1, keepdim=True) > 0
    terms = F.pad(refused[:, 1:] / (1 - full.gather(1, ids[:, 1:])), (1, 0))  # N(r) / (1 - F(r))
    result = full * _sum_of_others(terms, ids, scores.shape[1]) + without_top * top_refused
    unrefused[:, :1] += top_refused.masked_fill(has_others, 0.0)
    return result.scatter_add(1, ids, unrefused)


def draw(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """probabilities (B, V), uniforms (B,) float64 in [0, 1) -> ids (B,); -1 for a row that is all 0.

    By the inverse of the distribution function, in float64: one uniform a row, an id of probability 0
    is never drawn, however a device orders its sums.
    """
    is_possible = probabilities > 0
    cumulative = probabilities.double().cumsum(1)
    total = torch.where(is_possible, cumulative, 0.0).amax(1)
    target = torch.minimum(uniforms * total, total.nextafter(torch.zeros_like(total)))
    is_hit = (cumulative > target[:, None]) & is_possible
    return torch.where(total > 0, is_hit.int().argmax(1), -1)


def sample(
    logits: Tensor,
    forbidden: Tensor,
    history: Tensor,
    uniforms: Tensor,
    is_greedy: Tensor,
    config: SamplingConfig | RowSampling,
) -> Tensor:
    """One id a row (B,): drawn, or the most probable where is_greedy (B,); -1 for a row that has none."""
    return sample_scores(possible_scores(logits, forbidden), history, uniforms, is_greedy, config)


def sample_scores(
    scores: Tensor,
    history: Tensor,
    uniforms: Tensor,
    is_greedy: Tensor,
    config: SamplingConfig | RowSampling,
) -> Tensor:
    """`sample` of `possible_scores` (B, V)."""
    if scores.device.type == "cpu" and isinstance(config, SamplingConfig):
        rows = zip(
            scores.detach().numpy(), history.numpy(), uniforms.tolist(), is_greedy.tolist(), strict=True
        )
        return torch.tensor([_sample_row(*row, config) for row in rows], dtype=torch.long)
    best, greedy = scores.max(1)
    drawn = draw(_probabilities(scores, history, config), uniforms)
    is_finite = best.abs() < math.inf  # False for NaN
    return torch.where(is_finite, torch.where(is_greedy, greedy, drawn), -1)


def _sample_row(scores: Scores, history: Ids, uniform: float, is_greedy: bool, config: SamplingConfig) -> int:
    """One row of `sample_scores` on a CPU: scores (V,), history (W,).

    What a row takes is the number of its calls, so where nothing repeats NumPy looks at the candidates alone.
    """
    best = int(scores.argmax())
    if not math.isfinite(scores[best]):
        return -1
    if is_greedy:
        return best
    powers = np.exp((scores - scores[best]) / np.float32(config.temperature))
    kept = max(0, len(powers) - config.top_k)
    ids = np.flatnonzero(powers >= np.partition(powers, kept)[kept])  # and all that are equal to the last
    ids = ids[np.argsort(-powers[ids], kind="stable")][: config.top_k]
    weights = powers[ids]
    shares = (weights / powers.sum()).cumsum(dtype=np.float64)
    before = np.append(-1.0, shares[:-1])  # the first is always taken
    is_in = (before < config.top_p) & (weights > 0)
    weights, ids = weights[is_in], ids[is_in]
    if ((ids[:, None] == history).sum(1) >= config.min_repeats).any():
        probabilities = _probabilities(
            torch.from_numpy(scores)[None], torch.from_numpy(history)[None], config
        )
        return int(draw(probabilities, torch.tensor([uniform], dtype=torch.float64)))
    by_id = ids.argsort()
    cumulative = weights[by_id].cumsum(dtype=np.float64)
    place = cumulative[:-1].searchsorted(uniform * cumulative[-1], side="right")
    return int(ids[by_id[place]])


def _softmax(scores: Tensor) -> Tensor:
    """Softmax; a row of NaN or of nothing but -inf is all 0."""
    return scores.softmax(1).nan_to_num(0.0)


def _sum_of_others(terms: Tensor, ids: Tensor, num_classes: int) -> Tensor:
    """terms (B, K) of ids (B, K) -> for every class the sum of all terms but its own: (B, V).

    Summed without the own term, not subtracted from the whole, which would leave its rounding behind.
    """
    size = terms.shape[1]
    others = 1 - torch.eye(size, dtype=terms.dtype, device=terms.device)
    whole = terms.sum(1, keepdim=True).expand(-1, num_classes)
    return whole.scatter(1, ids, terms @ others)


def log_probabilities(
    logits: Tensor, forbidden: Tensor, drawn: Tensor, wanted: Sequence[int]
) -> list[float | None]:
    """logits, forbidden (R, V), drawn (R,) -> those of the drawn ids before truncation, in `wanted` rows."""
    found: list[float | None] = [None] * len(logits)
    if wanted:
        scores = possible_scores(logits[wanted], forbidden[wanted]).log_softmax(1)
        of_drawn = scores.gather(1, drawn[wanted, None].clamp(min=0))[:, 0].tolist()
        for number, logprob in zip(wanted, of_drawn, strict=True):
            found[number] = logprob
    return found
