"""Rows of one batch may be drawn in different ways, by torch and ONNX Runtime alike.

Of vLLM see tests/vllm/test_sampler.py.
"""

import torch

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import SamplingConfig
from firstword.models.lm.decoder import Emitted, RowRequest, SpeechDecoder, SpeechLM
from firstword.models.lm.plan import LengthRatios, OfflinePlan
from firstword.models.lm.sampling import repetition_aware_probabilities
from firstword.models.runtimes.onnx.build import onnx_lm
from tests.support.checkpoints import small_checkpoint
from tests.support.small_lm import small_lm

OTHER = SamplingConfig(top_p=0.95, top_k=60, win_size=25, tau_r=0.3, temperature=0.6)
WAYS = (None, OTHER, SamplingConfig(top_k=1), None)


def drawn(model: SpeechLM, ways: tuple[SamplingConfig | None, ...]) -> list[list[int]]:
    decoder = SpeechDecoder(model, SamplingConfig())
    for seed, way in enumerate(ways):
        plan = OfflinePlan(model.vocabulary, (3, 1, 4, 1), (7,), (10, 11), LengthRatios(0, 8))
        decoder.add(RowRequest(plan, seed, sampling=way))
    rows: list[list[int]] = [[] for _ in ways]
    while decoder.rows:
        for event in decoder.step():
            if isinstance(event, Emitted):
                rows[event.row.arrival].append(event.speech_id)
    return rows


def test_a_row_draws_as_if_it_were_alone() -> None:
    together = drawn(small_lm(), WAYS)
    for row, way in enumerate(WAYS):
        alone = drawn(small_lm(), (None,) * row + (way,) + (None,) * (len(WAYS) - row - 1))
        assert together[row] == alone[row]
    assert together[1] != drawn(small_lm(), (None,) * 4)[1]


def test_torch_and_onnx_draw_the_same_tokens() -> None:
    given_away = open_checkpoint(small_checkpoint("cosyvoice2")).load_lm()  # its weights move to the graph
    assert drawn(onnx_lm(given_away, "float32", 1), WAYS) == drawn(small_lm(), WAYS)


def test_temperature_divides_the_logits() -> None:
    logits = torch.randn(3, 50, generator=torch.Generator().manual_seed(1))
    forbidden, history = torch.zeros(3, 50, dtype=torch.bool), torch.full((3, 10), -1)
    for temperature in (0.5, 1.0, 2.0):
        found = repetition_aware_probabilities(
            logits, forbidden, history, SamplingConfig(temperature=temperature)
        )
        scaled = repetition_aware_probabilities(logits / temperature, forbidden, history, SamplingConfig())
        torch.testing.assert_close(found, scaled)
