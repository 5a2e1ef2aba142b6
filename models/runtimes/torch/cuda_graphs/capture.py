"""A run over fixed memory, recorded once as a CUDA graph and replayed; on a CPU it simply runs."""

from collections.abc import Callable

import torch
from torch import Tensor

Run = Callable[[], Tensor]
"""Reads its inputs from memory that stays, and may write there; -> its output."""

WARM_UPS = 3  # libraries choose their kernels and take their memory in the first runs


def captured(run: Run, device: torch.device) -> Run:
    """Return what replays `run`: of a GPU's its output always lies in the same memory.

    `run` is called a few times here, so it has to leave nothing behind that a later run would not overwrite.
    Other threads may use the GPU meanwhile.
    """
    if device.type != "cuda":
        return run
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            run()
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        output = run()

    def replay() -> Tensor:
        graph.replay()
        return output

    return replay
