"""Streams through the engines' seam, with ONNX Runtime in TensorRT's place."""

import threading
import time
from collections.abc import Mapping
from functools import cache

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from torch import Tensor

from firstword.models.networks import Networks
from firstword.models.onnx_graphs.session import session_options
from firstword.models.runtimes.tensorrt.contexts import Bounds, ContextPool, Engine
from firstword.models.runtimes.tensorrt.engines import flow_networks, vocoder_network
from firstword.models.runtimes.tensorrt.library import Part, TensorRTError
from firstword.models.runtimes.tensorrt.parts import parts_of
from firstword.models.token2wav import StreamState, Token2Wav
from firstword.models.token2wav_step import StepInput
from tests.models.networks import random_ids, small_flow, small_hift, small_speaker

TOLERANCE = 2e-4  # of samples within -1..1
WINDOW_S = 2.0
DTYPES = {onnx.TensorProto.FLOAT: torch.float32, onnx.TensorProto.INT64: torch.int64}
KINDS = pytest.mark.parametrize("kind", ["unet", "dit"])


class OrtContext:
    """An execution context by ONNX Runtime, which fails in its `failures` next runs."""

    def __init__(self, session: onnxruntime.InferenceSession):
        self._session = session
        self.failures = 0
        self.runs = 0

    def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        if self.failures:
            self.failures -= 1
            raise TensorRTError("the device is lost")
        assert all(tensor.is_contiguous() for tensor in (*inputs.values(), *outputs.values()))
        names = list(outputs)
        arrays = self._session.run(names, {name: tensor.numpy() for name, tensor in inputs.items()})
        for name, array in zip(names, arrays, strict=True):
            assert outputs[name].shape == array.shape, name
            outputs[name].copy_(torch.from_numpy(np.array(array)))
        self.runs += 1


class FakeEngine(Engine):
    """A part whose one context is at hand."""

    def __init__(self, part: Part):
        model = part.write()
        session = onnxruntime.InferenceSession(model, session_options(1))
        self.context = OrtContext(session)
        bounds = {}
        for given in onnx.load_from_string(model).graph.input:
            sizes = [
                part.ranges[axis.dim_param] if axis.dim_param else (axis.dim_value,) * 3
                for axis in given.type.tensor_type.shape.dim
            ]
            dtype = DTYPES[given.type.tensor_type.elem_type]
            bounds[given.name] = Bounds(tuple(a for a, _, _ in sizes), tuple(b for _, _, b in sizes), dtype)
        super().__init__(bounds, ContextPool(lambda: self.context, 1))


@cache
def engines(kind: str) -> dict[str, FakeEngine]:
    parts = parts_of(small_flow(kind), small_hift(kind == "dit"), "float32", WINDOW_S)
    return {part.name: FakeEngine(part) for part in parts}


def with_engines(kind: str) -> Token2Wav:
    flow, hift = small_flow(kind), small_hift(kind == "dit")
    parts = dict(engines(kind))
    networks = Networks(flow=flow_networks(parts, flow), vocoder=vocoder_network(parts, hift))
    return Token2Wav(flow, hift, WINDOW_S, networks=networks)


def spoken(token2wav: Token2Wav, counts: list[int], has_full_context: bool = False) -> list[Tensor]:
    """Streams of other prompts and lengths together, 25 tokens a step."""
    prompts = [small_speaker(seed, 30 + 20 * seed) for seed in range(len(counts))]
    states: list[StreamState] = [
        token2wav.start(token2wav.compute_prompt_state(prompt), has_full_context=has_full_context)
        for prompt in prompts
    ]
    left = [random_ids(seed, count) for seed, count in enumerate(counts)]
    made: list[list[Tensor]] = [[] for _ in counts]
    while any(not state.is_finished for state in states):
        batch, indices = [], []
        for index, state in enumerate(states):
            if not state.is_finished:
                tokens, left[index] = left[index][:25], left[index][25:]
                batch.append(StepInput(state, tokens, not left[index]))
                indices.append(index)
        for index, samples in zip(indices, token2wav.step(batch), strict=True):
            made[index].append(samples)
    return [torch.cat(parts) for parts in made]


