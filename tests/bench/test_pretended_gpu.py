"""A pretended GPU has a GPU's rules, and what the networks ask of it is bounded: launches, copies, waits."""

import sys
import threading
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import pytest
import torch
from torch import Tensor

from firstword.bench.gpu.pretended import counts, device
from firstword.bench.gpu.pretended.counts import CountedStage
from firstword.bench.gpu.pretended.device import MixedDevices, RefusedWhileRecording, pretended_gpu
from firstword.bench.gpu.pretended.engine import speak
from firstword.bench.random_checkpoint import Size
from firstword.models.config import Family
from firstword.models.runtimes.torch.cuda_graphs.capture import captured

FAMILIES: tuple[Family, ...] = ("cosyvoice2", "cosyvoice3")
CUDA = torch.device("cuda")
LM_THREAD, TOKEN2WAV_THREAD = "speech tokens", "token2wav 0"


def test_mixed_devices_are_refused() -> None:
    with pretended_gpu() as gpu:
        there = torch.ones(3, device="cuda")
        with pytest.raises(MixedDevices, match=r"aten\.add.* with one of \(3,\) on the CPU"):
            there + torch.ones(3)
        with pytest.raises(MixedDevices, match="a generator on the CPU"):
            there.uniform_(generator=torch.Generator())
        assert (there + 1).cpu().tolist() == [2, 2, 2]
        assert len(gpu.ledger.faults) == 2
    assert not torch.cuda.is_available()


def test_launches_copies_and_waits_are_counted() -> None:
    with pretended_gpu() as gpu:
        x = torch.zeros(4, device="cuda")
        pinned = torch.ones(4, pin_memory=True)
        with gpu.ledger.staged("here") as found:
            x.add_(1)[:2].mul_(2)
            assert (found.launches, found.waits) == (2, 0)
            x.copy_(pinned, non_blocking=True)
            assert (found.pinned_copies, found.waits) == (1, 0)
            x.copy_(torch.ones(4), non_blocking=True)
            assert (found.pageable_copies, found.waits) == (1, 1)
            assert x.sum().item() == 4
            assert x.tolist() == [1, 1, 1, 1]
            torch.cuda.synchronize()
            assert found.waits == 4
            event = torch.cuda.Event()
            event.record()
            event.synchronize()
            assert (found.event_waits, found.waits) == (1, 4)
        where = [line.partition(" at ") for line in gpu.ledger.waits["here"]]
        assert all(place.startswith("tests/bench/test_pretended_gpu.py:") for _, _, place in where)


