"""What a process sets on a GPU, and what it plans by its memory and its clock, on a pretended one."""

from itertools import count

import pytest
import torch

from firstword.app.engine.runtimes import first_hop_tokens
from firstword.app.engine.speaker_parts import speaker_cache_bytes
from firstword.app.options import NetworkOptions, SpeakerOptions
from firstword.bench.gpu.pretended import device
from firstword.bench.gpu.pretended.device import pretended_gpu
from firstword.models.cuda import choose_kernels
from firstword.models.token2wav_step import StepTimes

CUDA = torch.device("cuda")


def test_attention_plans_nothing_and_float32_is_float32() -> None:
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    before = cuda.cudnn_sdp_enabled(), cuda.matmul.allow_tf32, cudnn.allow_tf32
    try:
        cuda.enable_cudnn_sdp(True)
        cuda.matmul.allow_tf32 = cudnn.allow_tf32 = True
        choose_kernels()
        assert not cuda.cudnn_sdp_enabled()
        assert not cuda.matmul.allow_tf32
        assert not cudnn.allow_tf32
    finally:
        cuda.enable_cudnn_sdp(before[0])
        cuda.matmul.allow_tf32, cudnn.allow_tf32 = before[1:]


def test_times_of_a_step_are_the_gpus_and_nothing_waits_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the clock says here is when the work was asked for."""
    ticks = count(step=2)
    monkeypatch.setattr(device.time, "perf_counter", lambda: float(next(ticks)))
    times = StepTimes(clock=lambda: pytest.fail("the clock was asked"))
    with pretended_gpu() as gpu, gpu.ledger.staged("marks") as found:
        for _ in range(3):
            times.mark(CUDA)
        times.settle()
    assert (times.flow_s, times.vocoder_s) == (2.0, 2.0)
    assert (found.waits, found.event_waits) == (0, 0)


@pytest.mark.parametrize(
    ("asked_mb", "name", "mib"), [(0, "cpu", 512), (0, "cuda", 8192), (100, "cuda", 100)]
)
def test_speakers_kept_ready_have_a_tenth_of_a_gpu(asked_mb: int, name: str, mib: int) -> None:
    with pretended_gpu():
        options = SpeakerOptions(speaker_cache_mb=asked_mb)
        assert speaker_cache_bytes(options, "cuda" if name == "cuda" else "cpu") == mib << 20


def test_first_hop_is_short_on_a_gpu() -> None:
    with pretended_gpu():
        found = [
            first_hop_tokens(NetworkOptions(device="cpu")),
            first_hop_tokens(NetworkOptions(device="cuda")),
        ]
        assert [*found, first_hop_tokens(NetworkOptions(device="cuda", first_hop_tokens=7))] == [10, 5, 7]
