"""The sampler's rows: they join, leave, move and are preempted, and none draws another's ids."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from firstword.models.config import SamplingConfig
from firstword.models.lm.plan import Forbidden, Vocabulary
from firstword.models.lm.sampling import class_masks, draw, repetition_aware_probabilities
from firstword.models.runtimes.engines.sampling_state import SamplingState
from firstword.models.runtimes.vllm.export import EXTRA_KEY

pytestmark = [pytest.mark.vllm, pytest.mark.filterwarnings("ignore")]

NAMES = Vocabulary(20, 23, 23, 50, sos=23, task=24, first_text=25, eos=20, fill=22)
NUM_STEPS = 30
LOGITS = torch.randn(NUM_STEPS, NAMES.num_classes, generator=torch.Generator().manual_seed(0))


def new_sampler() -> Any:
    from firstword.models.runtimes.vllm.sampler import RepetitionAwareSampler

    extra = {"vocabulary": asdict(NAMES), "sampling": asdict(SamplingConfig())}
    config = SimpleNamespace(
        model_config=SimpleNamespace(hf_config=SimpleNamespace(**{EXTRA_KEY: extra}), max_model_len=100),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
    )
    return RepetitionAwareSampler(config, torch.device("cpu"), is_pin_memory=False)


class Batch:
    """vLLM's side: rows of requests, each with the list of its ids."""

    def __init__(self) -> None:
        self.sampler = new_sampler()
        self.outputs: list[list[int]] = []

    def update(self, **changes: Any) -> None:
        from vllm.v1.sample.logits_processor import BatchUpdate

        given = {"removed": [], "added": [], "moved": []} | changes
        self.sampler.update_state(BatchUpdate(batch_size=len(self.outputs), **given))

    def join(self, seed: int, output: list[int] | None = None, **rules: Any) -> list[int]:
        output = [] if output is None else output
        self.outputs.append(output)
        self.update(added=[(len(self.outputs) - 1, params(seed, **rules), None, output)])
        return output

    def step(self, kept: bool = True) -> list[int]:
        """Row by row the logits behind as many ids as it has; kept: not for a part of a prompt."""
        logits = torch.stack([LOGITS[len(output)] for output in self.outputs])
        drawn = self.sampler.apply(logits).argmax(1).tolist()
        for output, id in zip(self.outputs, drawn, strict=True):
            if kept:
                output.append(id)
        return drawn


def params(
    seed: int,
    first: Forbidden = Forbidden.STOPS,
    num_first: int = NUM_STEPS,
    later: Forbidden = Forbidden.STOPS,
) -> Any:
    from vllm import SamplingParams

    draws = SamplingState(seed, 3, (1, 2), int(first), num_first, int(later))
    return SamplingParams(max_tokens=NUM_STEPS, extra_args=draws.written())


def alone(seed: int, num_steps: int) -> list[int]:
    batch = Batch()
    output = batch.join(seed)
    for _ in range(num_steps):
        batch.step()
        batch.sampler.update_state(None)
    return output


def test_rows_that_join_leave_and_move_draw_their_own_ids() -> None:
    from vllm.v1.sample.logits_processor import MoveDirectionality

    batch = Batch()
    first, second, third = (batch.join(seed) for seed in (1, 2, 3))
    for _ in range(5):
        batch.step()
    batch.outputs[:] = [third, second]  # the first leaves, the last takes its row
    batch.update(removed=[], moved=[(2, 0, MoveDirectionality.UNIDIRECTIONAL)])
    for _ in range(5):
        batch.step()
    batch.outputs[:] = [second, third]
    batch.update(moved=[(0, 1, MoveDirectionality.SWAP)])
    fourth = batch.join(4)
    for _ in range(5):
        batch.step()
    assert first == alone(1, 5)
    assert second == alone(2, 15)
    assert third == alone(3, 15)
    assert fourth == alone(4, 5)


