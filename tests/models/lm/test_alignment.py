"""What text a drawn token is about, in company, in blocks and in graphs: as one pass over all shows it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.alignment import text_attention
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, SpeechLM
from firstword.models.lm.plan import BistreamPlan, LengthRatios, OfflinePlan, Plan, TextAttention
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.onnx.build import onnx_lm
from tests.models.lm.networks import FAMILIES, make_model

HEADS = ((0, 1), (1, 2))
RATIOS = LengthRatios(4.0, 4.0)


class ScoringContext:
    """Causal attention over a whole row that keeps its scores."""

    def __init__(self) -> None:
        self.weights: dict[int, Tensor] = {}  # by layer (H, T, T), before the softmax

    def positions(self, length: int, device: torch.device) -> Tensor:
        return torch.arange(length, device=device)[None]

    def attend(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, distance_query: Tensor | None = None
    ) -> Tensor:
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        self.weights[layer] = scores[0]
        return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf).softmax(-1) @ v


def small_lm(family: str) -> Qwen2LM:
    """With heads of 16, the smallest that the graph takes."""
    given = FAMILIES[family]
    assert isinstance(given, Qwen2LMConfig)
    config = replace(given, qwen2=replace(given.qwen2, hidden_size=64), alignment_heads=HEADS)
    lm = make_model(family, sharpness=3.0, config=config)
    assert isinstance(lm, Qwen2LM)
    return lm


def plans(lm: SpeechLM) -> list[Plan]:
    whole = OfflinePlan(lm.vocabulary, [5, 6, 7, 8, 9], [1, 2, 3], [4, 5, 6, 7], RATIOS)
    alone = OfflinePlan(lm.vocabulary, [9, 8, 7], ratios=RATIOS)
    pieces: list[BistreamPlan] = [
        BistreamPlan(lm.vocabulary, [1, 2, 3], [4, 5, 6, 7], [11, 12], mix_ratio=(2, 5), ratios=RATIOS),
        BistreamPlan(
            lm.vocabulary, [1, 2, 3], [4, 5], mix_ratio=(2, 5), prompt_before_blocks=True, ratios=RATIOS
        ),
    ]
    for plan in pieces:
        plan.push_text([13, 14, 15, 16, 17, 18, 19])
        plan.finish_text()
    return [whole, alone, *pieces]


def spoken(lm: SpeechLM) -> tuple[list[list[int]], list[list[TextAttention]], list[list[int]]]:
    """Of each plan, all of them in one decoder: ids that were run, attention of each draw, text positions."""
    decoder = SpeechDecoder(lm, FAMILIES["cosyvoice2"].sampling)
    run: list[list[int]] = []
    for seed, plan in enumerate(plans(lm)):
        own: list[int] = []
        run.append(own)
        mark_run = plan.mark_run

        def mark(plan: Plan = plan, own: list[int] = own, mark_run=mark_run) -> None:  # type: ignore[no-untyped-def]
            own += plan._pending  # type: ignore[attr-defined]
            mark_run()

        plan.mark_run = mark  # type: ignore[method-assign]
        decoder.add(RowRequest(plan, seed, is_greedy=True, wants_attention=True))
    rows = list(decoder.rows)
    attentions: list[list[TextAttention]] = [[] for _ in rows]
    while decoder.rows:
        for event in decoder.step():
            if isinstance(event, Emitted):
                assert event.detail.query is not None
                attentions[event.row.arrival] += text_attention([event.detail.query])
    return run, attentions, [list(row.plan.text_positions) for row in rows]


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
@torch.inference_mode()
def test_attention_of_draws_equals_one_pass(family: str) -> None:
    lm = small_lm(family)
    for ids, attentions, positions in zip(*spoken(lm), strict=True):
        context = ScoringContext()
        lm(lm.embed(torch.tensor([ids])), context)
        text = [position for position in positions if ids[position] >= lm.vocabulary.first_text]
        assert text == positions
        matched = 0
        for place in range(len(ids)):
            seen = [position for position in positions if position <= place]
            while matched < len(attentions) and not attentions[matched].size:  # of the prompt's text
                matched += 1
            if not seen or matched == len(attentions):
                continue
            wanted = torch.stack(
                [context.weights[layer][head, place, seen].softmax(-1) for layer, head in HEADS]
            )
            drawn = attentions[matched]
            if drawn.shape == wanted.shape and np.allclose(drawn, wanted.numpy(), atol=1e-5):
                matched += 1
        assert matched == len(attentions) > 10


@pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
def test_graphs_see_what_torch_sees(family: str) -> None:
    graph = onnx_lm(small_lm(family), "float32", num_threads=1)
    torch_run, torch_seen, _ = spoken(small_lm(family))
    graph_run, graph_seen, _ = spoken(graph)
    assert graph_run == torch_run
    for one, other in zip(torch_seen, graph_seen, strict=True):
        for weights, same in zip(one, other, strict=True):
            np.testing.assert_allclose(weights, same, atol=1e-4)
            assert not weights.size or weights.sum(-1) == pytest.approx(np.ones(2), abs=1e-4)


def test_a_model_without_alignment_heads_tells_nothing() -> None:
    config = FAMILIES["cosyvoice2"]
    lm = make_model("cosyvoice2", config=config)
    decoder = SpeechDecoder(lm, config.sampling)
    decoder.add(RowRequest(OfflinePlan(lm.vocabulary, [1, 2], ratios=RATIOS), 0, wants_attention=True))
    events = [event for _ in range(5) for event in decoder.step() if isinstance(event, Emitted)]
    assert events
    assert all(event.detail.query is None for event in events)
