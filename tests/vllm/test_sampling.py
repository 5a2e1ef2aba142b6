"""What vLLM draws follows the exact distribution, alone and in a batch, with repeats in the window."""

import asyncio

import pytest
import torch
from torch import Tensor

from firstword.models.layers import FullContext, chunk_mask
from firstword.models.lm.plan import Forbidden, Run
from firstword.models.lm.sampling import class_masks, repetition_aware_probabilities
from firstword.models.runtimes.engines.decode_engine import DecodeRequest
from firstword.models.runtimes.engines.sampling_state import SamplingState
from tests.support.reference_lm import offline_plan
from tests.vllm.engine import VllmEngine

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]

RULE = Forbidden.STOPS
MIN_P = 1e-3  # of a chi-square test; the seeds are fixed, so it passes always or never
MIN_EXPECTED = 8.0  # draws of a class; rarer ones are counted together


def prompt_ids(engine: VllmEngine) -> tuple[int, ...]:
    action = offline_plan(engine.case, engine.lm).next_action()
    assert isinstance(action, Run)
    return action.ids


@torch.inference_mode()
def logits_after(engine: VllmEngine, prompt: tuple[int, ...]) -> Tensor:
    """(1, V): of the id behind the prompt."""
    x = engine.lm.prompt_embeddings(prompt)
    hidden = engine.lm(x, FullContext(chunk_mask(x.shape[1], 1, x.device)))
    return engine.lm.logits(hidden[:, -1])


def exact(engine: VllmEngine, history: list[int]) -> Tensor:
    """(V,): the published scheme's distribution behind that history."""
    forbidden = class_masks(engine.lm.vocabulary)[RULE][None]
    window = torch.tensor([history])
    logits = logits_after(engine, prompt_ids(engine))
    return repetition_aware_probabilities(logits, forbidden, window, engine.lm.config.sampling)[0].double()


def drawn_counts(engine: VllmEngine, history: list[int], num_draws: int, batch_size: int) -> Tensor:
    """(V,): how often each id came first behind that history, each draw with a seed of its own."""

    async def draw() -> list[int]:
        drawn: list[int] = []
        for start in range(0, num_draws, batch_size):
            requests = [request_for(engine, history, seed) for seed in range(start, start + batch_size)]
            for one in await asyncio.gather(*(engine.drawn(request) for request in requests)):
                drawn += one
        return drawn

    return torch.bincount(torch.tensor(engine.run(draw())), minlength=engine.lm.vocabulary.num_classes)


def request_for(engine: VllmEngine, history: list[int], seed: int) -> DecodeRequest:
    draws = SamplingState(seed, 0, tuple(history), int(RULE), 1, int(RULE))
    return DecodeRequest(prompt_ids(engine), draws, max_ids=1)


def chi_square_p(counts: Tensor, probabilities: Tensor) -> float:
    """How probable counts (V,) at least so far from the expected ones are."""
    expected = probabilities * counts.sum()
    is_common = expected >= MIN_EXPECTED
    observed, wanted = counts[is_common].double(), expected[is_common]
    rest = expected[~is_common].sum()
    if rest >= MIN_EXPECTED:
        observed = torch.cat([observed, counts[~is_common].sum()[None].double()])
        wanted = torch.cat([wanted, rest[None]])
    statistic = ((observed - wanted) ** 2 / wanted).sum()
    freedom = torch.tensor(len(wanted) - 1.0, dtype=torch.float64)
    return float(torch.special.gammaincc(freedom / 2, statistic / 2))


@pytest.mark.parametrize(("batch_size", "num_draws"), [(1, 500), (8, 2000)])
@pytest.mark.parametrize("num_repeated", [0, 3])
def test_draws_follow_the_exact_distribution(
    v2: VllmEngine, batch_size: int, num_draws: int, num_repeated: int
) -> None:
    """The repeated ids are the most probable ones: their share goes to all others."""
    most_probable = logits_after(v2, prompt_ids(v2))[0, : v2.lm.vocabulary.num_speech_ids].topk(3).indices
    repeated = most_probable[:num_repeated].tolist()
    window = v2.lm.config.sampling.win_size
    history = (repeated * window)[:window] if repeated else [-1] * window
    probabilities = exact(v2, history)
    counts = drawn_counts(v2, [id for id in history if id >= 0], num_draws, batch_size)
    assert counts.sum() == num_draws
    assert counts[probabilities == 0].sum() == 0
    assert chi_square_p(counts, probabilities) > MIN_P
    if repeated:
        unaware = exact(v2, [-1] * window)
        assert chi_square_p(counts, unaware.clamp(min=1e-9)) < 1e-9  # the test would see a window left out
