"""Front and estimator of the flows as graphs: torch's mel, whatever prompt, window and neighbours."""

from copy import deepcopy
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.flow.flow import Flow
from firstword.models.flow.incremental import FlowNetworks, IncrementalFlow
from firstword.models.flow.unet import CausalUNet
from firstword.models.networks import Networks
from firstword.models.runtimes.onnx.build import onnx_estimator, onnx_front
from firstword.models.runtimes.onnx.estimator import OnnxEstimator
from firstword.models.runtimes.onnx.state import StatePrecision
from firstword.models.token2wav import Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import random_ids, small_flow, small_hift, small_speaker

BUILTIN = Path(__file__).parents[3] / "models" / "builtin"
TOLERANCE = 2e-4
WINDOW = pytest.mark.parametrize("window_chunks", [None, 0, 2])


@cache
def with_graphs(kind: str = "unet", state: StatePrecision = "float32") -> tuple[Flow, IncrementalFlow]:
    flow = deepcopy(small_flow(kind))
    front = onnx_front(flow, num_threads=1)
    return flow, IncrementalFlow(
        flow, FlowNetworks(front or flow.front, onnx_estimator(flow, False, 1, state))
    )


def mels(
    flow: IncrementalFlow, prompts: list[int], counts: list[int], window_chunks: int | None
) -> list[Tensor]:
    """The joined mel of several streams solved together, each of another prompt and length."""
    states = []
    for seed, (num_prompt, count) in enumerate(zip(prompts, counts, strict=True)):
        speaker = small_speaker(seed, num_prompt)
        prompt = flow.solve_prompt(speaker.prompt_tokens.tolist(), speaker.prompt_mel, speaker.embedding)
        state = flow.start(prompt, window_chunks)
        state.pending_tokens += random_ids(seed, count)
        states.append(state)
    made: list[list[Tensor]] = [[] for _ in states]
    while True:
        pieces = [(index, flow.next_chunk(state, is_last=True)) for index, state in enumerate(states)]
        ready = [(index, piece) for index, piece in pieces if piece is not None]
        if not ready:
            return [torch.cat(parts, dim=1) for parts in made]
        for (index, _), mel in zip(ready, flow.solve_chunks([piece for _, piece in ready]), strict=True):
            made[index].append(mel)


@WINDOW
@pytest.mark.parametrize("kind", ["unet", "unguided unet", "dit"])
def test_equals_torch(kind: str, window_chunks: int | None) -> None:
    expected = mels(IncrementalFlow(small_flow(kind)), [65], [210], window_chunks)
    found = mels(with_graphs(kind)[1], [65], [210], window_chunks)
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("kind", ["unet", "dit"])
def test_streams_together_equal_streams_alone(kind: str) -> None:
    prompts, counts = [15, 65, 40], [130, 12, 90]
    together = mels(with_graphs(kind)[1], prompts, counts, window_chunks=1)
    torch.testing.assert_close(
        together,
        mels(IncrementalFlow(small_flow(kind)), prompts, counts, 1),
        atol=TOLERANCE,
        rtol=TOLERANCE,
    )
    alone = mels(with_graphs(kind)[1], prompts[:1], counts[:1], window_chunks=1)
    torch.testing.assert_close(together[0], alone[0], atol=TOLERANCE, rtol=TOLERANCE)


@pytest.mark.parametrize("kind", ["unet", "dit"])
def test_a_state_in_8_bits_is_close(kind: str) -> None:
    """Prompt, whole window and a ring that is written over are among what is seen."""
    (exact,) = mels(with_graphs(kind)[1], [65], [210], window_chunks=2)
    (found,) = mels(with_graphs(kind, "int8")[1], [65], [210], window_chunks=2)
    assert 0 < (found - exact).abs().mean() < 0.02 * exact.abs().mean()


