"""The language model as graphs: the torch network's numbers exactly in float32, nearly in 8 bits."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import Qwen2LMConfig
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, SpeechLM
from firstword.models.lm.plan import BistreamPlan, LengthRatios, OfflinePlan, Plan
from firstword.models.lm.qwen2 import Qwen2LM
from firstword.models.runtimes.onnx.build import LMPrecision, onnx_lm
from firstword.models.runtimes.onnx.qwen2 import MANY_ROWS
from tests.models.lm.networks import COSYVOICE2, FAMILIES, make_model

FAMILY = pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])
BUILTIN = Path(__file__).parents[3] / "models" / "builtin"
DIVERGENCES = {"int8": (0.05, 0.002), "int4": (0.6, 0.1)}  # nats, at any token of a sentence and on average
SAMPLING = COSYVOICE2.sampling


def small_lm(family: str = "cosyvoice2") -> Qwen2LM:
    """With heads of 16, the smallest that the graph takes."""
    given = FAMILIES[family]
    assert isinstance(given, Qwen2LMConfig)
    lm = make_model(family, sharpness=3.0, config=replace(given, qwen2=replace(given.qwen2, hidden_size=64)))
    assert isinstance(lm, Qwen2LM)
    return lm


def both(family: str) -> tuple[Qwen2LM, SpeechLM]:
    return small_lm(family), onnx_lm(small_lm(family), "float32", num_threads=1)


def one_way(lm: SpeechLM, seed: int, num_tokens: int = 30) -> Plan:
    generator = torch.Generator().manual_seed(seed)
    text, prompt = (torch.randint(0, 40, (count,), generator=generator).tolist() for count in (5 + seed, 7))
    return OfflinePlan(lm.vocabulary, text, text[:3], prompt, LengthRatios(num_tokens, num_tokens))


def interleaved(lm: SpeechLM, seed: int) -> Plan:
    plan = BistreamPlan(lm.vocabulary, [1, 2, 3], [4, 5, 6, 7], mix_ratio=(2, 5))
    plan.push_text([(3 * seed + index) % 40 for index in range(11)])
    plan.finish_text()
    return plan


def spoken(lm: SpeechLM, plans: list[Plan], is_greedy: bool = True) -> dict[int, list[int]]:
    """The speech ids of each plan, all of them in one decoder."""
    decoder = SpeechDecoder(lm, SAMPLING)
    for seed, plan in enumerate(plans):
        decoder.add(RowRequest(plan, seed, is_greedy))
    ids: dict[int, list[int]] = {index: [] for index in range(len(plans))}
    for _ in range(400):
        if not decoder.rows:
            return ids
        for event in decoder.step():
            if isinstance(event, Emitted):
                ids[event.row.arrival].append(event.speech_id)
    raise AssertionError("the decoder does not end")


@FAMILY
@pytest.mark.parametrize("is_greedy", [True, False])
def test_float32_says_what_torch_says(family: str, is_greedy: bool) -> None:
    lm, graph = both(family)
    for make in (one_way, interleaved):
        plans = [[make(one, seed) for seed in range(3)] for one in (lm, graph)]
        assert spoken(lm, plans[0], is_greedy) == spoken(graph, plans[1], is_greedy)


@FAMILY
def test_hidden_states_of_prompts_steps_and_several_tokens(family: str) -> None:
    lm, graph = both(family)
    caches = [one.new_cache() for one in (lm, graph)]
    for cache in caches:
        cache.add_row()
    for ids in ([1, 2, 3, 4, 5, 6], [7], [8], [9, 10, 11], [12]):
        expected, found = (run(one, cache, ids) for one, cache in zip((lm, graph), caches, strict=True))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def run(lm: SpeechLM, cache, ids: list[int]) -> Tensor:
    memory = cache.open_pass(range(1), [len(ids)])
    with torch.inference_mode():
        hidden = lm(lm.embed(torch.tensor([ids])), memory)
    memory.commit()
    return hidden


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_a_row_does_not_depend_on_its_neighbours(precision: LMPrecision) -> None:
    lm = onnx_lm(small_lm(), precision, num_threads=1)
    together = spoken(lm, [one_way(lm, seed) for seed in range(8)], is_greedy=False)
    alone = spoken(lm, [one_way(lm, 0)], is_greedy=False)
    assert together[0] == alone[0]


def test_a_prompt_in_8_bits_does_not_depend_on_what_it_is_read_with() -> None:
    """One scale for all rows would let a large one blur the others."""
    lm = small_lm()
    graph = onnx_lm(deepcopy(lm), "int8", num_threads=1)
    x = lm.embed(torch.arange(2 * MANY_ROWS)[None])
    louder = x.clone()
    louder[:, -1] *= 1000
    first, second = (
        graph(one, added(graph).open_pass(range(1), [one.shape[1]]))[0, :-1] for one in (x, louder)
    )
    assert torch.equal(first, second)
    expected = lm(x, added(lm).open_pass(range(1), [x.shape[1]]))[0, :-1]
    assert 0 < (first - expected).norm() / expected.norm() < 0.05


def test_more_positions_than_there_was_room_for_at_first() -> None:
    lm, graph = both("cosyvoice2")
    plans = [[one_way(one, 1, num_tokens=60)] for one in (lm, graph)]
    assert len(spoken(lm, plans[0])[0]) == 360  # of text and prompt together more than FIRST_LENGTH
    assert spoken(graph, plans[1]) == spoken(lm, [one_way(lm, 1, num_tokens=60)])


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_the_builtin_voice_in_few_bits_keeps_its_distributions(precision: LMPrecision) -> None:
    """KL per step against float32, teacher-forced on what the float32 network says."""
    checkpoint = open_checkpoint(BUILTIN)
    lm = checkpoint.load_lm()
    assert isinstance(lm, Qwen2LM)
    graph = onnx_lm(deepcopy(lm), precision, num_threads=1)
    text = checkpoint.load_tokenizer().encode("The man, who came.")
    plan = OfflinePlan(lm.vocabulary, text, (), (), LengthRatios(8, 8))
    said = spoken(lm, [plan], is_greedy=False)[0]
    prompt = [lm.vocabulary.sos, *(lm.vocabulary.first_text + id for id in text), lm.vocabulary.task]
    expected, found = (one.logits(read_in_turn(one, prompt, said)).log_softmax(-1) for one in (lm, graph))
    divergence = F.kl_div(found, expected, log_target=True, reduction="none").sum(-1)
    largest, mean = DIVERGENCES[precision]
    assert divergence.max() < largest
    assert mean / 1000 < divergence.mean() < mean


def read_in_turn(lm: SpeechLM, prompt: list[int], said: list[int]) -> Tensor:
    """The last hidden states (N, C): of the prompt, read at once, and of each token behind it."""
    cache = added(lm)
    return torch.cat([run(lm, cache, ids)[0, -1:] for ids in (prompt, *([id] for id in said))])


def added(lm: SpeechLM):
    cache = lm.new_cache()
    cache.add_row()
    return cache


def test_the_torch_network_gives_its_weights_up() -> None:
    lm = small_lm()
    onnx_lm(lm, "int8", num_threads=1)
    assert all(parameter.is_meta for parameter in lm.decoder.parameters())


@pytest.mark.parametrize("family", ["cosyvoice1", "cosyvoice2"])
def test_cosyvoice1_and_heads_of_odd_sizes_stay_as_they_are(family: str) -> None:
    lm = make_model(family)
    assert onnx_lm(lm, "int8", num_threads=1) is lm
