"""Attention of a chunk over its stream's pages, as an operation that is one kernel of a graph.

On a GPU it is a kernel of Triton (paged_attention_kernel.py) that reads the pages where they are. Its plain
form gathers them; it runs on a CPU, and on a GPU for which Triton cannot build the kernel.
"""

import logging
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

_log = logging.getLogger(__name__)

MAX_ERROR, MAX_ERROR_16_BIT = 1e-5, 1e-2  # of values about 1


def attend_over_pages(qkv: Tensor, slab: Tensor, own: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
    """Write the chunk's keys and values to its page, attend to all visible ones.

    Of B streams with G rows each, N pages of F frames in memory, P of them seen by a stream:
    qkv (B G, F, 3, H, D), slab (N 2 G H, F, D), own (B,): the page that is written, rows (2 B G H P,): of the
    slab, what keys and values are seen, bias (B G, 1, 1, P F): 0 or -inf, finite somewhere in the first page
    -> (B G, F, H D).
    """
    made: Tensor = torch.ops.firstword.attend_over_pages(qkv.contiguous(), slab, own, rows, bias)
    return made


def write_own(slab: Tensor, own: Tensor, keys_values: Tensor) -> None:
    """Write the chunk's keys and values (2, B G, H, F, D) to the pages `own` (B,)."""
    in_pages = keys_values.unflatten(1, (len(own), -1)).transpose(0, 1)  # (B, 2, G, H, F, D)
    slab.view(-1, *in_pages.shape[1:]).index_copy_(0, own, in_pages)


def gathered(slab: Tensor, rows: Tensor, num_heads: int, num_rows: int) -> Tensor:
    """-> visible keys and values (2, B G, H, P F, D)."""
    return slab.index_select(0, rows).view(2, num_rows, num_heads, -1, slab.shape[-1])


def attend_plainly(qkv: Tensor, slab: Tensor, own: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
    """As `attend_over_pages`."""
    write_own(slab, own, qkv[:, :, 1:].permute(2, 0, 3, 1, 4))
    keys, values = gathered(slab, rows, qkv.shape[3], len(qkv))
    y = F.scaled_dot_product_attention(qkv[:, :, 0].transpose(1, 2), keys, values, attn_mask=bias)
    return y.transpose(1, 2).flatten(2)


def _attend_on_gpu(qkv: Tensor, slab: Tensor, own: Tensor, rows: Tensor, bias: Tensor) -> Tensor:
    num_rows, frames, _, num_heads, size = qkv.shape
    if not has_kernel(qkv.dtype, qkv.device, num_rows // len(own), frames, num_heads, size):
        return attend_plainly(qkv, slab, own, rows, bias)
    from firstword.models.runtimes.torch.cuda_graphs.paged_attention_kernel import attend

    return attend(qkv, slab, own, rows, bias)


@cache
def has_kernel(
    dtype: torch.dtype, device: torch.device, group: int, frames: int, num_heads: int, size: int
) -> bool:
    """Return whether Triton builds the kernel of these sizes, and it gives and writes the right values."""
    generator = torch.Generator(device).manual_seed(0)
    qkv = torch.randn(group, frames, 3, num_heads, size, generator=generator, device=device, dtype=dtype)
    page = 2 * group * num_heads
    slab = torch.randn(3 * page, frames, size, generator=generator, device=device, dtype=dtype)
    own = torch.tensor([2], device=device)
    rows = (torch.tensor([1, 2], device=device) * page + torch.arange(page, device=device)[:, None]).flatten()
    bias = qkv.new_zeros(group, 1, 1, 2 * frames)
    bias[..., 2 * frames - frames // 4 :] = float("-inf")
    written = slab.clone()
    wanted = attend_plainly(qkv, written, own, rows, bias)
    try:
        from firstword.models.runtimes.torch.cuda_graphs.paged_attention_kernel import attend

        error = (attend(qkv, slab, own, rows, bias) - wanted).abs().max().item()
    except Exception as failed:  # of many kinds: no Triton, no compiler, a driver that does not fit
        _log.warning("attention's kernel cannot be built, the flow takes more kernels without: %s", failed)
        return False
    is_right = error <= (MAX_ERROR if dtype is torch.float32 else MAX_ERROR_16_BIT) and slab.equal(written)
    if not is_right:
        _log.warning("attention's kernel is %.2g off and is not used, the flow takes more without", error)
    return is_right


_library = torch.library.Library("firstword", "DEF")
_library.define(
    "attend_over_pages(Tensor qkv, Tensor(a!) slab, Tensor own, Tensor rows, Tensor bias) -> Tensor"
)
_library.impl("attend_over_pages", attend_plainly, "CPU")
_library.impl("attend_over_pages", _attend_on_gpu, "CUDA")