def test_an_id_drawn_for_a_part_of_a_prompt_is_drawn_again() -> None:
    batch = Batch()
    output = batch.join(1)
    for _ in range(3):
        batch.step(kept=False)
        batch.sampler.update_state(None)
    for _ in range(4):
        batch.step()
        batch.sampler.update_state(None)
    assert output == alone(1, 4)


def test_a_preempted_request_goes_on_where_it_was() -> None:
    batch = Batch()
    output = batch.join(1)
    for _ in range(6):
        batch.step()
    again = Batch()
    again.join(1, output)
    for _ in range(6):
        again.step()
    assert output == alone(1, 12)


def test_a_request_that_left_before_its_first_id_does_not_touch_who_comes_after() -> None:
    batch = Batch()
    batch.join(1)
    batch.step(kept=False)
    batch.outputs.clear()
    batch.update(removed=[0])
    output = batch.join(2)
    for _ in range(4):
        batch.step()
        batch.sampler.update_state(None)
    assert output == alone(2, 4)


@pytest.mark.parametrize("logits", [torch.full((1, 23), float("nan")), torch.full((1, 23), -torch.inf)])
def test_logits_that_are_no_numbers_draw_the_class_of_no_id(logits: Tensor) -> None:
    batch = Batch()
    batch.join(1)
    assert batch.sampler.apply(logits).argmax(1).tolist() == [NAMES.num_classes]


def test_a_class_that_is_not_allowed_is_not_drawn_until_it_is() -> None:
    """Logits that want the eos, then a rule that changes."""
    batch = Batch()
    batch.join(1, first=Forbidden.STOPS, num_first=4, later=Forbidden.ALL_BUT_EOS)
    batch.join(2, first=Forbidden.ALL_BUT_FILL, num_first=9, later=Forbidden.NOTHING)
    wanted = torch.zeros(2, NAMES.num_classes)
    wanted[:, NAMES.eos] = 50.0
    drawn = [batch.sampler.apply(wanted).argmax(1).tolist() for _ in range(10)]
    assert [row[0] == NAMES.eos for row in drawn[:5]] == [False] * 4 + [True]
    assert [row[1] == NAMES.eos for row in drawn] == [False] * 9 + [True]
    allowed = {*range(NAMES.num_speech_ids), NAMES.fill}
    assert {row[1] for row in drawn[:9]} <= allowed


def test_requests_of_others_are_refused() -> None:
    from vllm import SamplingParams

    with pytest.raises(ValueError, match="only Firstword"):
        new_sampler().validate_params(SamplingParams())


@pytest.mark.parametrize("first_seed", range(0, 40, 4))
def test_each_row_is_drawn_from_its_own_distribution(first_seed: int) -> None:
    """The id is that of the closed distribution at the same quantile: probabilities, not samples."""
    from vllm import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate

    other = SamplingConfig(top_p=0.95, top_k=12, win_size=25, tau_r=0.08, temperature=0.6)
    ways = (None, other, SamplingConfig(top_k=1), SamplingConfig(temperature=1.7))
    rule, drawn_before = int(Forbidden.STOPS), (5, 5, 9)
    sampler = new_sampler()
    added = []
    for row, way in enumerate(ways):
        state = SamplingState(first_seed + row, 0, drawn_before, rule, 9, rule, config=way)
        added.append((row, SamplingParams(max_tokens=9, extra_args=state.written()), None, []))
    sampler.update_state(BatchUpdate(batch_size=4, removed=[], added=added, moved=[]))
    generator = torch.Generator().manual_seed(first_seed)
    logits = torch.randn(4, NAMES.num_classes, generator=generator)
    found = sampler.apply(logits).argmax(1).tolist()
    for row, way in enumerate(ways):
        config = way or SamplingConfig()
        history = torch.tensor([([-1] * config.win_size + list(drawn_before))[-config.win_size :]])
        mask = class_masks(NAMES)[Forbidden.STOPS][None]
        probabilities = repetition_aware_probabilities(logits[row : row + 1], mask, history, config)
        generator = torch.Generator().manual_seed(first_seed + row)
        uniform = torch.rand(1, generator=generator, dtype=torch.float64)
        assert found[row] == draw(probabilities, uniform).item()
