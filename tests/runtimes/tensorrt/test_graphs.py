"""The graphs for TensorRT, run by ONNX Runtime: torch's networks, in standard operators alone."""

from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor

from firstword.models.checkpoint.open import open_checkpoint
from firstword.models.config import NUM_MELS, Dtype, Family
from firstword.models.flow.flow import Flow
from firstword.models.flow.solver import Velocity, solve
from firstword.models.flow.state import estimator_layout
from firstword.models.hift.hift import HiFT
from firstword.models.hift.streaming import BatchedConvState
from firstword.models.layers import FullContext, chunk_mask
from firstword.models.onnx_graphs.estimator import STACKED, estimator_times
from firstword.models.onnx_graphs.session import session_options
from firstword.models.onnx_graphs.standard import HIDDEN
from firstword.models.runtimes.tensorrt.graphs import (
    chunk_graph,
    estimator_graph,
    generator_graph,
)
from tests.support.checkpoints import small_checkpoint

TOLERANCE = 1e-4
MEL_DISTANCE = 0.002  # mean, in the mel's natural logarithms, of a solve whose estimator is float16
FLOWS = pytest.mark.parametrize("family", ["cosyvoice2", "cosyvoice3"])


@cache
def flow_of(family: Family) -> Flow:
    flow = open_checkpoint(small_checkpoint(family)).load_flow()
    assert isinstance(flow, Flow)
    return flow


@cache
def hift_of(family: Family) -> HiFT:
    return open_checkpoint(small_checkpoint(family)).load_hift()


class Run:
    """A checked graph in ONNX Runtime: tensors by name -> tensors by name."""

    def __init__(self, model: bytes):
        proto = onnx.load_from_string(model)
        onnx.checker.check_model(proto, full_check=True)
        assert {node.domain for node in proto.graph.node} == {""}, "not standard operators alone"
        self._session = onnxruntime.InferenceSession(model, session_options(1))
        self.inputs = [given.name for given in self._session.get_inputs()]
        self.outputs = [made.name for made in self._session.get_outputs()]

    def __call__(self, given: dict[str, Tensor]) -> dict[str, Tensor]:
        made = self._session.run(self.outputs, {name: given[name].numpy() for name in self.inputs})
        return {
            name: torch.from_numpy(np.array(value)) for name, value in zip(self.outputs, made, strict=True)
        }


@cache
def whole(family: Family, dtype: Dtype) -> Run:
    return Run(estimator_graph(flow_of(family).estimator, dtype))


