"""What a process sets for its networks on a GPU; how work and numbers get there and back without waiting."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Numbers = Sequence[int] | Sequence[float] | Sequence[bool] | Sequence[Sequence[int]]


def choose_kernels() -> None:
    """Choose among torch's kernels on a GPU, for the whole process, before anything runs there.

    cuDNN's attention, torch's first choice on Hopper, makes a plan of 20 to 40 ms for each new number of keys
    and in each thread; here every token and every prompt has another one. Float32 is float32, in convolutions
    too, where torch would take TF32: what stays float32 beside bfloat16 has to be exact, and is small.
    """
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def card_bytes() -> int:
    """Memory of the GPU."""
    return torch.cuda.mem_get_info()[1]


@contextmanager
def own_stream(device: torch.device, is_urgent: bool = False) -> Iterator[None]:
    """Let this thread's work on a GPU be in order by itself, not behind other threads'; on a CPU nothing.

    It begins after what was asked for before. is_urgent: before what is not, where both could run.
    """
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device, priority=-1 if is_urgent else 0)
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield


def wait_for_shared_work(device: torch.device) -> None:
    """Let this thread's stream begin behind what threads without one asked for: prompts, new states."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).wait_stream(torch.cuda.default_stream(device))


def pinned(numbers: Numbers, device: torch.device) -> Tensor:
    """Return a tensor on the CPU that can be copied to the device without waiting."""
    return torch.tensor(numbers, pin_memory=device.type == "cuda")


def to_device(numbers: Numbers, device: torch.device) -> Tensor:
    """Return a tensor on the device without waiting for it, as `torch.tensor(..., device=...)` would."""
    return pinned(numbers, device).to(device, non_blocking=True)


def integers_to_device(device: torch.device, *parts: Numbers) -> list[Tensor]:
    """Return a tensor of int64 of each part, all copied at once."""
    tensors = [torch.tensor(part, dtype=torch.long) for part in parts]
    if device.type != "cuda":
        return tensors
    joined = torch.cat([one.flatten() for one in tensors]).pin_memory().to(device, non_blocking=True)
    pieces = joined.split([one.numel() for one in tensors])
    return [piece.view(one.shape) for piece, one in zip(pieces, tensors, strict=True)]


def samples_to_host(tensors: Sequence[Tensor]) -> list[npt.NDArray[np.float32]]:
    """Copy tensors (N,) of one device to the CPU, all at once; the one wait of a step."""
    if not tensors or tensors[0].device.type != "cuda":
        return [tensor.to("cpu", torch.float32).numpy() for tensor in tensors]
    joined = torch.cat([*tensors]).float()
    host = torch.empty(joined.shape, dtype=torch.float32, pin_memory=True)
    host.copy_(joined, non_blocking=True)
    done = torch.cuda.Event()
    done.record()
    done.synchronize()
    return [piece.numpy().copy() for piece in host.split([len(tensor) for tensor in tensors])]