@pytest.mark.parametrize("kind", ["unet", "dit"])
@pytest.mark.parametrize("state", ["float32", "int8"])
def test_tight_memory_holds_the_copied_prompt_too(kind: str, state: StatePrecision) -> None:
    flow, incremental = with_graphs(kind, state)
    fixed, per_chunk = incremental.state_bytes()
    networks = Networks(flow=FlowNetworks(incremental._front, incremental._estimator))
    speaker = small_speaker(5, 60)
    session = Token2Wav(flow, small_hift(kind == "dit"), networks=networks)
    prompt_bytes = session.compute_prompt_state(speaker).state_bytes
    budget = fixed + 5 * per_chunk + prompt_bytes + 140_000  # a little more than the vocoder keeps
    session = Token2Wav(flow, small_hift(kind == "dit"), max_state_bytes=budget, networks=networks)
    stream = session.start(session.compute_prompt_state(speaker))
    assert stream.is_window_shortened
    for second in range(10):
        session.step([StepInput(stream, random_ids(second, 25), False)])
    assert budget - 2 * per_chunk < stream.state_bytes <= budget


def test_a_failed_chunk_can_be_repeated() -> None:
    _, flow = with_graphs()
    expected = mels(flow, [65], [60], None)
    run, failures = OnnxEstimator.__call__, [3]

    def fail_once(self: OnnxEstimator, *given: object) -> Tensor:
        failures[0] -= 1
        if failures[0] == 0:
            raise MemoryError("once")
        return run(self, *given)  # type: ignore[arg-type]

    speaker = small_speaker(0, 65)
    prompt = flow.solve_prompt(speaker.prompt_tokens.tolist(), speaker.prompt_mel, speaker.embedding)
    state = flow.start(prompt, None)
    state.pending_tokens += random_ids(0, 60)
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxEstimator, "__call__", fail_once)
        with pytest.raises(MemoryError):
            flow.solve_chunks([flow.next_chunk(state, is_last=True)])  # type: ignore[list-item]
        while piece := flow.next_chunk(state, is_last=True):
            made += flow.solve_chunks([piece])
    assert torch.equal(torch.cat(made, dim=1), expected[0])


def test_large_values_pass_mish() -> None:
    """e^x squared would be infinite; mish(x) is x."""
    flow = deepcopy(small_flow("unet"))
    assert isinstance(flow.estimator, CausalUNet)
    flow.estimator.final.norm.bias.data += 100.0
    expected = mels(IncrementalFlow(deepcopy(flow)), [15], [25], None)
    networks = FlowNetworks(flow.front, onnx_estimator(flow, has_int8=False, num_threads=1))
    found = mels(IncrementalFlow(flow, networks), [15], [25], None)
    assert expected[0].isfinite().all()
    torch.testing.assert_close(found, expected, atol=0.02, rtol=TOLERANCE)


def spoken_again(has_int8: bool, state: StatePrecision) -> Tensor:
    """The tokens of a built-in speaker's prompt behind it: (M, T)."""
    checkpoint = open_checkpoint(BUILTIN)
    speaker, flow = checkpoint.load_speakers()["alder"], checkpoint.load_flow()
    assert isinstance(flow, Flow)
    front = onnx_front(flow, num_threads=1)
    networks = FlowNetworks(front or flow.front, onnx_estimator(flow, has_int8, 1, state))
    onnx_flow = IncrementalFlow(flow, networks)
    prompt = onnx_flow.solve_prompt(speaker.prompt_tokens.tolist(), speaker.prompt_mel, speaker.embedding)
    stream = onnx_flow.start(prompt, None)
    stream.pending_tokens += speaker.prompt_tokens.tolist()
    made = []
    while piece := onnx_flow.next_chunk(stream, is_last=True):
        made += onnx_flow.solve_chunks([piece])
    return torch.cat(made, dim=1)


@pytest.mark.parametrize(
    ("has_int8", "state", "mean", "most"), [(True, "float32", 0.03, 0.3), (False, "int8", 0.004, 0.1)]
)
def test_the_builtin_voice_in_8_bits_keeps_its_mel(
    has_int8: bool, state: StatePrecision, mean: float, most: float
) -> None:
    """Of the natural logarithm; halving the solver's steps, then five, moved it by 0.056 on average."""
    difference = (spoken_again(has_int8, state) - spoken_again(False, "float32")).abs()
    assert 1e-4 < difference.mean() < mean
    assert difference.max() < most


def test_torch_s_weights_of_the_estimator_are_given_up() -> None:
    flow, _ = with_graphs()
    assert all(parameter.is_meta for parameter in flow.estimator.parameters())


def test_cosyvoice3_s_front_stays_as_it_is() -> None:
    assert onnx_front(small_flow("dit"), num_threads=1) is None