@KINDS
def test_streams_sound_as_with_torch(kind: str) -> None:
    """Of different lengths, past the window's end, solved together and by the engines alone."""
    before = engines(kind)["estimator_chunk"].context.runs
    counts = [130, 40]
    expected = spoken(Token2Wav(small_flow(kind), small_hift(kind == "dit"), WINDOW_S), counts)
    found = spoken(with_engines(kind), counts)
    assert engines(kind)["estimator_chunk"].context.runs > before
    for made, wanted in zip(found, expected, strict=True):
        assert wanted.std() > 0.003
        torch.testing.assert_close(made, wanted, atol=TOLERANCE, rtol=0)


@KINDS
def test_an_utterance_at_once_runs_the_published_form(kind: str) -> None:
    runs = engines(kind)["estimator"].context.runs
    expected = spoken(Token2Wav(small_flow(kind), small_hift(kind == "dit"), WINDOW_S), [30], True)
    found = spoken(with_engines(kind), [30], True)
    assert engines(kind)["estimator"].context.runs == runs + small_flow(kind).config.cfm.num_steps
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)


@KINDS
def test_what_fits_no_profile_runs_in_torch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream may change over in its middle: what it remembers is the same."""
    expected = spoken(with_engines(kind), [70])
    turn = iter(range(10_000))
    monkeypatch.setattr(Engine, "fits", lambda self, inputs: next(turn) % 3 == 0)
    torch.testing.assert_close(spoken(with_engines(kind), [70]), expected, atol=TOLERANCE, rtol=0)


def test_a_failed_run_gives_its_context_back_and_can_be_repeated() -> None:
    expected = spoken(with_engines("unet"), [30])
    token2wav, engine = with_engines("unet"), engines("unet")["estimator_chunk"]
    state = token2wav.start(token2wav.compute_prompt_state(small_speaker(0, 30)))
    engine.context.failures = 1
    with pytest.raises(TensorRTError, match="the device is lost"):
        token2wav.step([StepInput(state, random_ids(0, 30), True)])
    assert engine.pool.num_free == 1
    samples = token2wav.step([StepInput(state, [], True)])
    torch.testing.assert_close(samples, expected, atol=TOLERANCE, rtol=0)


def test_a_context_is_in_use_by_one_thread_at_a_time() -> None:
    in_use: list[object] = []
    refusals: list[int] = []
    most = 0
    lock = threading.Lock()

    class Context:
        def run(self, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
            raise AssertionError("not run")

    pool = ContextPool(Context, 2)

    def work() -> None:
        nonlocal most
        for turn in range(50):
            try:
                with pool.acquired() as context:
                    with lock:
                        assert context not in in_use
                        in_use.append(context)
                        most = max(most, len(in_use))
                    time.sleep(0)
                    with lock:
                        in_use.remove(context)
                    if turn % 7 == 0:
                        raise TensorRTError("once in a while")
            except TensorRTError:
                refusals.append(turn)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert pool.num_free == 2
    assert len(refusals) == 4 * 8
    assert 1 <= most <= 2


def test_wrong_inputs_are_named() -> None:
    engine, mel = engines("unet")["generator"], torch.zeros(1, 80, 20)
    with pytest.raises(TensorRTError, match=r"takes \['mel', 'source'\], not \['mel'\]"):
        engine.fits({"mel": mel})
    with pytest.raises(TensorRTError, match=r"takes source as torch.float32, not torch.float16"):
        engine.fits({"mel": mel, "source": torch.zeros(1, 18, 2401).half()})


def test_the_profiles_hold_what_streams_bring() -> None:
    flow = small_flow("unet")
    ranges = {part.name: part.ranges for part in parts_of(flow, small_hift(False), "float32", 10.0)}
    assert ranges["estimator_chunk"]["rows"] == (2, 2, 16)
    assert ranges["estimator_chunk"]["length"] == (2, 50, 50)
    assert ranges["estimator_chunk"]["past"] == (50, 50 * 23, 50 * 49)
    assert ranges["generator"]["spectra"][2] == 120 * (50 + 12 + 6) + 1