def estimator_inputs(rows: int, length: int, seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    frames = {name: draw(rows, NUM_MELS, length) for name in ("x", "mu", "cond")}
    return {**frames, "t": torch.rand(rows, generator=generator), "spks": draw(rows, NUM_MELS)}


@FLOWS
@torch.inference_mode()
def test_the_published_form_equals_torch(family: Family) -> None:
    """Of rows of different lengths and times; what follows the end of a row has no effect on it."""
    lengths = [70, 70, 33]
    given = estimator_inputs(3, 70)
    mask = torch.zeros(3, 1, 70)
    for row, length in enumerate(lengths):
        mask[row, :, :length] = 1
    run = whole(family, "float32")
    assert set(run.inputs) == {"x", "mask", "mu", "t", "spks", "cond"}
    assert run.outputs == ["estimator_out"]
    found = run({**given, "mask": mask})["estimator_out"]
    for row, length in enumerate(lengths):
        own = {name: value[row : row + 1] for name, value in given.items()}
        own |= {name: own[name][..., :length] for name in ("x", "mu", "cond")}
        expected = flow_of(family).estimator(**own, context=FullContext())
        torch.testing.assert_close(found[row : row + 1, :, :length], expected, atol=TOLERANCE, rtol=TOLERANCE)
        assert not found[row, :, length:].any()


@FLOWS
@torch.inference_mode()
def test_chunk_by_chunk_equals_a_chunk_causal_pass(family: Family) -> None:
    """Two chunks of 50 frames and one of 20, the past in a buffer that has other frames in it, too."""
    estimator = flow_of(family).estimator
    given = estimator_inputs(2, 120)
    given["t"] = torch.full((2,), 0.3)
    expected = estimator(**given, context=FullContext(chunk_mask(120, 50)))

    run = Run(chunk_graph(estimator, "float32"))
    rows = {**given, "spks": given["spks"][:, :, None].expand(2, NUM_MELS, 120)}
    h = torch.cat([rows[name] for name in STACKED[type(estimator)]], dim=1).mT  # (G, T, 4 M)
    config = estimator.config
    buffer = torch.full((2, config.num_heads, 130, config.head_dim), 9.0)
    left = estimator_layout(estimator).left
    state = {one.name: torch.zeros(one.sized(2, 0)).movedim(one.time_dim, 1).contiguous() for one in left} | {
        f"{kind}_{layer}": buffer for layer in range(estimator.num_layers) for kind in ("keys", "values")
    }
    seen = torch.full((2, 130), HIDDEN)
    made = []
    for start, stop in ((0, 50), (50, 100), (100, 120)):
        outputs = run(
            {
                **state,
                "h": h[:, start:stop].contiguous(),
                "times": estimator_times(estimator, 0.3),
                "positions": torch.arange(start, stop).repeat(2, 1),
                "past_mask": seen,
                "own_mask": torch.zeros(2, stop - start),
            }
        )
        made.append(outputs.pop("velocity").mT)
        seen = seen.clone()
        seen[:, start + 7 : stop + 7] = 0  # anywhere: attention has no order
        for name, value in outputs.items():
            if name.startswith("next_"):
                state[name.removeprefix("next_")] = value
            else:
                kept = state[name.removeprefix("new_")].clone()
                kept[:, :, start + 7 : stop + 7] = value
                state[name.removeprefix("new_")] = kept
    torch.testing.assert_close(torch.cat(made, dim=2), expected, atol=TOLERANCE, rtol=TOLERANCE)


@FLOWS
@torch.inference_mode()
def test_float16_keeps_the_mel_within_its_distance(family: Family) -> None:
    run = whole(family, "float16")

    def half(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
        parts = {"x": x, "mu": mu, "spks": spks, "cond": cond, "mask": torch.ones(2, 1, 60)}
        made = run({**{name: part.half() for name, part in parts.items()}, "t": t})["estimator_out"]
        assert made.dtype == torch.float16
        return made.float()

    assert 0 < mel_distance(family, half) < MEL_DISTANCE


@FLOWS
@torch.inference_mode()
def test_bfloat16_keeps_the_mel_in_torch(family: Family) -> None:
    """Of the graphs only the kinds of numbers are looked at: ONNX Runtime has no kernels for these."""
    estimator = flow_of(family).estimator
    graph = onnx.load_from_string(chunk_graph(estimator, "bfloat16")).graph
    kinds = {given.type.tensor_type.elem_type for given in (*graph.input, *graph.output)}
    assert kinds - {onnx.TensorProto.INT64} == {onnx.TensorProto.BFLOAT16}
    rounded = deepcopy(estimator).bfloat16()

    def brief(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
        parts = (part.bfloat16() for part in (spks, cond))
        return rounded(x.bfloat16(), mu.bfloat16(), t, *parts, FullContext()).float()

    assert 0 < mel_distance(family, brief) < 8 * MEL_DISTANCE, "three bits fewer than float16"


def mel_distance(family: Family, velocity: Velocity) -> float:
    """Mean between the mels of a solve by `velocity` and one by the flow's own estimator."""
    flow, given = flow_of(family), estimator_inputs(1, 60, seed=3)
    noise = flow.noise[None, :, :60]

    def single(step: int, x: Tensor, mu: Tensor, t: Tensor, spks: Tensor, cond: Tensor) -> Tensor:
        return flow.estimator(x, mu, t, spks, cond, FullContext())

    found, expected = (
        solve(each, flow.config.cfm, noise, given["mu"], given["spks"], given["cond"])
        for each in (velocity, single)
    )
    return float((found - expected).abs().mean())


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", TOLERANCE), ("float16", 0.02)])
@torch.inference_mode()
def test_the_generator_equals_torch(dtype: Dtype, tolerance: float) -> None:
    generator = hift_of("cosyvoice2").generator
    mel, source = generator_inputs(generator.config, 2, 9, 120 * 9 + 1)
    found = Run(generator_graph(generator, dtype))(typed({"mel": mel, "source": source}, dtype))["spectrum"]
    check_spectrum(found, generator(mel, source, FullContext()), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", TOLERANCE), ("float16", 0.02)])
@torch.inference_mode()
def test_the_causal_generator_goes_on_from_its_state(dtype: Dtype, tolerance: float) -> None:
    """A stream's first piece, and the piece after it."""
    generator = hift_of("cosyvoice3").generator
    lookahead = generator.config.lookahead_frames
    first_state = BatchedConvState([{}, {}])
    state: dict[str, Tensor] = {}
    for is_start, frames in ((True, 6), (False, 5)):
        mel, source = generator_inputs(generator.config, 2, frames + lookahead, 120 * frames + int(is_start))
        made = Run(generator_graph(generator, dtype, is_start))(
            typed({"mel": mel, "source": source}, dtype) | state
        )
        check_spectrum(made.pop("spectrum"), generator(mel, source, first_state, is_start), tolerance)
        state = {name.removeprefix("next_"): value for name, value in made.items()}
        assert len(state) == len(first_state.next[0])
        first_state = BatchedConvState(first_state.next)


def generator_inputs(config: Any, rows: int, frames: int, spectra: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(frames)
    mel = torch.randn(rows, config.num_mels, frames, generator=generator)
    return mel, torch.randn(rows, config.istft_n_fft + 2, spectra, generator=generator)


def typed(given: dict[str, Tensor], dtype: Dtype) -> dict[str, Tensor]:
    return {name: value.to(getattr(torch, dtype)) for name, value in given.items()}


def check_spectrum(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """By the error's share of the whole, of float32 each value's too."""
    assert found.dtype == torch.float32
    assert (found - expected).square().mean().sqrt() < tolerance * expected.square().mean().sqrt()
    if tolerance == TOLERANCE:
        torch.testing.assert_close(found, expected, atol=10 * TOLERANCE, rtol=TOLERANCE)