def test_custom_operation_and_kernel_of_triton_are_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what is fused into an operation of our own is one launch, and is not hidden from the count."""

    class JITFunction:
        def run(self, x: Tensor, out: Tensor, *, grid: tuple[int, ...], warmup: bool) -> None:
            assert type(x) is Tensor, "a kernel sees memory"
            out.copy_(2 * x)

    import torch._dynamo  # a first custom operation does, and must not meet another Triton; it takes seconds

    jit, interpreter = ModuleType("triton.runtime.jit"), ModuleType("triton.runtime.interpreter")
    jit.JITFunction = JITFunction  # type: ignore[attr-defined]
    interpreter.GridExecutor = type("GridExecutor", (), {"__call__": None})  # type: ignore[attr-defined]
    for name in ("triton", "triton.runtime"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "triton.runtime.jit", jit)
    monkeypatch.setitem(sys.modules, "triton.runtime.interpreter", interpreter)
    doubled = torch.library.custom_op("firstword_tests::doubled", mutates_args=())(_doubled)
    with pretended_gpu() as gpu:
        x, out = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
        with gpu.ledger.staged("planted") as found:
            assert found.launches == 0
            JITFunction().run(x, out, grid=(1,), warmup=False)
            assert found.launches == 1
            twice = doubled(x)
            assert found.launches == 2
        assert out.tolist() == twice.tolist() == [2, 2, 2]

        def run() -> Tensor:
            JITFunction().run(x, out, grid=(1,), warmup=False)
            return doubled(out)

        replay = captured(run, CUDA)
        with gpu.ledger.staged("replayed") as found:
            x.fill_(3)
            assert replay().tolist() == [12, 12, 12]
        assert (found.launches, found.replays, found.nodes) == (1, 1, 2)


def _doubled(x: Tensor) -> Tensor:
    return x * 2


def test_graph_does_what_was_recorded_over_memory_that_stays() -> None:
    with pretended_gpu() as gpu:
        x, kept = torch.ones(3, device="cuda"), torch.zeros(3, device="cuda")
        factor = [2.0]

        def run() -> Tensor:
            kept[:2] += x[:2]
            return (x * factor[0]).view(3, 1)

        replay = captured(run, CUDA)
        first = replay()
        kept.zero_()
        factor[0] = 100.0  # a number of Python's is part of the recording
        x.fill_(5)
        assert replay() is first
        assert first.flatten().tolist() == [10, 10, 10]
        assert kept.tolist() == [5, 5, 0]
        assert [one.nodes for one in gpu.ledger.recordings] == [3]


def test_wait_while_recording_is_refused() -> None:
    with pretended_gpu() as gpu:
        x = torch.ones(3, device="cuda")
        graph = torch.cuda.CUDAGraph()
        with (
            pytest.raises(RefusedWhileRecording, match="item while a graph is recorded"),
            torch.cuda.graph(graph),
        ):
            x.sum().item()
        with pytest.raises(RefusedWhileRecording, match="pageable"), torch.cuda.graph(graph):
            x.copy_(torch.zeros(3))
        assert len(gpu.ledger.faults) == 2


def test_one_graph_is_recorded_at_a_time() -> None:
    """Two threads that begin together, as the language model's and token2wav's do."""
    together = threading.Barrier(2)
    with pretended_gpu() as gpu:
        x = torch.ones(3, device="cuda")

        def run() -> Tensor:
            y = x
            for _ in range(50):
                y = y * 1.5
            return y

        def record() -> None:
            together.wait()
            for _ in range(5):
                captured(run, CUDA)

        threads = [threading.Thread(target=record) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert gpu.ledger.faults == []
        assert len(gpu.ledger.recordings) == 10
        together.reset()
        with (
            pytest.raises(RefusedWhileRecording, match="begins to record while"),
            torch.cuda.graph(torch.cuda.CUDAGraph()),
        ):
            gpu.begin_recording()


@dataclass(frozen=True, slots=True)
class Bounds:
    """At most, of one run of a stage. nodes: of its replays together."""

    launches: int
    waits: int
    replays: int = 0
    nodes: int = 0
    copies: int = 0  # pinned ones, which wait for nothing
    event_waits: int = 0  # in which the GPU goes on


@cache
def counted(family: Family, streams: int) -> dict[str, CountedStage]:
    """As deep as published for one stream; for eight small: launches outside of replays are as many.

    With one step of the solver, which is a tenth of a chunk's nodes but for those of its front.
    """
    size: Size = "narrow" if streams == 1 else "small"
    found = counts.count((family,), ("graphs",), (streams,), size, solver_steps=1)
    return {one.stage: one for one in found}


# What they are now stands behind. A token had 90 to 97 launches and a wait, a prompt 702 to 709 launches,
# while they were drawn outside of graphs; a piece of CosyVoice 2's vocoder 104, for eight streams 140. A
# chunk had 2,413 to 6,930 launches, 31 waits and 10 replays, for eight streams 18,161 to 53,290 launches,
# while its state was copied into a graph's memory. A token had 781 to 788 nodes, a step of the solver 932
# and 1,075, while each projection, rotation and residual connection was a kernel by itself; 334 and 768 while
# a chunk's keys were written, all pages gathered and attended to by three kernels.
BOUNDS: dict[tuple[Family, int, str], Bounds] = {
    ("cosyvoice3", 1, "LM prefill"): Bounds(0, 0, 1, 450, 2, 1),  # 437, 442
    ("cosyvoice3", 1, "LM token"): Bounds(0, 0, 1, 400, 2, 1),  # 391, 396
    ("cosyvoice3", 1, "flow chunk, first hop"): Bounds(8, 0, 1, 380, copies=1),  # 5, 369; 290 a step
    ("cosyvoice3", 1, "flow chunk, later hop"): Bounds(8, 0, 1, 380, copies=1),  # 4
    ("cosyvoice3", 1, "vocoder piece, later hop"): Bounds(8, 0, 1, 1300, copies=1),  # 3, 1199
    ("cosyvoice3", 1, "samples to the host, first hop"): Bounds(1, 0, copies=1, event_waits=1),
    ("cosyvoice3", 8, "LM token"): Bounds(0, 0, 1, 135, 2, 1),  # 127, 132
    ("cosyvoice3", 8, "flow chunk, first hop"): Bounds(16, 0, 1, 140, copies=1),  # 12, 132
    ("cosyvoice3", 8, "vocoder piece, first hop"): Bounds(8, 0, 1, 1800, copies=1),  # 2, 1750
    ("cosyvoice3", 8, "samples to the host, first hop"): Bounds(1, 0, copies=1, event_waits=1),
    ("cosyvoice2", 1, "LM prefill"): Bounds(0, 0, 1, 450, 2, 1),  # 437, 442
    ("cosyvoice2", 1, "LM token"): Bounds(0, 0, 1, 400, 2, 1),  # 391, 396
    ("cosyvoice2", 1, "flow chunk, first hop"): Bounds(8, 0, 1, 1075, copies=1),  # 5, 1052; 656 a step
    ("cosyvoice2", 1, "flow chunk, later hop"): Bounds(8, 0, 1, 1075, copies=1),  # 4
    ("cosyvoice2", 1, "vocoder piece, later hop"): Bounds(8, 0, 1, 1050, copies=1),  # 3, 1027
    ("cosyvoice2", 1, "samples to the host, first hop"): Bounds(1, 0, copies=1, event_waits=1),
    ("cosyvoice2", 8, "LM token"): Bounds(0, 0, 1, 135, 2, 1),  # 127, 132
    ("cosyvoice2", 8, "flow chunk, first hop"): Bounds(16, 0, 1, 435, copies=1),  # 12, 424
    ("cosyvoice2", 8, "vocoder piece, first hop"): Bounds(8, 0, 1, 1050, copies=1),  # 2, 1020
    ("cosyvoice2", 8, "samples to the host, first hop"): Bounds(1, 0, copies=1, event_waits=1),
}


@pytest.mark.slow
@pytest.mark.parametrize(("family", "streams", "stage"), BOUNDS)
def test_stage_asks_no_more_of_a_gpu(family: Family, streams: int, stage: str) -> None:
    """More launches outside of replays: Python binds. More waits: the GPU stands still meanwhile."""
    found, bounds = counted(family, streams)[stage].counts, BOUNDS[family, streams, stage]
    asked = Bounds(
        found.launches, found.waits, found.replays, found.nodes, found.pinned_copies, found.event_waits
    )
    for name in Bounds.__slots__:
        assert getattr(asked, name) <= getattr(bounds, name), (name, counted(family, streams)[stage].waits)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "num_layers"), [("cosyvoice2", 4), ("cosyvoice3", 2)])
def test_attention_without_its_kernel_is_three_instead(family: Family, num_layers: int) -> None:
    """What writes a chunk's keys and values, what gathers all pages, and attention."""
    found = counts.count((family,), ("graphs", "plain"), (1,), "small", solver_steps=1)
    fused, plain = (one.counts for one in found if one.stage == "flow chunk, later hop")
    assert plain.nodes - fused.nodes == 2 * num_layers
    assert (plain.launches, plain.replays, plain.waits) == (fused.launches, 1, 0)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_engine_starts_and_speaks_on_a_gpu(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is mixed, nothing illegal recorded, no two recordings overlap; all graphs are made at start.

    The language model's stream is before token2wav's.
    """
    priorities: dict[str, int] = {}
    new_stream = device._Stream.__init__

    def noted(stream: device._Stream, of: object = None, priority: int = 0) -> None:
        priorities.setdefault(threading.current_thread().name, priority)
        new_stream(stream, of, priority)

    monkeypatch.setattr(device._Stream, "__init__", noted)
    run = speak(family)
    assert run.ledger.faults == []
    assert all(seconds > 0.2 for seconds in run.audio_s)
    at_start, later = run.recorded
    assert at_start > 0
    assert later == 0
    assert run.waits <= 3 * len(run.audio_s), run.ledger.waits
    assert priorities[LM_THREAD] < priorities[TOKEN2WAV_THREAD] == 0
